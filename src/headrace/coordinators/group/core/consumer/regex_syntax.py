r"""The syntax of regular expressions for subscriptions: text in, a tree out. `regex` makes an automaton of the tree.

Understood: literals, `.`, `[a-z]`, `[^…]`, `\d \D \w \W \s \S`, escapes, `( )`, `(?: )`, `(?P<name> )`, `|`, `* + ?`,
`{m}`, `{m,}`, `{m,n}`, lazy variants (the same set of names), `^`, `$`, `\A`, `\z`, a leading `(?i)` and `\Q…\E`.
Refused, as by RE2: back-references and look-around.

A client chooses the text, so memory and time are bounded by its length, and the length is limited. A class is held as
intervals. Each node knows how many states it becomes, and the parser stops at MAX_STATES. What matches only the empty
name becomes no state, and a repetition of it is dropped: nested ones (`((){999}){999}`) would take time without end.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from headrace.kernel.dataclass import dataclass

MAX_STATES: Final = 4_000
# Each literal character becomes a state, so only the text of classes could be longer.
MAX_LENGTH: Final = MAX_STATES
MAX_REPEAT: Final = 1_000  # RE2's own limit
# A group takes up to five calls of Python, whose stack holds a thousand.
_MAX_DEPTH: Final = 100
_SHOWN_CHARACTERS: Final = 100

Interval = tuple[int, int]
"""The codes of the first and the last character."""

_DIGITS: Final = ((0x30, 0x39),)
_WORDS: Final = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACES: Final = ((0x09, 0x0D), (0x20, 0x20))
_CLASSES: Final = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class BadRegex(ValueError):
    """The message has the error and its position."""


def shown(text: str) -> str:
    """The expression in a message."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


@dataclass(frozen=True, slots=True)
class CharSet:
    """`bounds`: the code of the first character of each interval and the code after its last one, ascending."""

    bounds: tuple[int, ...]
    negated: bool = False
    ignore_case: bool = False

    @classmethod
    def of(cls, intervals: list[Interval], *, negated: bool = False, ignore_case: bool = False) -> CharSet:
        bounds: list[int] = []
        for first, last in sorted(intervals):
            if bounds and first <= bounds[-1]:
                bounds[-1] = max(bounds[-1], last + 1)
            else:
                bounds += (first, last + 1)
        return cls(tuple(bounds), negated, ignore_case)

    def takes(self, char: str) -> bool:
        inside = self._has(char)
        if self.ignore_case and not inside:
            inside = any(len(other) == 1 and self._has(other) for other in (char.lower(), char.upper()))
        return inside != self.negated

    def _has(self, char: str) -> bool:
        return bisect_right(self.bounds, ord(char)) % 2 == 1


@dataclass(frozen=True, slots=True)
class Node:
    """'set', 'cat', 'alt', 'repeat', 'begin' or 'end'. `states`: how many states of an automaton it becomes."""

    kind: str
    states: int
    parts: tuple[Node, ...] = ()
    chars: CharSet | None = None
    low: int = 0
    high: int | None = None


EMPTY: Final = Node("cat", 0)


