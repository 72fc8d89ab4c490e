"""Topics as tables, and tables as records: Arrow, and through it pandas, Polars and DuckDB.

The columns are `partition`, `offset`, `timestamp`, `key`, one for each field of the value (or `value`), and `error` for
records that do not fit the type.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from headrace.api.errors import NotPossible, ReadFailed
from headrace.api.reader import Decoder, checked, next_messages
from headrace.api.record import Record
from headrace.api.value_types import plain

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_ASK_TIMEOUT_S: Final = 30.0
_WAIT_S: Final = 0.05
_BATCH: Final = 10_000
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_LAST: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
Moment = datetime.datetime | int


def seconds_of(last: str) -> float:
    """Seconds of "90s", "15m", "1h", "7d", "2w". Raises NotPossible."""
    found = _LAST.fullmatch(last.strip())
    if found is None:
        raise NotPossible(f"last={last!r}: write a number and a unit, for example 90s, 15m, 1h, 7d")
    return float(found[1]) * _UNITS[found[2]]


class Range:
    """Which records: `start` (inclusive) and `end` (exclusive) are times or offsets; `last` counts back from now."""

    def __init__(self, start: Moment | None, end: Moment | None, last: str | None) -> None:
        if last is not None:
            if start is not None or end is not None:
                raise NotPossible("last= is a range by itself: leave start and end out")
            start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_of(last))
        for name, moment in (("start", start), ("end", end)):
            if isinstance(moment, datetime.datetime) and moment.tzinfo is None:
                raise NotPossible(f"{name}={moment.isoformat()} has no time zone: use for example tzinfo=datetime.UTC")
            if isinstance(moment, int) and moment < 0:
                raise NotPossible(f"{name}={moment}: an offset cannot be negative")
        self.start, self.end = start, end

    def offsets(self, consumer: Consumer, topic: str, index: int) -> tuple[int, int]:
        """First offset, and the offset to stop before."""
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, index), _ASK_TIMEOUT_S)
        start = low if self.start is None else self._offset(consumer, topic, index, self.start, high)
        end = high if self.end is None else self._offset(consumer, topic, index, self.end, high)
        return max(low, start), min(high, end)

    def _offset(self, consumer: Consumer, topic: str, index: int, moment: Moment, high: int) -> int:
        if isinstance(moment, int):
            return moment
        asked = TopicPartition(topic, index, round(moment.timestamp() * 1000))
        found = consumer.offsets_for_times([asked], _ASK_TIMEOUT_S)[0].offset
        return high if found in (OFFSET_END, -1) else int(found)


class Tail(Range):
    """The last offsets of each partition."""

    def __init__(self, count: int) -> None:
        super().__init__(None, None, None)
        self._count = count

    def offsets(self, consumer: Consumer, topic: str, index: int) -> tuple[int, int]:
        low, high = super().offsets(consumer, topic, index)
        return max(low, high - self._count), high


def _consumer(settings: Mapping[str, object]) -> Consumer:
    return Consumer({**settings, "group.id": "headrace-frames", "enable.auto.commit": False})


def _spans(consumer: Consumer, topic: str, wanted: Range) -> dict[int, tuple[int, int]]:
    """(first offset, offset to stop before) of the partitions that have records of the range. Raises ReadFailed."""
    found = consumer.list_topics(topic, _ASK_TIMEOUT_S).topics[topic]
    if found.error is not None:
        raise ReadFailed(f"topic {topic} cannot be read: {found.error.str()}")
    spans = {index: wanted.offsets(consumer, topic, index) for index in found.partitions}
    return {index: (start, end) for index, (start, end) in spans.items() if start < end}


def spans_of(settings: Mapping[str, object], topic: str, wanted: Range) -> dict[int, tuple[int, int]]:
    """Offsets of a range by partition. Raises ReadFailed."""
    consumer = _consumer(settings)
    try:
        return _spans(consumer, topic, wanted)
    except KafkaException as error:
        raise ReadFailed(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def records_of(settings: Mapping[str, object], topic: str, decoder: Decoder[T], wanted: Range) -> Iterator[Record[T]]:
    """The records of a range, without a group. Ends at its end. Raises ReadFailed."""
    consumer = _consumer(settings)
    try:
        spans = _spans(consumer, topic, wanted)
        left = {index: end for index, (_, end) in spans.items()}
        consumer.assign([TopicPartition(topic, index, spans[index][0]) for index in left])
        while left:
            messages = next_messages(consumer, _BATCH, _WAIT_S)
            for message in checked(messages):
                index = message.partition()
                if index in left and message.offset() < left[index]:
                    yield decoder.record(message)
            for at in consumer.position([TopicPartition(topic, index) for index in left]):
                if at.offset >= left[at.partition]:
                    del left[at.partition]
    except KafkaException as error:
        raise ReadFailed(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def arrow_table(records: Iterator[Record[T]], fields: Sequence[str]) -> pa.Table:
    """`fields`: the fields of the values; empty for values without fields."""
    import pyarrow as pa

    places: dict[str, list[object]] = {"partition": [], "offset": [], "timestamp": [], "key": []}
    values: dict[str, list[object]] = {name: [] for name in fields or ("value",)}
    errors: list[str | None] = []
    for record in records:
        places["partition"].append(record.partition)
        places["offset"].append(record.offset)
        places["timestamp"].append(record.timestamp)
        places["key"].append(record.key)
        errors.append(record.error)
        value = plain(record.decoded)
        if fields:
            row = value if isinstance(value, Mapping) else {}
            for name in fields:
                values[name].append(row.get(name))
        else:
            values["value"].append(value)
    types = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("ms", "UTC"), "key": pa.string()}
    columns = {name: pa.array(column, types[name]) for name, column in places.items()}
    taken = set(columns) | {"error"}
    for name, column in values.items():
        columns[f"value_{name}" if name in taken else name] = pa.array(column)
    columns["error"] = pa.array(errors, pa.string())
    return pa.table(columns)
