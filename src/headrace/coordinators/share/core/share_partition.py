"""One share partition: a partition as one share group sees it. Which records are acquired, by which member, until when,
how often.

    start ≤ records in flight ≤ end                 below start: finished; above end: not read yet
    AVAILABLE ──acquire──► ACQUIRED ──accept──► ACKNOWLEDGED ┐
        ▲                     │ reject, or too often ──► ARCHIVED ├─ start moves over them
        └──release, lock over─┘                                   ┘

One member at a time acquires a record. Its deliveries are counted, and at the limit it is archived. Acquisition is not
durable: after a change of leader acquired records are available again (at least once). Accept, reject and release are
durable and take effect only then: a request becomes a numbered change (`Changes`) that the caller writes and then
confirms (`done`) or reverts (`undone`). Until then no other member gets those records and the start offset does not
move over them. After a revert the same member still holds them.

Invariants: every offset in start…end has exactly one state; start never goes back; at most one member holds a record.
Mirrors Kafka's SharePartition; `acquisition` decides how many records a fetch gets. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.coordinators.codec.share_state import StateBatch
from headrace.coordinators.share.core.acquisition import Acquired, AcquireRequest, Acquisition, LogBatch
from headrace.coordinators.share.core.portions import Portion, Portions
from headrace.coordinators.share.core.runs import Change, RecordState, Run, Runs
from headrace.kernel.errors import ErrorCode, Refused


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_TYPES: Final = frozenset(AcknowledgeType)


class Acknowledgement(NamedTuple):
    """One type for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class DeadRecords(NamedTuple):
    """Records that no member gets again: one rejected them, or they were delivered too often."""

    first: int
    last: int
    deliveries: int
    is_rejected: bool


class Changes(NamedTuple):
    """Changes to write. `number` is None for a change that has taken effect already, written or not. A change with
    `dead` records has a number: they must become dead letters before it is written."""

    number: int | None
    batches: list[StateBatch]
    dead: Sequence[DeadRecords] = ()


class ShareProgress(NamedTuple):
    """Progress of a share partition. Finished records in flight do not count as lag."""

    start_offset: int
    complete_count: int


def check(acknowledgements: Sequence[Acknowledgement], *, renews: bool) -> None:
    """Checks that need no record; `renews`: the request allows renewals. Raises INVALID_REQUEST."""
    end = -1
    for first, last, types in acknowledgements:
        if last < first or first < end or not types or len(types) not in (1, last - first + 1):
            raise Refused(ErrorCode.invalid_request, f"acknowledgement of {first} to {last} with {len(types)} types")
        if any(kind not in _TYPES for kind in types):
            raise Refused(ErrorCode.invalid_request, f"acknowledgement of a type that is none: {list(types)}")
        if AcknowledgeType.RENEW in types and not renews:
            raise Refused(ErrorCode.invalid_request, "a request that renews locks says so")
        end = last


