"""A topic as a typed collection."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from headrace.api.errors import NotPossible, ReadFailed, WrongValue
from headrace.api.frames import Moment, Range, Tail, arrow_table, records_of, spans_of
from headrace.api.live_table import LiveTable, records_html
from headrace.api.queue import Delivery, deliveries
from headrace.api.reader import Decoder, GroupReader, checked, next_messages
from headrace.api.record import Record
from headrace.api.sender import (
    DEFAULT_GUARANTEE,
    NO_HOME,
    POLL_EVERY,
    REFUSALS,
    Home,
    Key,
    Sender,
    SentHeaders,
    check_guarantee,
)
from headrace.api.transaction import TransactionalReader, Transactions
from headrace.api.value_codec import Unchanged, ValueCodec
from headrace.api.value_types import Field, built, fields_of, is_record_type
from headrace.kernel.errors import Fault

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow as pa

T = TypeVar("T")
_TIMEOUT_S: Final = 30.0
_SHOWN_ROWS: Final = 10


class Topic(Generic[T]):
    """Made by `cluster.topic(name, type)`."""

    def __init__(
        self,
        name: str,
        hint: type | str | None,
        codec: ValueCodec,
        settings: Mapping[str, object],
        sender: Callable[[str], Sender],
    ) -> None:
        self.name = name
        self._hint = hint
        self._codec = codec
        self._decoder: Decoder[T] = Decoder(codec)
        self._settings = settings
        self._sender = sender
        self._senders: dict[str, Sender] = {}
        self._is_bytes = isinstance(codec, Unchanged)
        self._home: Home = NO_HOME
        self._unpolled = 0

    # Writing

    def encoded(self, value: T | None) -> bytes | None:
        """The bytes of a value; None for a tombstone. Raises WrongValue."""
        return None if value is None else self._codec.encode(value)

    def send(
        self,
        value: T | None,
        *,
        key: Key = None,
        headers: SentHeaders | None = None,
        partition: int | None = None,
        guarantee: str = DEFAULT_GUARANTEE,
    ) -> None:
        """Queues a record. `None` writes a tombstone. Raises WrongValue now, and DeliveryFailed at the next send or
        flush if the cluster did not take the record."""
        data = value if self._is_bytes and type(value) is bytes else self.encoded(value)
        caller = sys._getframe(1)
        code, at, produce, failures = self._home
        # Most records come from one line of a program and ask for nothing special. Every call that this way does not
        # make is a tenth of the cost of a send.
        if (
            caller.f_code is code
            and caller.f_lasti == at
            and headers is None
            and partition is None
            and guarantee == DEFAULT_GUARANTEE
            and not failures
        ):
            try:
                produce(self.name, data, key)
            except REFUSALS as error:
                self._senders[guarantee].retry(error, self.name, partial(produce, self.name, data, key))
            self._unpolled += 1
            if self._unpolled == POLL_EVERY:
                self._unpolled = 0
                self._senders[guarantee].poll()
            return
        sender = self._senders.get(guarantee)
        if sender is None:
            sender = self._senders[guarantee] = self._sender(guarantee)
        sender.send(self.name, data, key, headers, partition, caller)
        if guarantee == DEFAULT_GUARANTEE:
            self._home = sender.home(self.name)

    def send_all(self, values: Iterable[T], *, key: Callable[[T], Key] | None = None) -> int:
        """Sends many values and waits for their delivery. The number of them."""
        count = 0
        for value in values:
            self.send(value, key=None if key is None else key(value))
            count += 1
        self.flush()
        return count

    def flush(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Waits until everything is delivered. Raises DeliveryFailed."""
        for sender in list(self._senders.values()):
            sender.flush(timeout_s)

    # Reading

    def read(
        self,
        group: str,
        *,
        guarantee: str = "at-least-once",
        start: str = "earliest",
        idle: float | None = None,
        on_rebalance: Callable[[], None] = lambda: None,
    ) -> GroupReader[T]:
        """Records of a consumer group; commits after the loop body. `idle`: end after so many seconds without a record.
        `start`: "earliest" or "latest", for a group without a committed offset. `on_rebalance` is called when the group
        gives partitions to this reader or takes them: what the program remembers of a partition may be old."""
        check_guarantee(guarantee)
        if start not in ("earliest", "latest"):
            raise NotPossible(f'start={start!r}: choose "earliest" or "latest"')
        settings = {**self._settings, "group.id": group, "auto.offset.reset": start}
        if guarantee == "exactly-once":
            settings["isolation.level"] = "read_committed"
        return GroupReader(settings, self.name, self._decoder, guarantee, idle_s=idle, on_rebalance=on_rebalance)

    async def follow(
        self, *, start: str = "latest", until: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[Record[T]]:
        """New records of all partitions, without a group, for asyncio. Ends when `until` returns true."""
        consumer = Consumer({**self._settings, "group.id": "headrace-follow", "enable.auto.commit": False})
        at = OFFSET_END if start == "latest" else OFFSET_BEGINNING
        try:
            found = await asyncio.to_thread(consumer.list_topics, self.name, _TIMEOUT_S)
            partitions = found.topics[self.name].partitions
            consumer.assign([TopicPartition(self.name, index, at) for index in partitions])
            while not until():
                for message in checked(await asyncio.to_thread(next_messages, consumer, 500, 0.2)):
                    yield self._decoder.record(message)
        finally:
            await asyncio.to_thread(consumer.close)

    def transaction(
        self, id_: str, *, group: str, start: str = "earliest", idle: float | None = None
    ) -> TransactionalReader[T]:
        """Consume, transform and produce exactly once: see `headrace.api.transaction`. `id_` is the transactional id:
        the same one after a restart, and another one for each program that runs at the same time."""
        reader = self.read(group, guarantee="exactly-once", start=start, idle=idle)
        try:
            return TransactionalReader(Transactions(self._settings, id_), reader)
        except BaseException:  # a member that does not poll would hold its partitions
            reader.close()
            raise

    def queue(self, group: str, *, idle: float | None = None) -> Iterator[Delivery[T]]:
        """Deliveries of a share group: each is acknowledged, released or rejected."""
        settings = {**self._settings, "group.id": group}
        return deliveries(settings, self.name, self._decoder, idle)

    def records(
        self, *, start: Moment | None = None, end: Moment | None = None, last: str | None = None
    ) -> Iterator[Record[T]]:
        """The records of a range of times or offsets, without a group."""
        return records_of(self._settings, self.name, self._decoder, Range(start, end, last))

    # Tables

    def to_arrow(self, *, start: Moment | None = None, end: Moment | None = None, last: str | None = None) -> pa.Table:
        """The columns are `partition`, `offset`, `timestamp`, `key`, the fields of the type, and `error`."""
        from headrace.api.arrow_columns import column_reader

        fields, wanted = self._fields(), Range(start, end, last)
        reader = column_reader(self._codec, self._hint, fields)
        if reader is None:
            records = records_of(self._settings, self.name, self._decoder, wanted)
            return arrow_table(records, [one.name for one in fields])
        try:
            return reader.table(self._settings, self.name, spans_of(self._settings, self.name, wanted))
        except Fault as fault:
            raise ReadFailed(f"topic {self.name} cannot be read: {fault.message}") from fault

    def to_pandas(
        self, *, start: Moment | None = None, end: Moment | None = None, last: str | None = None
    ) -> pandas.DataFrame:
        return self.to_arrow(start=start, end=end, last=last).to_pandas()

    def to_polars(
        self, *, start: Moment | None = None, end: Moment | None = None, last: str | None = None
    ) -> polars.DataFrame:
        import polars

        return cast("polars.DataFrame", polars.from_arrow(self.to_arrow(start=start, end=end, last=last)))

    def to_duckdb(
        self, *, start: Moment | None = None, end: Moment | None = None, last: str | None = None
    ) -> duckdb.DuckDBPyRelation:
        import duckdb

        return duckdb.from_arrow(self.to_arrow(start=start, end=end, last=last))

    def from_frame(self, frame: object, *, key: str | None = None) -> int:
        """Sends each row of an Arrow table, or of a pandas or Polars frame. `key`: the column with the keys."""
        fields = self._fields()
        if not fields:
            raise NotPossible(f"topic {self.name} has no type with fields: cluster.topic(name, type) gives it one")
        table = _arrow_of(frame)
        columns = set(table.column_names)
        names = [one.name for one in fields if one.name in columns]
        if key is not None and key not in columns:
            raise NotPossible(f"key={key!r}: the frame has only the columns {', '.join(table.column_names)}")
        count = 0
        for row in table.to_pylist():
            value = cast("T", built(self._hint, {name: row[name] for name in names}))
            self.send(value, key=None if key is None else str(row[key]))
            count += 1
        self.flush()
        return count

    def _fields(self) -> tuple[Field, ...]:
        return fields_of(self._hint) if isinstance(self._hint, type) and is_record_type(self._hint) else ()

    def last(self, count: int) -> list[Record[T]]:
        """The newest records, oldest first."""
        if count < 1:
            raise NotPossible(f"last({count}): ask for at least one record")
        # Offsets of control records and of compacted ones are not records: such a partition may give fewer.
        found = records_of(self._settings, self.name, self._decoder, Tail(count))
        return sorted(found, key=lambda record: (record.timestamp_ms, record.partition, record.offset))[-count:]

    def live(
        self, *, rows: int = _SHOWN_ROWS, every: float = 0.5, show: Callable[[str], object] | None = None
    ) -> LiveTable[T]:
        """A table of the newest records that updates itself in a notebook until its `stop`."""
        return LiveTable(self, rows, every, show)

    def _repr_html_(self) -> str:
        """The newest records, for notebooks."""
        return records_html(self.name, self.last(_SHOWN_ROWS))


def _arrow_of(frame: object) -> pa.Table:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "to_arrow"):
        return frame.to_arrow()
    if hasattr(frame, "iloc"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    raise WrongValue(f"{type(frame).__name__} is no frame: give an Arrow table, or a pandas or Polars frame")
