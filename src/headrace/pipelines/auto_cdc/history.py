"""What a row is after its changes, and which versions it had.

Changes of a key may come in any order, in one batch or over many. Their sequence decides: a change is applied as if all
changes with a smaller sequence had come before it. So the result depends on the set of changes and not on their order,
and a repeated batch changes nothing. Two changes of a key with the same sequence are one change: the later arrival
counts. A truncate is a delete of every key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

UPSERT: Final = "upsert"
DELETE: Final = "delete"
TRUNCATE: Final = "truncate"

Key: TypeAlias = tuple[object, ...]
Row: TypeAlias = Mapping[str, object]
# Any type that can be compared: a number, a text, a time.
Order: TypeAlias = Any


@dataclass(frozen=True)
class Change:
    key: Key
    sequence: Order
    kind: str
    row: Row


@dataclass(frozen=True)
class Version:
    """A row from the change that made it until the change that ended it; None while it is current."""

    row: Row
    start: Order
    end: Order


def in_order(changes: Iterable[Change], truncates: Iterable[Order] = ()) -> list[Change]:
    """The changes of one key by sequence, each sequence once. A truncate counts only after a change."""
    found = {change.sequence: change for change in changes}
    if not found:
        return []
    first, key = min(found), next(iter(found.values())).key
    for sequence in truncates:
        if sequence > first:
            found.setdefault(sequence, Change(key, sequence, DELETE, {}))
    return [found[sequence] for sequence in sorted(found)]


def latest(changes: Iterable[Change], truncates: Iterable[Order] = ()) -> Change:
    """The change that decides what the row is now."""
    return in_order(changes, truncates)[-1]


def versions(
    changes: Iterable[Change], truncates: Iterable[Order] = (), tracked: Sequence[str] | None = None
) -> list[Version]:
    """The versions of a row. Changes in a row that agree in every tracked column (all without a list) are one version,
    which has the values of the last of them."""
    done: list[Version] = []
    current: Version | None = None
    for change in in_order(changes, truncates):
        if change.kind == UPSERT and current is not None and _agree(current.row, change.row, tracked):
            current = Version(change.row, current.start, None)
            continue
        if current is not None:
            done.append(Version(current.row, current.start, change.sequence))
        current = Version(change.row, change.sequence, None) if change.kind == UPSERT else None
    return [*done, current] if current is not None else done


def _agree(one: Row, other: Row, tracked: Sequence[str] | None) -> bool:
    return all(one.get(name) == other.get(name) for name in (tracked if tracked is not None else other))