class SharePartition:
    def __init__(
        self,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
        *,
        state_epoch: int = 0,
        max_locks: int = 2_000,
        max_deliveries: int = 5,
        lock_ms: int = 30_000,
        names_dead: bool = False,
    ) -> None:
        """`names_dead`: the group has a topic of dead letters, so changes name the dead records."""
        self.names_dead = names_dead
        self.start_offset = start_offset
        self.state_epoch = state_epoch
        self.max_locks = max_locks
        self.max_deliveries = max_deliveries
        self.lock_ms = lock_ms
        self._last_change = 0
        self._runs = Runs()
        self._portions = Portions()
        for first, last, state, count in batches:
            if last >= start_offset:
                first = max(first, start_offset)
                self._runs.put(Run(first, last, RecordState(state), count))
                self._portions.add(Portion(first, last))
        self._fill_holes()
        self._advance()

    # Questions

    @property
    def end_offset(self) -> int:
        """The last offset in flight; start − 1 when none is."""
        end = self._runs.end
        return self.start_offset - 1 if end is None else end

    @property
    def next_fetch_offset(self) -> int:
        return next((run.first for run in self._runs if run.is_free), self.end_offset + 1)

    @property
    def has_room(self) -> bool:
        """Whether a fetch can acquire: released records, or room for new ones."""
        return self.next_fetch_offset <= self.end_offset or self._room > 0

    @property
    def _room(self) -> int:
        return self.max_locks - (self.end_offset - self.start_offset + 1)

    @property
    def next_expiry_ms(self) -> int | None:
        return min((r.locked_until_ms for r in self._runs if r.state is RecordState.ACQUIRED), default=None)

    def standing(self, changes: Collection[int] = ()) -> ShareProgress:
        """Progress once these changes are durable. Other pending changes do not count: they may fail."""
        start, complete = self.start_offset, 0
        for run in self._runs:
            if not run.state.is_final or (run.change is not None and run.change.number not in changes):
                continue
            if run.first == start:
                start = run.last + 1
            else:
                complete += len(run)
        return ShareProgress(start, complete)

    def runs(self) -> list[Run]:
        return list(self._runs)

    # Handing out

    def acquire(
        self, wish: AcquireRequest, fetch_offset: int, batches: Sequence[LogBatch], now_ms: int
    ) -> list[Acquired]:
        """Acquires from the batches that were read from `fetch_offset` on. The number of free locks limits new records;
        released records can be acquired without a free lock.
        """
        last = batches[-1].last
        if last < self.start_offset or wish.max_records <= 0:
            return []
        limit = min(wish.max_records, self._room)
        if limit <= 0:
            if fetch_offset > self.end_offset:
                return []
            limit = min(wish.max_records, self.end_offset - fetch_offset + 1)
            last = min(last, self.end_offset)
        if fetch_offset < batches[0].first:
            self._archive_free(fetch_offset, batches[0].first - 1)
        handing = Acquisition(
            self._runs,
            self._portions,
            self.start_offset,
            self.max_deliveries,
            wish,
            now_ms + self.lock_ms,
            batches,
        )
        given = handing.hand_out(limit, last)
        self._advance()
        return given

    def _archive_free(self, first: int, last: int) -> None:
        """Archives released records that compaction has removed."""
        last = min(last, self.end_offset)
        if last >= first:
            self._portions.take_apart(first, last)
            self._settle([run for run in self._runs.covering(first, last) if run.is_free], RecordState.ARCHIVED)

    def archive(self, first: int, last: int) -> Changes:
        """Archives records that no member may get (aborted transactions); acquired ones stay acquired."""
        first = max(first, self.start_offset)
        if last < first:
            return Changes(None, [])
        if last > self.end_offset:
            self._runs.put(Run(self.end_offset + 1, last, RecordState.AVAILABLE))
        self._portions.take_apart(first, last)
        free = [run for run in self._runs.covering(first, last) if run.is_free]
        changes = Changes(None, self._settle(free, RecordState.ARCHIVED))
        self._advance()
        return changes

    # Taking back

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int) -> Changes:
        """All or nothing; the caller has run `check`. Raises INVALID_REQUEST, INVALID_RECORD_STATE."""
        steps: list[tuple[int, int, AcknowledgeType]] = []
        settled = -1
        for each in acknowledgements:
            if each.last < self.start_offset:
                continue  # finished: a late acknowledgement changes nothing
            self._check_known(each)
            for first, last, kind in self._steps(each):
                if first <= settled:
                    raise Refused(ErrorCode.invalid_record_state, f"offset {first} is acknowledged twice")
                self._check_held(member, first, last)
                steps.append((first, last, kind))
                settled = settled if kind is AcknowledgeType.RENEW else last
        number, batches, dead = self._begin(), list[StateBatch](), list[DeadRecords]()
        for each in acknowledgements:
            self._take_apart(each)
        for first, last, kind in steps:
            runs = [run for run in self._runs.covering(first, last) if run.state is RecordState.ACQUIRED]
            if kind is AcknowledgeType.RENEW:
                for run in runs:
                    run.locked_until_ms = now_ms + self.lock_ms
                continue
            if kind is AcknowledgeType.RELEASE:
                changed = self._give_back(runs, number)
            else:
                accepted = kind is AcknowledgeType.ACCEPT
                changed = self._settle(runs, RecordState.ACKNOWLEDGED if accepted else RecordState.ARCHIVED, number)
            batches += changed
            if kind is not AcknowledgeType.GAP:  # a gap is no record
                dead += self._dead(changed, is_rejected=kind is AcknowledgeType.REJECT)
        self._runs.join()
        return Changes(number, batches, dead)

    def _check_known(self, each: Acknowledgement) -> None:
        if not self._portions.begins_by(max(each.first, self.start_offset)):
            raise Refused(ErrorCode.invalid_record_state, f"offsets {each.first} to {each.last} are not out")
        if each.last > self.end_offset:
            raise Refused(ErrorCode.invalid_request, f"offsets {each.first} to {each.last} were never handed out")

    def _check_held(self, member: str, first: int, last: int) -> None:
        for run in self._runs.covering(first, last):
            if run.state is RecordState.ACQUIRED and run.member == member:
                continue
            if run.state is RecordState.ARCHIVED and not self._portions.overlapping(run.first, run.last):
                continue  # the log has no record there
            self._runs.join()
            raise Refused(
                ErrorCode.invalid_record_state, f"offsets {run.first} to {run.last} are not out with this member"
            )

    def _take_apart(self, each: Acknowledgement) -> None:
        first = max(each.first, self.start_offset)
        if len(each.types) > 1:
            for portion in self._portions.overlapping(first, each.last):
                portion.by_offset = True
        else:
            self._portions.take_apart(first, each.last)

    def _steps(self, each: Acknowledgement) -> list[tuple[int, int, AcknowledgeType]]:
        first, last, types = each
        kinds = [AcknowledgeType(kind) for kind in types]
        if len(kinds) == 1:
            steps = [(first, last, kinds[0])]
        else:
            steps = [(first + at, first + at, kind) for at, kind in enumerate(kinds)]
        return [(max(a, self.start_offset), b, kind) for a, b, kind in steps if b >= self.start_offset]

    def release(self, member: str) -> Changes:
        """A member leaves: its records become available to others."""
        mine = [r for r in self._runs if r.state is RecordState.ACQUIRED and r.member == member]
        number = self._begin()
        batches = self._give_back(mine, number)
        return Changes(number, batches, self._dead(batches, is_rejected=False))

    def expire(self, now_ms: int) -> Changes:
        over = [r for r in self._runs if r.state is RecordState.ACQUIRED and r.locked_until_ms <= now_ms]
        is_last = self.names_dead and any(run.deliveries >= self.max_deliveries for run in over)
        number = self._begin() if is_last else None
        batches = self._give_back(over, number)
        self._advance()
        return Changes(number, batches, self._dead(batches, is_rejected=False))

    def log_start_moved(self, log_start: int) -> None:
        """Retention removed records: they are archived."""
        if log_start > self.start_offset:
            self._portions.take_apart(log_start, max(log_start, self.end_offset))
            self._runs.drop_before(log_start)
            self.start_offset = log_start
            self._advance()

    # Changes

    def done(self, changes: Collection[int]) -> None:
        """The changes are durable."""
        for run in self._changing(changes):
            run.change = None
        self._advance()

    def undone(self, changes: Collection[int], now_ms: int) -> None:
        """The changes could not be written: their members hold the records again, unless the lock has expired."""
        over: list[Run] = []
        for run in self._changing(changes):
            assert run.change is not None
            run.state, run.member, run.locked_until_ms = (
                RecordState.ACQUIRED,
                run.change.member,
                run.change.locked_until_ms,
            )
            run.change = None
            if run.locked_until_ms <= now_ms and not self.names_dead:  # else `expire` names the dead ones
                over.append(run)
        self._give_back(over)
        self._advance()

    def _changing(self, changes: Collection[int]) -> list[Run]:
        return [run for run in self._runs if run.change is not None and run.change.number in changes]

    def _begin(self) -> int:
        self._last_change += 1
        return self._last_change

    def _give_back(self, runs: Sequence[Run], change: int | None = None) -> list[StateBatch]:
        spent = [run for run in runs if run.deliveries >= self.max_deliveries]
        again = [run for run in runs if run.deliveries < self.max_deliveries]
        return self._settle(spent, RecordState.ARCHIVED, change) + self._settle(again, RecordState.AVAILABLE, change)

    def _dead(self, batches: Sequence[StateBatch], *, is_rejected: bool) -> list[DeadRecords]:
        if not self.names_dead:
            return []
        return [
            DeadRecords(first, last, deliveries, is_rejected)
            for first, last, state, deliveries in batches
            if state == RecordState.ARCHIVED
        ]

    def _settle(self, runs: Sequence[Run], state: RecordState, change: int | None = None) -> list[StateBatch]:
        for run in runs:
            if change is not None:
                run.change = Change(change, run.member, run.locked_until_ms)
            run.state, run.member, run.locked_until_ms = state, None, -1
        return [StateBatch(run.first, run.last, int(state), run.deliveries) for run in runs]

    def _advance(self) -> None:
        """Moves the start offset over finished records."""
        for run in self._runs:
            if run.first != self.start_offset or not run.state.is_final or run.change is not None:
                break
            self.start_offset = run.last + 1
        self._runs.drop_before(self.start_offset)
        self._portions.drop_before(self.start_offset)
        self._runs.join()

    def _fill_holes(self) -> None:
        """Acquisitions are not durable: after a change of leader those records are available."""
        at = self.start_offset
        for run in [replace(r) for r in self._runs]:
            if run.first > at:
                self._runs.put(Run(at, run.first - 1, RecordState.AVAILABLE))
            at = run.last + 1
