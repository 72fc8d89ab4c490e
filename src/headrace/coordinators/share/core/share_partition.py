"""One queue: a partition as one share group sees it. Which records are out, with whom, until when, how often.

    start ≤ records in flight ≤ end                 below start: done with; above end: not yet looked at
    AVAILABLE ──acquire──► ACQUIRED ──accept──► ACKNOWLEDGED ┐
        ▲                     │ reject, or too often ──► ARCHIVED ├─ start moves over them
        └──release, lock over─┘                                   ┘

A record is handed out to one member at a time; how often is counted; at the limit it is given up. Being out with a
member is not durable: after a change of leader such records are available again (at least once). Accepting, rejecting
and releasing are durable: each gives the changes that the caller writes down before it answers.

Invariants: every offset in start…end has exactly one state; start never goes back; a record is acquired by at most one
member. Mirrors Kafka's SharePartition. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.coordinators.codec.share_state import StateBatch
from headrace.coordinators.share.core.runs import RecordState, Run, Runs
from headrace.kernel.errors import ErrorCode, Refused


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_TYPES: Final = frozenset(AcknowledgeType)


class Acquired(NamedTuple):
    first: int
    last: int
    deliveries: int


class Acknowledgement(NamedTuple):
    """One type for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


def check(acknowledgements: Sequence[Acknowledgement], *, renews: bool) -> None:
    """What can be said of them without looking at any record; `renews` if the request says that it does. Raises
    INVALID_REQUEST.
    """
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
    ) -> None:
        self.start_offset = start_offset
        self.state_epoch = state_epoch
        self.max_locks = max_locks
        self.max_deliveries = max_deliveries
        self.lock_ms = lock_ms
        self._runs = Runs()
        for first, last, state, count in batches:
            if last >= start_offset:
                self._runs.put(Run(max(first, start_offset), last, RecordState(state), count))
        self._fill_holes()
        self._advance()

    # --- questions ----------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The last offset that was looked at; start − 1 when nothing is in flight."""
        end = self._runs.end
        return self.start_offset - 1 if end is None else end

    @property
    def next_fetch_offset(self) -> int:
        for run in self._runs:
            if run.state is RecordState.AVAILABLE:
                return run.first
        return self.end_offset + 1

    @property
    def has_room(self) -> bool:
        """Whether anything could be acquired: something given back, or room for something new."""
        return self.next_fetch_offset <= self.end_offset or self._room > 0

    @property
    def _room(self) -> int:
        return self.max_locks - (self.end_offset - self.start_offset + 1)

    @property
    def next_expiry_ms(self) -> int | None:
        return min((r.locked_until_ms for r in self._runs if r.state is RecordState.ACQUIRED), default=None)

    @property
    def locked_by_anyone(self) -> bool:
        return any(run.state is RecordState.ACQUIRED for run in self._runs)

    @property
    def delivery_complete_count(self) -> int:
        """Records in flight that are done with: they are not part of the lag."""
        return sum(len(run) for run in self._runs if run.state.is_final)

    def runs(self) -> list[Run]:
        return list(self._runs)

    # --- handing out --------------------------------------------------------------------------------------------

    def acquire(self, member: str, first: int, last: int, now_ms: int, *, at_most: int | None = None) -> list[Acquired]:
        """Hand out what is available in first…last (offsets that were read), new ones as far as there is room."""
        left = (last - first + 1) if at_most is None else at_most
        taken: list[Run] = []
        for run in self._runs.covering(first, min(last, self.end_offset)):
            if run.state is not RecordState.AVAILABLE or left <= 0:
                continue
            if len(run) > left:
                run = self._runs.covering(run.first, run.first + left - 1)[0]
            taken.append(run)
            left -= len(run)
        new_first = max(first, self.end_offset + 1)
        if new_first > self.end_offset + 1 and left > 0:
            # Offsets that the log no longer has: nobody will ever get them.
            self._runs.put(Run(self.end_offset + 1, new_first - 1, RecordState.ARCHIVED))
        new_last = min(last, new_first + min(left, self._room) - 1)
        if new_last >= new_first:
            fresh = Run(new_first, new_last, RecordState.AVAILABLE)
            self._runs.put(fresh)
            taken.append(fresh)
        until_ms = now_ms + self.lock_ms
        for run in taken:
            run.state, run.member, run.locked_until_ms = RecordState.ACQUIRED, member, until_ms
            run.deliveries += 1
        given = [Acquired(run.first, run.last, run.deliveries) for run in taken]
        self._runs.join()
        return _joined(given)

    def archive(self, first: int, last: int) -> list[StateBatch]:
        """Records that nobody is to get (aborted transactions); those that are out already stay out."""
        if last > self.end_offset:
            self._runs.put(Run(self.end_offset + 1, last, RecordState.AVAILABLE))
        changed = [r for r in self._runs.covering(first, last) if r.state is RecordState.AVAILABLE]
        return self._settle(changed, RecordState.ARCHIVED)

    # --- taking back --------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int) -> list[StateBatch]:
        """All of it or nothing, and `check` has seen it. Gives what to write down. Raises INVALID_REQUEST,
        INVALID_RECORD_STATE.
        """
        steps: list[tuple[int, int, AcknowledgeType]] = []
        settled = -1
        for each in acknowledgements:
            if max(each.first, self.start_offset) <= each.last and each.last > self.end_offset:
                raise Refused(ErrorCode.invalid_request, f"offsets {each.first} to {each.last} were never handed out")
            for first, last, kind in self._steps(each):
                if first <= settled:
                    raise Refused(ErrorCode.invalid_record_state, f"offset {first} is acknowledged twice")
                self._check_held(member, first, last)
                steps.append((first, last, kind))
                settled = settled if kind is AcknowledgeType.RENEW else last
        changes: list[StateBatch] = []
        for first, last, kind in steps:
            runs = self._runs.covering(first, last)
            if kind is AcknowledgeType.ACCEPT:
                changes += self._settle(runs, RecordState.ACKNOWLEDGED)
            elif kind is AcknowledgeType.RELEASE:
                changes += self._give_back(runs)
            elif kind is AcknowledgeType.RENEW:
                for run in runs:
                    run.locked_until_ms = now_ms + self.lock_ms
            else:
                changes += self._settle(runs, RecordState.ARCHIVED)
        self._advance()
        return changes

    def _check_held(self, member: str, first: int, last: int) -> None:
        covered = 0
        for run in self._runs.covering(first, last):
            if run.state is not RecordState.ACQUIRED or run.member != member:
                self._runs.join()
                raise Refused(
                    ErrorCode.invalid_record_state, f"offsets {run.first} to {run.last} are not out with this member"
                )
            covered += len(run)
        if covered != last - first + 1:
            raise Refused(ErrorCode.invalid_request, f"offsets {first} to {last} were never handed out")

    def _steps(self, each: Acknowledgement) -> list[tuple[int, int, AcknowledgeType]]:
        first, last, types = each
        kinds = [AcknowledgeType(kind) for kind in types]
        if len(kinds) == 1:
            steps = [(first, last, kinds[0])]
        else:
            steps = [(first + at, first + at, kind) for at, kind in enumerate(kinds)]
        # What lies below the start is done with: a late word about it changes nothing.
        return [(max(a, self.start_offset), b, kind) for a, b, kind in steps if b >= self.start_offset]

    def release(self, member: str) -> list[StateBatch]:
        """A member goes: what it has can be had by others."""
        mine = [r for r in self._runs if r.state is RecordState.ACQUIRED and r.member == member]
        changes = self._give_back(mine)
        self._advance()
        return changes

    def expire(self, now_ms: int) -> list[StateBatch]:
        over = [r for r in self._runs if r.state is RecordState.ACQUIRED and r.locked_until_ms <= now_ms]
        changes = self._give_back(over)
        self._advance()
        return changes

    def log_start_moved(self, log_start: int) -> None:
        """Retention removed records: nobody gets them any more."""
        if log_start > self.start_offset:
            self._runs.drop_before(log_start)
            self.start_offset = log_start
            self._advance()

    def _give_back(self, runs: Sequence[Run]) -> list[StateBatch]:
        spent = [run for run in runs if run.deliveries >= self.max_deliveries]
        again = [run for run in runs if run.deliveries < self.max_deliveries]
        return self._settle(spent, RecordState.ARCHIVED) + self._settle(again, RecordState.AVAILABLE)

    def _settle(self, runs: Sequence[Run], state: RecordState) -> list[StateBatch]:
        for run in runs:
            run.state, run.member, run.locked_until_ms = state, None, -1
        return [StateBatch(run.first, run.last, int(state), run.deliveries) for run in runs]

    def _advance(self) -> None:
        """The start moves over everything at its front that is done with."""
        for run in self._runs:
            if run.first != self.start_offset or not run.state.is_final:
                break
            self.start_offset = run.last + 1
        self._runs.drop_before(self.start_offset)
        self._runs.join()

    def _fill_holes(self) -> None:
        """What was out with a member when the leader changed was not written down: it is available."""
        at = self.start_offset
        for run in [replace(r) for r in self._runs]:
            if run.first > at:
                self._runs.put(Run(at, run.first - 1, RecordState.AVAILABLE))
            at = run.last + 1


def _joined(given: list[Acquired]) -> list[Acquired]:
    joined: list[Acquired] = []
    for each in given:
        if joined and joined[-1].last + 1 == each.first and joined[-1].deliveries == each.deliveries:
            joined[-1] = Acquired(joined[-1].first, each.last, each.deliveries)
        else:
            joined.append(each)
    return joined
