"""Regular expressions for subscriptions. Matching takes time linear in the text.

A client sends the expression and the broker matches it, on its event loop, against every topic. With a backtracking
matcher (Python's `re`) one client could block the broker with `(a+)+b`. Kafka uses RE2 for the same reason. This module
compiles to a small automaton and follows all its states at once. It remembers the sets of states, so after a few names
a match costs a dictionary look-up per character. A topic matches when the whole name does.

An expression like `.*[a-m].{200}` reaches another set of states with almost each character, so that nothing remembered
helps. What a Regex remembers is limited, and it raises BadRegex when it has visited MAX_VISITS states.
`regex_syntax` has what is understood and its limits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from typing import Final

from headrace.coordinators.group.core.consumer.regex_syntax import BadRegex, CharSet, Node, parse, shown
from headrace.kernel.dataclass import dataclass

# About two seconds of one core.
MAX_VISITS: Final = 5_000_000
# States in the remembered sets, some of 50 bytes each. A set by itself counts as a dozen.
_MAX_REMEMBERED: Final = 200_000
_SIZE_OF_A_SET: Final = 12
# A set of states is copied so much faster than its states are visited one by one.
_COPIES_OF_A_VISIT: Final = 16

# Filters the names that a member may describe: its expression matches no others.
TopicFilter = Callable[[Iterable[str]], Collection[str]]


@dataclass(slots=True)
class _Reached:
    """A set of states, and the sets that follow it by character. `accepts`: whether a name may end here, once asked."""

    states: frozenset[int]
    after: dict[str, _Reached] = field(default_factory=dict)
    accepts: bool | None = None


class Regex:
    """`Regex("orders-.*").matches("orders-eu")`. Both raise BadRegex. Make a new one for each pass over the names."""

    def __init__(self, text: str) -> None:
        self.text = text
        # Each state: (set of characters or None, where they lead, states reached without reading, anchor).
        self._chars: list[CharSet | None] = []
        self._to: list[int] = []
        self._free: list[list[int]] = []
        self._anchor: list[str] = []
        self._visits = 0
        self._final = self._state()
        tree = parse(text)
        self._begin = self._build(tree, self._final)
        assert self.states == tree.states + 1, f"{shown(text)}: {self.states} states, and not {tree.states} and the end"
        self._start = self._closure([self._begin], at_begin=True)
        self._first = _Reached(self._start)
        self._known: dict[frozenset[int], _Reached] = {}
        self._takers: dict[str, frozenset[int]] = {}
        self._closures: dict[int, frozenset[int]] = {}
        self._remembered = 0

    @property
    def states(self) -> int:
        return len(self._chars)

    def matches(self, name: str) -> bool:
        if not name:  # both anchors hold
            return self._final in self._closure([self._begin], at_begin=True, at_end=True)
        reached = self._first
        for char in name:
            following = reached.after.get(char) or self._step(reached, char)
            if not following.states:
                return False
            reached = following
        if reached.accepts is None:
            reached.accepts = self._final in self._closure(reached.states, at_begin=False, at_end=True)
        return reached.accepts

    def _step(self, reached: _Reached, char: str) -> _Reached:
        if self._remembered > _MAX_REMEMBERED:
            self._forget()
        read = reached.states & self._takers_of(char)
        states = self._closure_after(read)
        self._visited(len(read) + len(reached.states) // _COPIES_OF_A_VISIT)
        following = self._known.get(states)
        if following is None:
            following = self._known[states] = _Reached(states)
            self._remembered += _SIZE_OF_A_SET + len(states)
        reached.after[char] = following
        self._remembered += 1
        return following

    def _takers_of(self, char: str) -> frozenset[int]:
        takers = self._takers.get(char)
        if takers is None:
            self._visited(self.states)
            found = (state for state, chars in enumerate(self._chars) if chars is not None and chars.takes(char))
            takers = self._takers[char] = frozenset(found)
            self._remembered += _SIZE_OF_A_SET + len(takers)
        return takers

    def _closure_after(self, read: Iterable[int]) -> frozenset[int]:
        """The states that follow `read`, from the closures of each as long as they may be remembered."""
        found: set[int] = set()
        copied = 0
        others: list[int] = []
        for state in read:
            closure = self._closures.get(state)
            if closure is None:
                if self._remembered > _MAX_REMEMBERED:
                    others.append(self._to[state])
                    continue
                closure = self._closures[state] = self._closure([self._to[state]], at_begin=False)
                self._remembered += _SIZE_OF_A_SET + len(closure)
            found |= closure
            copied += len(closure)
        self._visited(copied // _COPIES_OF_A_VISIT)
        return frozenset(found) | self._closure(others, at_begin=False)

    def _forget(self) -> None:
        for reached in self._known.values():
            reached.after.clear()  # sets that follow each other would wait for the garbage collector
        self._first = _Reached(self._start)
        self._known.clear()
        self._takers.clear()
        self._closures.clear()
        self._remembered = 0

    def _visited(self, count: int) -> None:
        self._visits += count
        if self._visits > MAX_VISITS:
            raise BadRegex(f"{shown(self.text)}: matching takes too long")

    # The automaton

    def _state(self, chars: CharSet | None = None, to: int = -1, free: tuple[int, ...] = (), anchor: str = "") -> int:
        self._chars.append(chars)
        self._to.append(to)
        self._free.append(list(free))
        self._anchor.append(anchor)
        return len(self._chars) - 1

    def _build(self, node: Node, after: int) -> int:
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

    def _build_repeat(self, node: Node, after: int) -> int:
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

    def _closure(self, states: Iterable[int], *, at_begin: bool, at_end: bool = False) -> frozenset[int]:
        """The states reached without reading, of those that read, wait for the end, or are the end."""
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
        self._visited(len(found))
        return frozenset(s for s in found if not self._free[s] or self._anchor[s] == "end")