def parse(text: str) -> Node:
    """Raises BadRegex."""
    if len(text) > MAX_LENGTH:
        raise BadRegex(f"{shown(text)}: {len(text)} characters; at most {MAX_LENGTH} are allowed")
    try:
        return _Parser(text).parse()
    except RecursionError:
        raise BadRegex(f"{shown(text)}: nested too deeply") from None


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ignore_case = False
        self.depth = 0

    def parse(self) -> Node:
        if self.text.startswith("(?i)"):
            self.ignore_case = True
            self.at = 4
        node = self._alternatives()
        if self.at < len(self.text):
            raise self._bad("unexpected )")
        return node

    def _bad(self, why: str) -> BadRegex:
        return BadRegex(f"{shown(self.text)}: {why} at character {self.at + 1}")

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise self._bad("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _counted(self, states: int) -> int:
        """One state is left for the end of the automaton."""
        if states >= MAX_STATES:
            raise self._bad(f"more than {MAX_STATES} states")
        return states

    def _alternatives(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._bad("groups are nested too deeply")
        branches = [self._sequence()]
        states = 1 + branches[0].states
        while self._peek() == "|":
            self.at += 1
            branch = self._sequence()
            states = self._counted(states + branch.states)
            # One empty branch is as good as many.
            if branch.states or all(other.states for other in branches):
                branches.append(branch)
        self.depth -= 1
        if len(branches) == 1:
            return branches[0]
        return Node("alt", states, tuple(branches))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        states = 0
        while self._peek() not in ("", "|", ")"):
            read = self._quoted() if self.text.startswith("\\Q", self.at) else [self._repeated(self._atom())]
            states = self._counted(states + sum(node.states for node in read))
            parts += (node for node in read if node.states)
        return parts[0] if len(parts) == 1 else Node("cat", states, tuple(parts))

    def _quoted(self) -> list[Node]:
        begin = self.at + 2
        end = self.text.find("\\E", begin)
        self.at = len(self.text) if end < 0 else end + 2
        return [self._literal(char) for char in self.text[begin : len(self.text) if end < 0 else end]]

    def _repeated(self, node: Node) -> Node:
        while True:
            char = self._peek()
            if char in _SIGNS:
                self.at += 1
                low, high = _SIGNS[char]
            elif char == "{" and (bounds := self._bounds()) is not None:
                low, high = bounds
            else:
                return node
            if self._peek() == "?":  # lazy: changes which match is found, not whether there is one
                self.at += 1
            node = self._repeat(node, low, high)

    def _repeat(self, node: Node, low: int, high: int | None) -> Node:
        if not node.states or high == 0:
            return EMPTY
        if (low, high) == (1, 1):
            return node
        signs = _SIGNS.values()
        if node.kind == "repeat" and (low, high) in signs and (node.low, node.high) in signs:
            if (low, high) == (node.low, node.high):
                return node
            return self._repeat(node.parts[0], *_SIGNS["*"])
        optional = 1 + node.states if high is None else (high - low) * (1 + node.states)
        return Node("repeat", self._counted(optional + low * node.states), (node,), low=low, high=high)

    def _bounds(self) -> tuple[int, int | None] | None:
        """{m}, {m,}, {m,n}; anything else in braces is literal text, as in RE2."""
        end = self.text.find("}", self.at)
        low_text, comma, high_text = self.text[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _is_number(low_text) or (high_text and not _is_number(high_text)):
            return None
        if len(low_text) > 4 or len(high_text) > 4 or max(int(low_text), int(high_text or 0)) > MAX_REPEAT:
            raise self._bad(f"more than {MAX_REPEAT} repetitions")
        low = int(low_text)
        high = low if not comma else int(high_text) if high_text else None
        if high is not None and high < low:
            raise self._bad("a repetition whose end is below its beginning")
        self.at = end + 1
        return low, high

    def _atom(self) -> Node:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == ".":
            return _set(CharSet.of([(0x0A, 0x0A)], negated=True))
        if char == "^":
            return Node("begin", 1)
        if char == "$":
            return Node("end", 1)
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise self._bad(f"nothing before {char} to repeat")
        return self._literal(char)

    def _literal(self, char: str) -> Node:
        return _set(CharSet.of([(ord(char), ord(char))], ignore_case=self.ignore_case))

    def _group(self) -> Node:
        if self._peek() == "?":
            rest = self.text[self.at : self.at + 4]
            if rest.startswith("?:"):
                self.at += 2
            elif rest.startswith(("?P<", "?<")) and not rest.startswith(("?<=", "?<!")):
                end = self.text.find(">", self.at)
                if end < 0:
                    raise self._bad("a group name without its end")
                self.at = end + 1
            else:
                raise self._bad("look-around and flags inside are not supported")
        node = self._alternatives()
        if self._peek() != ")":
            raise self._bad("a group without its )")
        self.at += 1
        return node

    def _escape(self) -> Node:
        char = self._next()
        if char in ("A", "z"):
            return Node("begin" if char == "A" else "end", 1)
        if char in _CONTROLS:
            return self._literal(_CONTROLS[char])
        if char.lower() in _CLASSES:
            return _set(CharSet.of(list(_CLASSES[char.lower()]), negated=char.isupper()))
        if char.isalnum():
            raise self._bad(f"\\{char} is not supported")
        return self._literal(char)

    def _class(self) -> Node:
        negated = self._peek() == "^"
        self.at += negated
        intervals: list[Interval] = []
        first = True
        while (char := self._next()) != "]" or first:
            first = False
            low = self._class_char(char, intervals)
            if low is None:
                continue
            high = low
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                end = self._class_char(self._next(), intervals)
                if end is None or end < low:
                    raise self._bad("a range of characters that is none")
                high = end
            intervals.append((ord(low), ord(high)))
        return _set(CharSet.of(intervals, negated=negated, ignore_case=self.ignore_case))

    def _class_char(self, char: str, intervals: list[Interval]) -> str | None:
        if char != "\\":
            return char
        escaped = self._next()
        if escaped in _CLASSES:
            intervals += _CLASSES[escaped]
            return None
        if escaped in _CONTROLS:
            return _CONTROLS[escaped]
        if escaped.isalnum():
            raise self._bad(f"\\{escaped} is not supported in a class")
        return escaped


def _set(chars: CharSet) -> Node:
    return Node("set", 1, chars=chars)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
