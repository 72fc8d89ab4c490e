"""Acquisition: which records of one read a ShareFetch gets, how many, and how often-released ones are isolated.

A fetch asks for a number of records as a strict limit (`record_limit`) or as a target (`batch_optimized`: whole
portions and whole batches of the log, the last one rounds up; KIP-1206). New records become portions of about
`batch_size`.

A record that crashes its consumers would take its whole portion to the delivery limit. So from half of the limit on
(and at least two deliveries) a portion is delivered alone and in ever smaller parts, half, a quarter, …, and on the
last delivery each record alone: good records are accepted, and only the bad one is archived.

Mirrors the acquisition of Kafka's SharePartition. One object serves one fetch of one share partition; time is an
argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.coordinators.share.core.portions import Portion, Portions
from headrace.coordinators.share.core.runs import RecordState, Run, Runs
from headrace.kernel.dataclass import dataclass

_LEAST_THROTTLED: Final = 2
# With a limit of two every second delivery would be the last one: no record is isolated.
_ALONE_ABOVE: Final = 2


class Acquired(NamedTuple):
    first: int
    last: int
    deliveries: int


class LogBatch(NamedTuple):
    """A batch of the log that was read."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AcquireRequest:
    """The limits of a fetch."""

    member: str
    max_records: int
    batch_size: int
    strict: bool = False


class Acquisition:
    def __init__(
        self,
        runs: Runs,
        portions: Portions,
        start_offset: int,
        max_deliveries: int,
        wish: AcquireRequest,
        until_ms: int,
        batches: Sequence[LogBatch],
    ) -> None:
        self._runs = runs
        self._portions = portions
        self._start = start_offset
        self._max_deliveries = max_deliveries
        self._throttled_from = max(_LEAST_THROTTLED, (max_deliveries + 1) // 2)
        self._wish = wish
        self._until_ms = until_ms
        self._batches = batches
        self._given: list[Acquired] = []
        self._count = 0

    def hand_out(self, limit: int, last: int) -> list[Acquired]:
        """Acquires up to `limit` available records, none beyond the offset `last`."""
        first = max(self._batches[0].first, self._start)
        known = self._portions.overlapping(first, last)
        at = first
        for portion in known:
            self._new(at, portion.first - 1, limit)
            if self._count >= limit:
                return self._given
            at = portion.last + 1
            if self._is_throttled(portion, first, last):
                if self._count == 0:
                    self._take_part(portion, limit, first, last)
                if self._count:
                    return self._given  # delivered alone
            elif (
                portion.by_offset
                or not portion.is_within(self._batches[0].first, last)
                or self._too_large(portion, limit)
            ):
                self._take_part(portion, limit - self._count, first, last)
            else:
                self._take_whole(portion)
        self._new(at, last, limit)
        return self._given

    def _too_large(self, portion: Portion, limit: int) -> bool:
        return self._wish.strict and len(portion) > limit - self._count

    def _is_throttled(self, portion: Portion, first: int, last: int) -> bool:
        runs = self._runs.covering(max(portion.first, first), min(portion.last, last))
        return max((run.deliveries for run in runs if run.is_free), default=0) >= self._throttled_from

    # What was out before

    def _take_whole(self, portion: Portion) -> None:
        runs = self._runs.covering(max(portion.first, self._start), portion.last)
        if all(run.is_free for run in runs):
            for run in runs:
                self._give(run)
            self._tell([Acquired(run.first, run.last, run.deliveries) for run in runs])

    def _take_part(self, portion: Portion, left: int, first: int, last: int) -> None:
        told: list[Acquired] = []
        taken, most = 0, None
        for run in self._runs.covering(max(portion.first, first), min(portion.last, last)):
            if not run.is_free:
                continue
            is_last_time = self._max_deliveries > _ALONE_ABOVE and run.deliveries == self._max_deliveries - 1
            if is_last_time and taken:
                break
            if most is None and run.deliveries >= self._throttled_from:
                most = max(1, len(portion) >> (run.deliveries - self._throttled_from + 1))
            count = 1 if is_last_time else len(run)
            if self._wish.strict:
                count = min(count, left - taken)
            if most is not None and taken < most:
                count = min(count, most - taken)
            portion.by_offset = True
            if count < len(run):
                run = self._runs.covering(run.first, run.first + count - 1)[0]
            self._give(run)
            told.append(Acquired(run.first, run.last, run.deliveries))
            taken += count
            if is_last_time or (self._wish.strict and taken == left) or taken == most:
                break
        self._tell(told)

    # New records

    def _new(self, first: int, last: int, limit: int) -> None:
        """Offsets without a portion: beyond the end offset, or acquired under an earlier leader."""
        while self._count < limit and first <= last:
            piece_first, piece_last = first, last
            if first <= self._end:
                free = next((r for r in self._runs.covering(first, min(last, self._end)) if r.is_free), None)
                if free is None:
                    first = self._end + 1
                    continue
                piece_first, piece_last = free.first, free.last
            first = self._open(piece_first, piece_last, limit - self._count) + 1

    def _open(self, first: int, last: int, left: int) -> int:
        """Adds one or more portions. Returns their last offset."""
        is_beyond = first > self._end
        if left < last - first + 1:
            last = self._rounded_up(first + left - 1, None if is_beyond else last)
        if first > self._end + 1:
            # Offsets that the log does not have: they are archived.
            self._runs.put(Run(self._end + 1, first - 1, RecordState.ARCHIVED))
        if is_beyond:
            self._runs.put(Run(first, last, RecordState.AVAILABLE))
        if self._wish.strict:
            pieces = [(first, min(last, first + left - 1))]
            self._portions.add(Portion(first, last, by_offset=last - first + 1 > left))
        else:
            pieces = self._cut(first, last)
            for piece in pieces:
                self._portions.add(Portion(*piece))
        for run in self._runs.covering(first, pieces[-1][1]):
            self._give(run)
        self._given += [Acquired(*piece, 1) for piece in pieces]
        return last

    @property
    def _end(self) -> int:
        end = self._runs.end
        return self._start - 1 if end is None else end

    def _rounded_up(self, offset: int, bound: int | None) -> int:
        """The end of the batch that holds it."""
        last = next((batch.last for batch in self._batches if batch.first <= offset <= batch.last), offset)
        return last if bound is None else min(last, bound)

    def _cut(self, first: int, last: int) -> list[tuple[int, int]]:
        """Splits at ends of batches, as soon as a piece has the requested size."""
        pieces = []
        for batch in self._batches if last - first + 1 > self._wish.batch_size else ():
            if batch.first <= last and batch.first - first >= self._wish.batch_size:
                pieces.append((first, batch.first - 1))
                first = batch.first
        return [*pieces, (first, last)]

    # Both

    def _give(self, run: Run) -> None:
        run.state, run.member, run.locked_until_ms = RecordState.ACQUIRED, self._wish.member, self._until_ms
        run.deliveries += 1
        self._count += len(run)

    def _tell(self, told: Sequence[Acquired]) -> None:
        """Reports one portion; neighbours with the same count become one entry."""
        fresh = True
        for each in told:
            known = None if fresh else self._given[-1]
            if known is not None and known.last + 1 == each.first and known.deliveries == each.deliveries:
                self._given[-1] = Acquired(known.first, each.last, each.deliveries)
            else:
                self._given.append(each)
            fresh = False
