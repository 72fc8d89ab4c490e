"""Sequences of child elements as regular expressions, and whether one includes another.

A content model of XML Schema is a regular expression over element names. The derivative of a model by a name is the
model of what may follow that name (Brzozowski). A walk over pairs of derivatives finds the shortest sequence of
children that the writer's model accepts and the reader's does not. Constructors simplify, so that equal models are
equal values, and a model that accepts nothing is always `NOTHING`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from headrace.kernel.dataclass import dataclass

# A pair of models with more states than this is reported as too complex.
_MOST_STATES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Nothing:
    """Accepts no sequence."""


@dataclass(frozen=True, slots=True)
class Empty:
    """Accepts only the empty sequence."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One element: its name and the names of its substitutes, or all names that a wildcard accepts."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sequence:
    first: Model
    rest: Model


@dataclass(frozen=True, slots=True)
class Choice:
    branches: frozenset[Model]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None without a limit."""

    inner: Model
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Unordered:
    """`xs:all`: each member in any order, with its own least and most."""

    members: frozenset[Repeat]


Model = Nothing | Empty | Leaf | Sequence | Choice | Repeat | Unordered
NOTHING: Final = Nothing()
EMPTY: Final = Empty()


def leaf(names: Iterable[str]) -> Model:
    found = frozenset(names)
    return Leaf(found) if found else NOTHING


def sequence(first: Model, rest: Model) -> Model:
    if NOTHING in (first, rest):
        return NOTHING
    if first == EMPTY:
        return rest
    if rest == EMPTY:
        return first
    if isinstance(first, Sequence):
        return sequence(first.first, sequence(first.rest, rest))
    return Sequence(first, rest)


def choice(branches: Iterable[Model]) -> Model:
    found: set[Model] = set()
    for branch in branches:
        found |= branch.branches if isinstance(branch, Choice) else {branch}
    found.discard(NOTHING)
    if not found:
        return NOTHING
    return next(iter(found)) if len(found) == 1 else Choice(frozenset(found))


def repeat(inner: Model, least: int, most: int | None) -> Model:
    if most == 0 or inner == EMPTY:
        return EMPTY
    if inner == NOTHING:
        return EMPTY if least == 0 else NOTHING
    return inner if (least, most) == (1, 1) else Repeat(inner, least, most)


def unordered(members: Iterable[Repeat]) -> Model:
    found = frozenset(each for each in members if each.most != 0)
    return Unordered(found) if found else EMPTY


@lru_cache(maxsize=100_000)
def accepts_empty(model: Model) -> bool:
    match model:
        case Empty():
            return True
        case Sequence(first, rest):
            return accepts_empty(first) and accepts_empty(rest)
        case Choice(branches):
            return any(map(accepts_empty, branches))
        case Repeat(inner, least, _):
            return least == 0 or accepts_empty(inner)
        case Unordered(members):
            return all(each.least == 0 or accepts_empty(each.inner) for each in members)
        case _:
            return False


@lru_cache(maxsize=100_000)
def after(model: Model, name: str) -> Model:
    """What may follow `name` at the beginning."""
    match model:
        case Leaf(names):
            return EMPTY if name in names else NOTHING
        case Sequence(first, rest):
            found = sequence(after(first, name), rest)
            return choice((found, after(rest, name))) if accepts_empty(first) else found
        case Choice(branches):
            return choice(after(each, name) for each in branches)
        case Repeat(inner, least, most):
            again = repeat(inner, max(0, least - 1), None if most is None else most - 1)
            return sequence(after(inner, name), again)
        case Unordered(members):
            return choice(
                sequence(after(each.inner, name), unordered({*(members - {each}), _once_less(each)}))
                for each in members
                if after(each.inner, name) != NOTHING
            )
        case _:
            return NOTHING


def _once_less(member: Repeat) -> Repeat:
    return Repeat(member.inner, max(0, member.least - 1), None if member.most is None else member.most - 1)


@dataclass(frozen=True, slots=True)
class Witness:
    """The writer accepts the children `before` followed by `name` (None: the end); the reader does not. `expected` is
    what the reader accepts instead."""

    before: tuple[str, ...]
    name: str | None
    expected: tuple[str, ...]


class TooComplex(Exception):
    pass


def missing(writer: Model, reader: Model, names: Iterable[str]) -> Witness | None:
    """The shortest sequence that only the writer accepts, or None if the reader accepts all. Raises TooComplex."""
    names = sorted(names)
    waiting: deque[tuple[Model, Model, tuple[str, ...]]] = deque([(writer, reader, ())])
    seen = {(writer, reader)}
    while waiting:
        old, new, before = waiting.popleft()
        expected = tuple(name for name in names if after(new, name) != NOTHING)
        if accepts_empty(old) and not accepts_empty(new):
            return Witness(before, None, expected)
        for name in names:
            next_old = after(old, name)
            if next_old == NOTHING:
                continue
            next_new = after(new, name)
            if next_new == NOTHING:
                return Witness(before, name, expected)
            if (next_old, next_new) not in seen:
                seen.add((next_old, next_new))
                waiting.append((next_old, next_new, (*before, name)))
        if len(seen) > _MOST_STATES:
            raise TooComplex
    return None
