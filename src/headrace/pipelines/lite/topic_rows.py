"""Records of topics, in the ranges of the tasks of `format("headrace")`."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.fetch import FetchSettings, FetchStalled, fetched_records
from headrace.kernel.errors import Fault, OffsetOutOfRange
from headrace.kernel.plurals import counted
from headrace.pipelines.connectors.connector import ConnectorSpec
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import DataLossError, OptionError, PipelineError
from headrace.pipelines.lite.rows import DELETED, KEY, JsonOffset, LiteRow, SlotReader, not_in_lite
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.plugins.columns import Column, parse_columns
from headrace.pipelines.source.offsets import (
    OffsetRange,
    TopicPartitionPair,
    limit_offsets,
    offsets_from_json,
    offsets_to_json,
)
from headrace.pipelines.source.planning import Planner
from headrace.pipelines.source.stream_state import StreamNotes
from headrace.pipelines.spark.running_batch import RunningBatch
from headrace.records.builder import Record

PLAIN: Final = "key string, value string, topic string, partition int, offset bigint, timestamp timestamp"
# Enough rows to be fast, few enough to keep a batch in memory.
_MOST_OFFSETS: Final = 20_000
# A batch waits no longer than this for notes, because it can continue without them.
_NOTES_PATIENCE_S: Final = 3.0
_NOT_HERE: Final = ("decode", "writer_schema", "pattern")


def source_options(spec: ConnectorSpec, end: End) -> SourceOptions:
    """The options that Spark's reader would get."""
    if not spec.bootstrap:
        raise OptionError(f'{end.place}: say which brokers: "bootstrap" in the file, or --bootstrap')
    if name := next((name for name in _NOT_HERE if name in end.settings), None):
        raise not_in_lite(end.place, f'it has "{name}"')
    given = {
        **spec.brokers,
        "startingOffsets": end.text("startingOffsets", "earliest"),
        "kafka.isolation.level": "read_committed",
        "subscribe": end.text("name"),
        **end.options(),
    }
    return SourceOptions.parse(given, streaming=True)


