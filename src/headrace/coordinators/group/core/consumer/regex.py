r"""Regular expressions for subscriptions. Matching takes time linear in the text.

A client sends the expression and the broker matches it, on its event loop, against every topic. With a backtracking
matcher (Python's `re`) one client could block the broker with `(a+)+b`. Kafka uses RE2 for the same reason. This module
compiles to a small automaton and follows all its states at once. It caches the sets of states, so after a few names a
match costs a dictionary look-up per character. A topic matches when the whole name does.

Understood: literals, `.`, `[a-z]`, `[^…]`, `\d \D \w \W \s \S`, escapes, `( )`, `(?: )`, `(?P<name> )`, `|`, `* + ?`,
`{m}`, `{m,}`, `{m,n}`, lazy variants (the same set of names), `^`, `$`, `\A`, `\z`, a leading `(?i)` and `\Q…\E`.
Refused, as by RE2: back-references and look-around. Also refused: expressions of more than MAX_STATES states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from typing import Final

from headrace.kernel.dataclass import dataclass

MAX_STATES: Final = 4_000
MAX_REPEAT: Final = 1_000  # RE2's own limit
_MAX_REMEMBERED: Final = 2_000
_MAX_DEPTH: Final = 200

_DIGITS: Final = frozenset("0123456789")
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SPACES: Final = frozenset(" \t\n\r\f\v")
_CLASSES: Final = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


# Filters the names that a member may describe: its expression matches no others.
TopicFilter = Callable[[Iterable[str]], Collection[str]]


class BadRegex(ValueError):
    """The message has the error and its position."""


@dataclass(frozen=True, slots=True)
class _Chars:
    chars: frozenset[str]
    negated: bool = False

    def takes(self, char: str) -> bool:
        return (char in self.chars) != self.negated


@dataclass(slots=True)
class _Node:
    """literal set, 'cat', 'alt', 'repeat', 'begin', 'end', 'empty'"""

    kind: str
    parts: list[_Node] = field(default_factory=list)
    chars: _Chars | None = None
    low: int = 0
    high: int | None = None


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ignore_case = False
        self.depth = 0

    def parse(self) -> _Node:
        if self.text.startswith("(?i)"):
            self.ignore_case = True
            self.at = 4
        node = self._alternatives()
        if self.at < len(self.text):
            raise self._bad("unexpected )")
        return node

    def _bad(self, why: str) -> BadRegex:
        return BadRegex(f"{self.text!r}: {why} at character {self.at + 1}")

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise self._bad("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _alternatives(self) -> _Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._bad("groups are nested too deeply")
        branches = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence())
        self.depth -= 1
        return branches[0] if len(branches) == 1 else _Node("alt", branches)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            parts += self._quoted() if self.text.startswith("\\Q", self.at) else [self._repeated(self._atom())]
        return _Node("cat", parts)

    def _quoted(self) -> list[_Node]:
        begin = self.at + 2
        end = self.text.find("\\E", begin)
        self.at = len(self.text) if end < 0 else end + 2
        return [self._literal(char) for char in self.text[begin : len(self.text) if end < 0 else end]]

    def _repeated(self, node: _Node) -> _Node:
        while True:
            char = self._peek()
            if char in ("*", "+", "?"):
                self.at += 1
                low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            elif char == "{" and (bounds := self._bounds()) is not None:
                low, high = bounds
            else:
                return node
            if self._peek() == "?":  # lazy: changes which match is found, not whether there is one
                self.at += 1
            node = _Node("repeat", [node], low=low, high=high)

    def _bounds(self) -> tuple[int, int | None] | None:
        """{m}, {m,}, {m,n}; anything else in braces is literal text, as in RE2."""
        end = self.text.find("}", self.at)
        low_text, comma, high_text = self.text[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not low_text.isascii() or not low_text.isdigit() or (high_text and not high_text.isdigit()):
            return None
        if len(low_text) > 4 or len(high_text) > 4 or max(int(low_text), int(high_text or 0)) > MAX_REPEAT:
            raise self._bad(f"more than {MAX_REPEAT} repetitions")
        low = int(low_text)
        high = low if not comma else int(high_text) if high_text else None
        if high is not None and high < low:
            raise self._bad("a repetition whose end is below its beginning")
        self.at = end + 1
        return low, high

    def _atom(self) -> _Node:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == ".":
            return _Node("set", chars=_Chars(frozenset("\n"), negated=True))
        if char == "^":
            return _Node("begin")
        if char == "$":
            return _Node("end")
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise self._bad(f"nothing before {char} to repeat")
        return self._literal(char)

    def _literal(self, char: str) -> _Node:
        chars = {char.lower(), char.upper()} if self.ignore_case else {char}
        return _Node("set", chars=_Chars(frozenset(chars)))

    def _group(self) -> _Node:
        if self._peek() == "?":
            rest = self.text[self.at :]
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

    def _escape(self) -> _Node:
        char = self._next()
        if char in ("A", "z"):
            return _Node("begin" if char == "A" else "end")
        if char in _CONTROLS:
            return self._literal(_CONTROLS[char])
        if char.lower() in _CLASSES:
            return _Node("set", chars=_Chars(_CLASSES[char.lower()], negated=char.isupper()))
        if char.isalnum():
            raise self._bad(f"\\{char} is not supported")
        return self._literal(char)

    def _class(self) -> _Node:
        negated = self._peek() == "^"
        self.at += negated
        chars: set[str] = set()
        first = True
        while (char := self._next()) != "]" or first:
            first = False
            low = self._class_char(char, chars)
            if low is None:
                continue
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._class_char(self._next(), chars)
                if high is None or high < low or ord(high) - ord(low) > 0xFFFF:
                    raise self._bad("a range of characters that is none")
                chars.update(map(chr, range(ord(low), ord(high) + 1)))
            else:
                chars.add(low)
        if self.ignore_case:
            chars |= {c.lower() for c in chars} | {c.upper() for c in chars}
        return _Node("set", chars=_Chars(frozenset(chars), negated))

    def _class_char(self, char: str, chars: set[str]) -> str | None:
        if char != "\\":
            return char
        escaped = self._next()
        if escaped in _CLASSES:
            chars |= _CLASSES[escaped]
            return None
        if escaped in _CONTROLS:
            return _CONTROLS[escaped]
        if escaped.isalnum():
            raise self._bad(f"\\{escaped} is not supported in a class")
        return escaped


class Regex:
    """`Regex("orders-.*").matches("orders-eu")`. Raises BadRegex."""

    def __init__(self, text: str) -> None:
        self.text = text
        # Each state: (set of characters or None, where they lead, states reached without reading, anchor).
        self._chars: list[_Chars | None] = []
        self._to: list[int] = []
        self._free: list[list[int]] = []
        self._anchor: list[str] = []
        self._final = self._state()
        start = self._build(_Parser(text).parse(), self._final)
        self._start = self._closure([start], at_begin=True)
        self._known: dict[frozenset[int], dict[str, frozenset[int]]] = {}

    def matches(self, name: str) -> bool:
        states = self._start
        for char in name:
            known = self._known.get(states)
            if known is None:
                if len(self._known) > _MAX_REMEMBERED:
                    self._known.clear()
                known = self._known[states] = {}
            following = known.get(char)
            if following is None:
                reached = [self._to[s] for s in states if (c := self._chars[s]) is not None and c.takes(char)]
                following = known[char] = self._closure(reached, at_begin=False)
            if not following:
                return False
            states = following
        # Without text on either side both anchors hold for an empty name; "$" holds at the end of any.
        return self._final in self._closure(states, at_begin=not name, at_end=True)

    def _state(self, chars: _Chars | None = None, to: int = -1, free: tuple[int, ...] = (), anchor: str = "") -> int:
        if len(self._chars) >= MAX_STATES:
            raise BadRegex(f"{self.text[:100]!r}: too large")
        self._chars.append(chars)
        self._to.append(to)
        self._free.append(list(free))
        self._anchor.append(anchor)
        return len(self._chars) - 1

    def _build(self, node: _Node, after: int) -> int:
        """The state that reads `node` and continues at `after`."""
        if node.kind == "set":
            return self._state(node.chars, after)
        if node.kind == "cat":
            for part in reversed(node.parts):
                after = self._build(part, after)
            return after
        if node.kind == "alt":
            return self._state(free=tuple(self._build(part, after) for part in node.parts))
        if node.kind in ("begin", "end"):
            return self._state(free=(after,), anchor=node.kind)
        return self._build_repeat(node, after)

    def _build_repeat(self, node: _Node, after: int) -> int:
        body = node.parts[0]
        if node.high is None:
            loop = self._state(free=(after,))
            self._free[loop].append(self._build(body, loop))
            after = loop
        else:
            for _ in range(node.high - node.low):
                after = self._state(free=(self._build(body, after), after))
        for _ in range(node.low):
            after = self._build(body, after)
        return after

    def _closure(self, states: list[int] | frozenset[int], *, at_begin: bool, at_end: bool = False) -> frozenset[int]:
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            found.add(state)
            anchor = self._anchor[state]
            if (anchor == "begin" and not at_begin) or (anchor == "end" and not at_end):
                continue
            waiting += self._free[state]
        return frozenset(found)
