"""One batch of changes into a store.

The store keeps the target table and a table of changes beside it: of every key the last change (type 1), or all changes
(type 2). Without them a change that comes late could not be put in its place, and a row that was deleted would come
back. The store writes the changes first and then the target. If the driver dies between the two, Spark repeats the
batch, which gives the same result, because a change that is already there changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.pipelines.auto_cdc.history import (
    TRUNCATE,
    UPSERT,
    Change,
    Key,
    Order,
    Version,
    in_order,
    latest,
    versions,
)

START: Final = "__START_AT"
END: Final = "__END_AT"
SEQUENCE: Final = "__sequence"
KIND: Final = "__kind"


@dataclass(frozen=True)
class CdcTarget:
    """How changes are applied. `types` are the Spark types of the columns, with the type of the sequence."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    keeps_history: bool
    tracked: tuple[str, ...] | None = None

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.keys)


@dataclass(frozen=True)
class Known:
    changes: dict[Key, list[Change]]
    truncates: list[Order]


@dataclass(frozen=True)
class Plan:
    """What a batch writes. Every key of `versions` has exactly these versions afterwards; of type 1 at most one."""

    changes: list[Change]
    # Type 1 needs only the last change of a key.
    replaces_changes: bool
    versions: dict[Key, list[Version]]


class Store(Protocol):
    def known(self, keys: Collection[Key] | None) -> Known:
        """The stored changes of these keys, of all keys without them; and the truncates."""

    def write(self, plan: Plan) -> None: ...


def apply(store: Store, target: CdcTarget, batch: Iterable[Change]) -> Plan:
    changes = list(batch)
    fresh: dict[Key, list[Change]] = {}
    for change in changes:
        if change.kind != TRUNCATE:
            fresh.setdefault(change.key, []).append(change)
    truncates = [change for change in changes if change.kind == TRUNCATE]
    known = store.known(None if truncates else list(fresh))
    every = {*known.truncates, *(change.sequence for change in truncates)}
    touched = {*fresh, *(known.changes if truncates else ())}
    merged = {key: [*known.changes.get(key, []), *fresh.get(key, [])] for key in touched}
    if target.keeps_history:
        written = [*truncates, *(change for key in fresh for change in in_order(fresh[key]))]
        found = {key: versions(merged[key], every, target.tracked) for key in touched}
        plan = Plan(written, False, found)
    else:
        plan = _current(merged, fresh, every, truncates)
    store.write(plan)
    return plan


def _current(
    merged: dict[Key, list[Change]], fresh: dict[Key, list[Change]], every: set[Order], truncates: Sequence[Change]
) -> Plan:
    last = {key: latest(changes, every) for key, changes in merged.items()}
    found: dict[Key, list[Version]] = {}
    for key, change in last.items():
        is_upsert = change.kind == UPSERT
        # The target has the row of a change that an earlier batch brought: only its sequence is stored.
        if is_upsert and not any(one.sequence == change.sequence for one in fresh.get(key, [])):
            continue
        found[key] = [Version(change.row, change.sequence, None)] if is_upsert else []
    return Plan([*truncates, *last.values()], True, found)