class TopicRows:
    """`to_row` makes a row of a record: the plain columns, or those of a schema."""

    def __init__(
        self, options: SourceOptions, columns: tuple[Column, ...], to_row: Callable[[str, int, Record], LiteRow]
    ) -> None:
        self.options, self.columns, self._to_row = options, columns, to_row
        cluster = options.cluster
        self._client = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security)
        self._planner = Planner(options, self._client)
        patience = {"timeout_s": _NOTES_PATIENCE_S, "patience_s": _NOTES_PATIENCE_S}
        self._notes_client = BlockingClient(
            cluster.bootstrap, client_id=cluster.client_id, security=cluster.security, **patience
        )
        self._notes = StreamNotes(self._notes_client)
        self._latest: dict[tuple[str, int], int] = {}
        self._topic_ids: dict[str, str] = {}
        # Whether the start of the next batch is the initial offset, which is not in the journal.
        self._is_first = False

    def initial(self) -> JsonOffset:
        self._is_first = True
        found = self._planner.find()
        return dict(offsets_to_json(self._planner.resolve(self.options.starting, found.partitions, ending=False)))

    def latest(self, start: JsonOffset, until: JsonOffset | None) -> JsonOffset:
        self._is_first = False
        begun = offsets_from_json(start)
        found = self._planner.find()
        latest = self._planner.latest(found.partitions)
        self._latest, self._topic_ids = latest, found.topic_ids
        earliest = self._planner.earliest(found.partitions)
        for pair, offset in begun.items():
            if pair not in latest:
                self._lost(f"partition {pair[0]}-{pair[1]} is no longer there")
            elif not earliest[pair] <= offset <= latest[pair]:
                self._lost(
                    f"{pair[0]}-{pair[1]} has the offsets {earliest[pair]} to {latest[pair]}, but the connector is at "
                    f"{offset}: records are lost, or the topic is a new one. Move it with 'headrace pipeline reset'"
                )
                begun[pair] = earliest[pair]
        starts = {pair: begun.get(pair, earliest[pair]) for pair in latest}
        if until is not None:
            stops = offsets_from_json(until)
            latest = {pair: min(end, stops[pair]) for pair, end in latest.items() if pair in stops}
        # A partition enters with its first offset, which the journal then has as the start of the next batch.
        latest = {pair: end if pair in begun else starts[pair] for pair, end in latest.items()}
        ends = limit_offsets(starts, latest, self.options.max_offsets or _MOST_OFFSETS)
        return dict(offsets_to_json({pair: max(end, starts[pair]) for pair, end in ends.items()}))

    def end(self) -> JsonOffset | None:
        return dict(offsets_to_json(self._planner.latest(self._planner.find().partitions)))

    def lag(self, end: JsonOffset) -> int:
        """Records after `end` when the source was last asked."""
        offsets = offsets_from_json(end)
        return sum(max(latest - offsets.get(pair, latest), 0) for pair, latest in self._latest.items())

    def _lost(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(what)
        _warn(what)

    def slots(self, start: JsonOffset, end: JsonOffset, batch: RunningBatch) -> Sequence[SlotReader]:
        ids = self._topic_ids or self._planner.find().topic_ids
        pieces = self._planner.pieces(offsets_from_json(start), offsets_from_json(end), is_first=self._is_first)
        firsts = {(piece.topic, piece.partition): piece.start for piece in reversed(pieces)}
        return [self._reader(piece, batch, _id_to_check(piece, firsts, ids)) for piece in pieces]

    def _reader(self, piece: OffsetRange, batch: RunningBatch, topic_id: str | None) -> SlotReader:
        settings = FetchSettings(
            max_bytes=1 << 20, isolation=self.options.isolation, stall_timeout_s=self.options.poll_timeout_s
        )

        def read() -> Iterator[LiteRow]:
            pair = (piece.topic, piece.partition)
            start = piece.start if topic_id is None else self._first_offset(piece, batch, topic_id)
            end = piece.end
            while start < end:
                try:
                    for record in fetched_records(self._client, pair, start, end, settings):
                        start = record.offset + 1
                        yield self._to_row(piece.topic, piece.partition, record)
                    return
                except (OffsetOutOfRange, FetchStalled) as fault:
                    if isinstance(fault, OffsetOutOfRange) and (
                        after := self._after_loss(batch, pair, start, end, fault)
                    ):
                        start = after
                    else:
                        end = self._end_of_shorter_log(batch, pair, start, end, fault)
                except Fault as fault:
                    raise PipelineError(fault.message or fault.code.name) from fault

        return read

    def _first_offset(self, piece: OffsetRange, batch: RunningBatch, topic_id: str) -> int:
        """Where the batch begins to read a partition. Raises DataLossError if the topic is a new one."""
        pair = (piece.topic, piece.partition)
        if not self._notes.begins_again(batch, pair, topic_id, accepts_loss=not self.options.fail_on_data_loss):
            return piece.start
        _warn(f"topic {pair[0]!r} was deleted and created again: partition {pair[1]} is read from its beginning")
        return min(self._planner.earliest((pair,))[pair], piece.start)

    def _after_loss(
        self, batch: RunningBatch, pair: TopicPartitionPair, start: int, end: int, fault: OffsetOutOfRange
    ) -> int | None:
        """The first record that is left. None if the log begins before the range: then it ends before it, too."""
        first = self._planner.earliest((pair,))[pair]
        if first <= start:
            return None
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{fault.message}: the records are lost") from fault
        self._missed(batch, pair, start, min(first, end))
        return first

    def _end_of_shorter_log(
        self, batch: RunningBatch, pair: TopicPartitionPair, start: int, end: int, fault: Fault
    ) -> int:
        log_end = self._planner.end_of_shorter_log(pair, end, fault)
        self._missed(batch, pair, max(log_end, start), end)
        return log_end

    def _missed(self, batch: RunningBatch, pair: TopicPartitionPair, start: int, end: int) -> None:
        _warn(
            f"{pair[0]}-{pair[1]}: lost {counted(end - start, 'record')} from offset {start} on before they were read"
        )
        self._notes.add_missed(batch, pair, start, end - start)

    def committed(self, end: JsonOffset) -> None:
        pass

    def close(self) -> None:
        self._client.close()
        self._notes_client.close()


def _id_to_check(piece: OffsetRange, starts: Mapping[TopicPartitionPair, int], ids: Mapping[str, str]) -> str | None:
    """The topic id for the slot with the first records of its partition in a batch, as in Spark's reader."""
    return ids.get(piece.topic) if piece.start == starts[(piece.topic, piece.partition)] else None


def _warn(what: str) -> None:
    print(f"headrace: {what}", file=sys.stderr)


def plain_row(topic: str, partition: int, record: Record) -> LiteRow:
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": datetime.datetime.fromtimestamp(record.timestamp_ms / 1000, datetime.UTC),
        KEY: _text(record.key),
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def plain_columns() -> tuple[Column, ...]:
    return parse_columns(PLAIN)


def deleted_row(columns: Sequence[Column], record: Record) -> LiteRow:
    return {**dict.fromkeys((column.name for column in columns), None), DELETED: True, KEY: _text(record.key)}
