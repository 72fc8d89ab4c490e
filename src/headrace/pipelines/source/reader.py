"""`spark.read.format("headrace")` and `spark.readStream.format("headrace")`: topics as rows, without a jar.

Batch: planning fixes the range of every partition and splits it into tasks; each task fetches its range. Stream: Spark
asks for `latestOffset`, writes it to its journal, and asks for the partitions between two offsets. An offset is
`{"topic": {"0": 23}}`, exactly as in Spark's connector. `stream_state` keeps the other state of a query, mainly the ids
of its topics; the first task of each partition reads it.

Missing records (retention, a deleted topic) are an error. With failOnDataLoss=false the query skips and counts them.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headrace.client.blocking.fetch import FetchSettings, FetchStalled, FetchStream
from headrace.kernel.errors import Fault, OffsetOutOfRange
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import DataLossError, PipelineError
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.offsets import (
    JsonOffsets,
    OffsetRange,
    TopicPartitionPair,
    limit_offsets,
    moves_with_retention,
    offsets_from_json,
    offsets_to_json,
    split_ranges,
)
from headrace.pipelines.source.planning import Found, Planner
from headrace.pipelines.spark.closed_session import leave_closed_session
from headrace.pipelines.spark.running_batch import RunningBatch, running_batch
from headrace.pipelines.spark.worker_clients import client_for, notes_for

if TYPE_CHECKING:
    import pyarrow as pa

_OLD_IDS: Final = "#ids"


@dataclass
class RangePartition(InputPartition):  # type: ignore[misc]
    """The offset range of one task."""

    topic: str
    partition: int
    start: int
    end: int
    # Set in the task that reads the first records of its partition in a batch of a stream.
    topic_id: str | None = None

    def __init__(self, piece: OffsetRange, topic_id: str | None = None) -> None:
        super().__init__(None)
        self.topic, self.partition, self.start, self.end = piece.topic, piece.partition, piece.start, piece.end
        self.topic_id = topic_id


def read_range(
    options: SourceOptions, task: InputPartition, batch: RunningBatch | None = None
) -> Iterator[pa.RecordBatch]:
    """Fetches and decodes one range on an executor. `batch`: the running batch of a stream."""
    from headrace.serialization.arrow_records import Decoder

    if not isinstance(task, RangePartition):
        return
    client = client_for(options.cluster)
    decoding = options.decoding
    # A header may name the schema of a record.
    include_headers = options.include_headers or decoding is not None
    decoder = Decoder(task.topic, task.partition, include_headers=include_headers)
    settings = FetchSettings(
        max_bytes=options.fetch_bytes,
        isolation=options.isolation,
        stall_timeout_s=options.poll_timeout_s,
        # The decoder copies keys and values into Arrow's memory before the next chunk is fetched.
        reuse_buffer=True,
    )
    pair = (task.topic, task.partition)
    start, end = _first_offset(options, task, batch), task.end
    while start < end:
        try:
            for chunk in FetchStream(client, pair, start, end, settings):
                rows = decoder.decode(chunk.records, start, end, chunk.aborted)
                yield from rows if decoding is None else map(decoding.decode, rows)
                start = chunk.next_offset
            return
        except (OffsetOutOfRange, FetchStalled) as fault:
            if isinstance(fault, OffsetOutOfRange) and (after := _after_loss(options, pair, start, end, fault)):
                missed, start = (start, min(after, end)), after
            else:
                before = _end_of_shorter_log(options, pair, start, end, fault)
                missed, end = (max(before, start), end), before
            if batch is not None:
                notes_for(options.cluster).add_missed(batch, pair, missed[0], missed[1] - missed[0])
        except Fault as fault:
            raise PipelineError(fault.message or fault.code.name) from fault


def _first_offset(options: SourceOptions, task: RangePartition, batch: RunningBatch | None) -> int:
    if batch is None or task.topic_id is None:
        return task.start
    pair, notes = (task.topic, task.partition), notes_for(options.cluster)
    if not notes.begins_again(batch, pair, task.topic_id, accepts_loss=not options.fail_on_data_loss):
        return task.start
    _warn(f"topic {task.topic!r} was deleted and created again: partition {task.partition} is read from its beginning")
    return min(Planner(options, client_for(options.cluster)).earliest((pair,))[pair], task.start)


def _after_loss(
    options: SourceOptions, pair: TopicPartitionPair, start: int, end: int, fault: OffsetOutOfRange
) -> int | None:
    """The first record that is left. None if the log begins before the range: then it ends before it, too."""
    planner = Planner(options, client_for(options.cluster))
    earliest = planner.earliest((pair,))[pair]
    if earliest <= start:
        return None
    gone = min(earliest, end) - start
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{fault.message}: {pair[0]}-{pair[1]} now begins at {earliest} and has lost "
            f"{counted(gone, 'record')} from {start} on; set failOnDataLoss=false to skip them, or read from "
            "startingOffsets=earliest with a new checkpoint"
        ) from fault
    _warn(
        f"{pair[0]}-{pair[1]}: lost {counted(gone, 'record')} from offset {start} to {earliest} before they were read"
    )
    return earliest


def _end_of_shorter_log(options: SourceOptions, pair: TopicPartitionPair, start: int, end: int, fault: Fault) -> int:
    log_end = Planner(options, client_for(options.cluster)).end_of_shorter_log(pair, end, fault)
    first = max(log_end, start)
    _warn(f"{pair[0]}-{pair[1]}: lost {counted(end - first, 'record')} from offset {first} to {end}: it is shorter")
    return log_end


def _warn(message: str) -> None:
    print(f"headrace: {message}", file=sys.stderr)


class HeadraceReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        planner = Planner(options, client_for(options.cluster))
        found = planner.find().partitions
        starts = planner.resolve(options.starting, found, ending=False)
        ends = planner.resolve(options.ending, found, ending=True)
        starts = self._within(starts, planner.earliest(found))
        ranges = [OffsetRange(*pair, starts[pair], ends[pair]) for pair in found]
        cut = split_ranges(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        return [RangePartition(piece) for piece in cut]

    def _within(
        self, starts: Mapping[TopicPartitionPair, int], earliest: Mapping[TopicPartitionPair, int]
    ) -> dict[TopicPartitionPair, int]:
        for (topic, index), start in starts.items():
            gone = earliest[(topic, index)] - start
            if gone > 0 and self.options.fail_on_data_loss:
                raise DataLossError(
                    f"{topic}-{index} begins at {earliest[(topic, index)]} and has lost "
                    f"{counted(gone, 'record')} from {start} on; set failOnDataLoss=false to skip them"
                )
        return {pair: max(start, earliest[pair]) for pair, start in starts.items()}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self.options, partition)


@dataclass(frozen=True)
class Position:
    """A stream's offset, as in Spark's journal."""

    offsets: dict[TopicPartitionPair, int]
    # Checkpoints of earlier versions have the topic ids among the offsets.
    topic_ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, given: Mapping[str, object]) -> Position:
        try:
            old_ids = given.get(_OLD_IDS)
            topic_ids = (
                {str(topic): str(found) for topic, found in old_ids.items()} if isinstance(old_ids, dict) else {}
            )
            return cls(offsets_from_json(given), topic_ids)
        except (AttributeError, TypeError, ValueError) as error:
            raise PipelineError(
                f"the checkpoint holds {str(dict(given))[:200]!r}, which is not an offset of this source: "
                "it belongs to a query of another format; use a new checkpointLocation"
            ) from error


@dataclass
class _FirstBatch:
    """The batch after `initialOffset`. Its start is not in Spark's journal: if Spark plans the batch, or repeats it
    after a restart, it asks for the initial offset again."""

    # These partitions enter the journal with an empty range: those that start at their end, where the answer moves, and
    # those whose ranges are split between a start that moves with retention and the end.
    waiting: frozenset[TopicPartitionPair]
    # Spark has got its end or its tasks. If it asks for an end now, this is another batch.
    is_known: bool = False


class HeadraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._clock = clock
        self._stop_at: dict[TopicPartitionPair, int] | None = None
        self._last_latest: dict[TopicPartitionPair, int] = {}
        # The first batch does not wait for minOffsetsPerTrigger, as in Spark's connector.
        self._last_trigger_at = -math.inf
        self._topic_ids: dict[str, str] = {}
        self._first: _FirstBatch | None = None

    def _planner(self) -> Planner:
        return Planner(self.options, client_for(self.options.cluster))

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 (Spark's name)
        planner = self._planner()
        found = planner.find()
        initial = planner.resolved(self.options.starting, found.partitions, ending=False)
        is_split = self.options.min_partitions or self.options.max_records_per_partition
        moving = (pair for pair in initial.offsets if is_split and moves_with_retention(self.options.starting, pair))
        self._first = _FirstBatch(initial.at_end.union(moving))
        return offsets_to_json(initial.offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.options.max_offsets:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.min_offsets:
            return ReadMinRows(self.options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        planner = self._planner()
        self._stop_at = planner.latest(planner.find().partitions)

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802
        return offsets_to_json(self._last_latest) if self._last_latest else None

    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        planner = self._planner()
        found = planner.find()
        begun = self._check_checkpoint(Position.from_json(start), found)
        latest = planner.latest(found.partitions)
        self._last_latest = latest
        waiting = self._waiting(begun, latest)
        if self._stop_at is not None:
            # The stop was fixed before the initial offset, and records may have come between the two.
            self._stop_at.update(
                {pair: max(at, begun.offsets.get(pair, at)) for pair, at in self._stop_at.items() if pair in waiting}
            )
            latest = {pair: min(end, self._stop_at[pair]) for pair, end in latest.items() if pair in self._stop_at}
        starts = self._past_losses(begun, found, planner, latest)
        self._topic_ids = found.topic_ids
        readable = {pair: starts[pair] if pair in waiting else end for pair, end in latest.items()}
        ends = self._limited(starts, readable, limit)
        # A partition's offset never goes back.
        return offsets_to_json({pair: max(end, starts.get(pair, 0)) for pair, end in ends.items()})

    def _waiting(self, begun: Position, latest: Iterable[TopicPartitionPair]) -> frozenset[TopicPartitionPair]:
        """Partitions of `latest` that are read from the next batch on. Its start is then in the journal, as the end of
        this one: the partitions of the initial offset that wait, and partitions that the stream meets for the first
        time."""
        if self._first is not None and self._first.is_known:
            self._first = None
        waiting: frozenset[TopicPartitionPair] = frozenset()
        if self._first is not None:
            waiting, self._first.is_known = self._first.waiting, True
        return frozenset(pair for pair in latest if pair in waiting or pair not in begun.offsets)

    def _limited(
        self, begun: Mapping[TopicPartitionPair, int], latest: dict[TopicPartitionPair, int], limit: ReadLimit
    ) -> dict[TopicPartitionPair, int]:
        if isinstance(limit, ReadAllAvailable):
            return latest
        waiting = sum(max(end - begun.get(pair, end), 0) for pair, end in latest.items())
        least = self.options.min_offsets
        now = self._clock()
        waits = now - self._last_trigger_at < self.options.max_trigger_delay_s
        if least and self._stop_at is None and waiting < least and waits:
            return {pair: begun.get(pair, end) for pair, end in latest.items()}
        self._last_trigger_at = now
        return limit_offsets(begun, latest, limit.max_rows) if isinstance(limit, ReadMaxRows) else latest

    def _check_checkpoint(self, begun: Position, found: Found) -> Position:
        topics, known = {topic for topic, _ in found.partitions}, {topic for topic, _ in begun.offsets}
        if known and topics and not known & topics:
            raise PipelineError(
                f"the checkpoint belongs to topic {', '.join(sorted(known))}, "
                f"the query reads {', '.join(sorted(topics))}: use a new checkpointLocation for another topic"
            )
        return begun

    def _past_losses(
        self, begun: Position, found: Found, planner: Planner, latest: Mapping[TopicPartitionPair, int]
    ) -> dict[TopicPartitionPair, int]:
        """Adds new partitions to the offsets and moves offsets past missing records. Raises DataLossError."""
        earliest = planner.earliest(tuple(latest))
        offsets = {}
        for pair, first in earliest.items():
            topic, index = pair
            old_id, new_id = self._known_id(begun, topic), found.topic_ids.get(topic)
            start = begun.offsets.get(pair)
            if start is None:
                # A new partition is read from its beginning, as in Spark's connector, but from the next batch on.
                offsets[pair] = first
            elif old_id and new_id and old_id != new_id:
                self._lost(f"topic {topic!r} was deleted and created again (its id was {old_id} and is {new_id})")
                offsets[pair] = first
            elif latest[pair] < start and (self._stop_at is None or self._stop_at.get(pair, start) < start):
                self._lost(
                    f"{topic}-{index} ends at {latest[pair]}, before the query's offset {start}: was it created again?"
                )
                offsets[pair] = first
            elif first > start:
                self._lost(
                    f"{topic}-{index} begins at {first} and has lost {counted(first - start, 'record')} from {start} on"
                )
                offsets[pair] = first
            else:
                offsets[pair] = start
        if gone := sorted(set(begun.offsets) - set(found.partitions)):
            self._lost(f"partition {gone[0][0]}-{gone[0][1]} is no longer there")
        return offsets

    def _known_id(self, begun: Position, topic: str) -> str | None:
        """The topic id that this process knows. The notes have the id from before its start."""
        return self._topic_ids.get(topic, begun.topic_ids.get(topic))

    def _lost(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{what}; set failOnDataLoss=false to continue with the existing records and count the missed ones, "
                "or start again with a new checkpointLocation"
            )
        _warn(what)

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        begun, until = Position.from_json(start), Position.from_json(end)
        planner = self._planner()
        ids = self._topic_ids or planner.find().topic_ids
        created_again = {topic for topic, old in begun.topic_ids.items() if ids.get(topic, old) != old}
        for topic in sorted(created_again):
            self._lost(f"topic {topic!r} was deleted and created again")
        is_first = self._first is not None
        if self._first is not None:
            self._first.is_known = True
        pieces = planner.pieces(begun.offsets, until.offsets, is_first=is_first, created_again=created_again)
        firsts = {(piece.topic, piece.partition): piece.start for piece in reversed(pieces)}
        return [
            RangePartition(
                piece, ids.get(piece.topic) if piece.start == firsts[(piece.topic, piece.partition)] else None
            )
            for piece in pieces
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self.options, partition, running_batch())

    def commit(self, end: Mapping[str, object]) -> None:
        pass

    def stop(self) -> None:
        leave_closed_session()
