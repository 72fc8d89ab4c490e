"""Records of topics, in the ranges of the tasks of `format("headrace")`."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.kernel.errors import Fault, OffsetOutOfRange
from headrace.pipelines.connectors.connector import ConnectorSpec
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import DataLossError, OptionError, PipelineError
from headrace.pipelines.lite.rows import DELETED, KEY, JsonOffset, LiteRow, SlotReader, not_in_lite
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.plugins.columns import Column, parse_columns
from headrace.pipelines.source.offsets import (
    OffsetRange,
    limit_offsets,
    offsets_from_json,
    offsets_to_json,
    split_ranges,
)
from headrace.pipelines.source.planning import Planner
from headrace.records.builder import Record

PLAIN: Final = "key string, value string, topic string, partition int, offset bigint, timestamp timestamp"
# Enough rows to be fast, few enough to keep a batch in memory.
_MOST_OFFSETS: Final = 20_000
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
        self._latest: dict[tuple[str, int], int] = {}

    def initial(self) -> JsonOffset:
        found = self._planner.find()
        return dict(offsets_to_json(self._planner.resolve(self.options.starting, found.partitions, ending=False)))

    def latest(self, start: JsonOffset, until: JsonOffset | None) -> JsonOffset:
        begun = offsets_from_json(start)
        found = self._planner.find()
        latest = self._planner.latest(found.partitions)
        self._latest = latest
        earliest = self._planner.earliest(found.partitions)
        for pair, offset in begun.items():
            if pair not in latest:
                raise DataLossError(f"partition {pair[0]}-{pair[1]} is no longer there")
            if not earliest[pair] <= offset <= latest[pair]:
                raise DataLossError(
                    f"{pair[0]}-{pair[1]} has the offsets {earliest[pair]} to {latest[pair]}, but the connector is at "
                    f"{offset}: records are lost, or the topic is a new one. Move it with 'headrace pipeline reset'"
                )
        starts = {pair: begun.get(pair, earliest[pair]) for pair in latest}
        if until is not None:
            stops = offsets_from_json(until)
            latest = {pair: min(end, stops[pair]) for pair, end in latest.items() if pair in stops}
        ends = limit_offsets(starts, latest, self.options.max_offsets or _MOST_OFFSETS)
        return dict(offsets_to_json({pair: max(end, starts[pair]) for pair, end in ends.items()}))

    def end(self) -> JsonOffset | None:
        return dict(offsets_to_json(self._planner.latest(self._planner.find().partitions)))

    def lag(self, end: JsonOffset) -> int:
        """Records after `end` when the source was last asked."""
        offsets = offsets_from_json(end)
        return sum(max(latest - offsets.get(pair, latest), 0) for pair, latest in self._latest.items())

    def slots(self, start: JsonOffset, end: JsonOffset) -> Sequence[SlotReader]:
        begun, until = offsets_from_json(start), offsets_from_json(end)
        new = tuple(pair for pair in until if pair not in begun)
        starts = {**begun, **(self._planner.earliest(new) if new else {})}
        pieces = split_ranges(
            [OffsetRange(*pair, starts[pair], offset) for pair, offset in until.items()],
            min_partitions=self.options.min_partitions,
            max_records=self.options.max_records_per_partition,
        )
        return [self._reader(piece) for piece in pieces]

    def _reader(self, piece: OffsetRange) -> SlotReader:
        settings = FetchSettings(
            max_bytes=1 << 20, isolation=self.options.isolation, stall_timeout_s=self.options.poll_timeout_s
        )

        def read() -> Iterator[LiteRow]:
            pair = (piece.topic, piece.partition)
            try:
                for record in fetched_records(self._client, pair, piece.start, piece.end, settings):
                    yield self._to_row(piece.topic, piece.partition, record)
            except OffsetOutOfRange as fault:
                raise DataLossError(f"{fault.message}: the records are lost") from fault
            except Fault as fault:
                raise PipelineError(fault.message or fault.code.name) from fault

        return read

    def committed(self, end: JsonOffset) -> None:
        pass

    def close(self) -> None:
        self._client.close()


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
