"""`df.write.format("headrace")` and `df.writeStream.format("headrace")`: rows to topics, exactly once by default.

Spark may run a task or a whole batch again: after a crash, after it lost an executor, or speculatively. Plain writes
would duplicate rows. So each task writes its rows *and* an entry in a ledger ("slot 3 has written batch 17") in one
Kafka transaction:

    slot      = number of the task within the batch; a slot always gets the same rows of a batch
    ledger    = the compacted topic `__sink_ledger`: the last batch id under the key `<prefix>.<slot>` (see `ledger`)
    prefix    = the query's id from its checkpoint, after `transactionalIdPrefix` or `spark`

A task first initialises its slot's transactional id, which fences an older attempt and aborts its transaction. Then it
reads the ledger, and skips its rows if the batch is there. Rows and ledger entry become visible together or not at all.
Readers must set `kafka.isolation.level=read_committed`, or they see rows of aborted attempts.

Invariant: a repeated batch has the same tasks. Spark's checkpoint keeps its offsets and shuffle partitions, and the
source splits ranges by offsets and options only. Changing `minPartitions` while a batch is unfinished breaks it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from headrace.client.blocking.client import BlockingClient, is_retriable
from headrace.client.blocking.produce import BatchProducer, Fenced, Transaction
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import OptionError, PipelineError, nearest
from headrace.pipelines.options import SinkOptions
from headrace.pipelines.sink.arrow_writer import Ints, encode_headers, partitions_for_keys, sections
from headrace.pipelines.sink.ledger import SinkLedger, create_ledger
from headrace.pipelines.spark.running_batch import running_batch
from headrace.pipelines.spark.worker_clients import client_for, remembered

# Where earlier versions kept the ledger of a sink without a topic of its own.
_OLD_LEDGER_TOPIC: Final = "__pipelines"
_TEXT_OR_BYTES: Final = (StringType, BinaryType)
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_COLUMNS: Final = ("key", "value", "topic", "partition", "headers", "timestamp")


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    slot: int
    rows: int
    skipped: bool


def check_schema(schema: StructType, topic: str | None, *, is_encoded: bool = False) -> None:
    """Checks for the columns and types of Spark's Kafka sink. Raises OptionError with the column. `is_encoded`: the
    sink encodes the value, so it may be of any type, or missing."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types and not is_encoded:
        close = next((f" (found {name!r})" for name in types if nearest(name, ["value"])), "")
        raise OptionError(f'the sink needs a column "value" of type string or binary{close}')
    if topic is None and "topic" not in types:
        raise OptionError('say where to write: option "topic", or a column "topic" of type string')
    for name in ("key",) if is_encoded else ("key", "value"):
        if name in types and not isinstance(types[name], _TEXT_OR_BYTES):
            raise OptionError(f'column "{name}" is {types[name].simpleString()}: must be string or binary; cast it')
    if "topic" in types and not isinstance(types["topic"], StringType):
        raise OptionError(f'column "topic" is {types["topic"].simpleString()}: must be string')
    if "partition" in types and not isinstance(types["partition"], IntegerType):
        raise OptionError(f'column "partition" is {types["partition"].simpleString()}: must be int')
    if "headers" in types and types["headers"].simpleString() != _HEADERS:
        raise OptionError(f'column "headers" is {types["headers"].simpleString()}: must be {_HEADERS}')


class _RowWriter:
    """Converts Arrow batches to record batches per partition and sends them."""

    def __init__(self, options: SinkOptions, client: BlockingClient, producer: BatchProducer, spread: int) -> None:
        self.options, self.client, self.producer = options, client, producer
        self._spread = spread
        self._partition_counts: dict[str, int] = {}
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        column = {name: batch.column(names.index(name)) for name in _COLUMNS if name in names}
        keys = column["key"].cast(pa.binary()) if "key" in column else pa.nulls(batch.num_rows, pa.binary())
        values = self._values(batch, column)
        headers = encode_headers(column["headers"]) if "headers" in column else None
        times = self._timestamps(column.get("timestamp"), batch.num_rows)
        for topic, rows in self._by_topic(column.get("topic"), batch.num_rows):
            chosen = self._partitions(topic, keys, column.get("partition"), rows)
            for partition in np.unique(chosen):
                mine = rows[chosen == partition]
                whole = len(mine) == batch.num_rows
                pick = pa.array(mine)
                for section in sections(
                    keys if whole else keys.take(pick),
                    values if whole else values.take(pick),
                    headers if whole or headers is None else headers.take(pick),
                    times[mine],
                    self.options.batch_bytes,
                ):
                    self.producer.send((topic, int(partition)), section)
        self.rows += batch.num_rows

    def _values(self, batch: pa.RecordBatch, column: Mapping[str, pa.Array]) -> pa.Array:
        encoding = self.options.encoding
        if encoding is None:
            return column["value"].cast(pa.binary())
        return encoding.encode(batch, self.options.topic or column["topic"].to_pylist())

    def _timestamps(self, column: pa.Array | None, count: int) -> Ints:
        now = int(time.time() * 1000)
        if column is None or not self.options.keep_timestamps:
            return np.full(count, now, np.int64)
        return np.asarray(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).fill_null(now * 1000)) // 1000

    def _by_topic(self, column: pa.Array | None, count: int) -> Iterator[tuple[str, Ints]]:
        # The option takes precedence over the column, as in Spark's sink.
        if self.options.topic is not None or column is None:
            yield self.options.topic or "", np.arange(count)
            return
        if column.null_count:
            raise PipelineError('a row\'s "topic" is null and there is no option "topic" to fall back to')
        coded = column.dictionary_encode()
        indices = np.asarray(coded.indices)
        for at, topic in enumerate(coded.dictionary.to_pylist()):
            yield topic, np.flatnonzero(indices == at)

    def _partitions(self, topic: str, keys: pa.Array, explicit: pa.Array | None, rows: Ints) -> Ints:
        count = self._partition_count(topic)
        chosen = partitions_for_keys(keys if len(rows) == len(keys) else keys.take(pa.array(rows)), count)
        # Rows without a key of one Arrow batch go to one partition; the next batch uses the next partition.
        chosen = np.where(chosen < 0, self._spread % count, chosen)
        self._spread += 1
        if explicit is None:
            return chosen
        given = np.asarray(explicit.take(pa.array(rows)).fill_null(-1)).astype(np.int64)
        if (wrong := given[(given >= count) | (given < -1)]).size:
            raise PipelineError(
                f'column "partition" holds {int(wrong[0])}, but topic {topic!r} has {counted(count, "partition")}'
            )
        return np.where(given >= 0, given, chosen)

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            key = (self.options.cluster, topic)
            self._partition_counts[topic] = remembered(key, lambda: partition_count(self.client, topic))
        return self._partition_counts[topic]


def partition_count(client: BlockingClient, topic: str) -> int:
    """Partition count of a topic. The broker may create the topic on this request."""
    found = client.topics([topic])
    if topic not in found:
        client.provoke_creation(topic)
        found = client.topics([topic])
    if topic not in found:
        raise PipelineError(
            f"topic {topic!r} does not exist and the broker does not create topics by itself: create it"
        )
    return len(found[topic].partitions)


def write_slot(options: SinkOptions, rows: Iterator[pa.RecordBatch], prefix: str, slot: int, batch_id: int) -> Written:
    """Writes one task's rows and its ledger entry, both or neither. Writes nothing if the ledger has the entry
    already."""
    client = client_for(options.cluster)
    try:
        if not options.exactly_once:
            return _write_plainly(options, client, rows, slot, batch_id)
        return _write_in_transaction(options, client, rows, prefix, slot, batch_id)
    except Fault as fault:
        # Answers may still arrive on this connection: the next task of this worker must not read them as its own.
        client.close()
        raise PipelineError(fault.message or fault.code.name) from fault
    except BaseException:
        # For every exception, interrupts included, for the same reason.
        client.close()
        raise


def _write_plainly(
    options: SinkOptions, client: BlockingClient, rows: Iterator[pa.RecordBatch], slot: int, batch_id: int
) -> Written:
    producer = BatchProducer(client, codec=options.codec, acks=options.acks)
    if options.acks == -1:
        producer.be_idempotent()
    writer = _RowWriter(options, client, producer, slot + batch_id)
    for batch in rows:
        writer.write(batch)
    producer.flush()
    return Written(slot, writer.rows, skipped=False)


def _write_in_transaction(
    options: SinkOptions, client: BlockingClient, rows: Iterator[pa.RecordBatch], prefix: str, slot: int, batch_id: int
) -> Written:
    old_topic = options.ledger_topic or options.topic or _OLD_LEDGER_TOPIC
    ledger = SinkLedger(client, options.cluster, prefix, slot, old_topic)
    transaction = Transaction(client, f"{prefix}-{slot}", timeout_ms=options.transaction_timeout_ms)
    transaction.begin()
    done = ledger.last_batch()
    if done is not None and done >= batch_id:
        return Written(slot, 0, skipped=True)
    producer = BatchProducer(client, transaction=transaction, codec=options.codec)
    writer = _RowWriter(options, client, producer, slot + batch_id)
    try:
        for batch in rows:
            writer.write(batch)
        if writer.rows:
            ledger.write(producer, batch_id, writer.rows)
        producer.flush()
    except BaseException as failure:
        # A bad row (a failed UDF, a record too large): abort, so that readers need not wait for the transaction
        # time-out. A fenced producer has nothing to abort, and brokers that did not answer until the time-out will not
        # answer an abort either.
        if not isinstance(failure, Fault) or not (isinstance(failure, Fenced) or is_retriable(failure)):
            with suppress(Fault):
                producer.flush()
                transaction.abort()
        raise
    if writer.rows == 0:
        return Written(slot, 0, skipped=False)
    transaction.commit()
    ledger.written()
    return Written(slot, writer.rows, skipped=False)


def _checked(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Checks options and cluster. Remembers the result, because Spark creates a writer twice per micro-batch."""
    options = remembered((frozenset(given.items()), schema.json()), lambda: _check(given, schema))
    client_for(options.cluster)
    return options


def _check(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    options = SinkOptions.parse(given)
    check_schema(schema, options.topic, is_encoded=options.encoding is not None)
    if options.encoding is not None:
        options = replace(options, encoding=options.encoding.for_columns(schema, options.topic))
    client = client_for(options.cluster)
    try:
        client.any_connection()
        if options.topic is not None:
            partition_count(client, options.topic)
        if options.exactly_once:
            create_ledger(client)
    except Fault as fault:
        raise PipelineError(fault.message or fault.code.name) from fault
    return options


def _slot_of_task(name: str | None) -> tuple[str | None, int, int]:
    """(prefix, slot, batch id) of the running task. The prefix is None outside a streaming query."""
    task = TaskContext.get()
    assert task is not None, "write() runs inside a task"
    batch = running_batch()
    if batch is None:
        return None, task.partitionId(), 0
    # A new checkpoint counts batches from 0 again and needs a new ledger. It has a new query id.
    return f"{name or 'spark'}-{batch.query_id}", task.partitionId(), batch.batch_id


class HeadraceStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self.options = _checked(given, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        prefix, slot, batch_id = _slot_of_task(self.options.transactional_id_prefix)
        assert prefix is not None, "a stream writer runs inside a streaming query"
        return write_slot(self.options, iterator, prefix, slot, batch_id)


class HeadraceWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """A batch write. A repeated task skips rows that it has written; a repeated job writes them again.

    Inside `foreachBatch` it also recognises a repeated batch if the write has its own `transactionalIdPrefix`. Without
    one it cannot: two writes of one batch would share a ledger.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('mode "overwrite" is not possible, a topic is only appended to: use mode("append")')
        self.options = _checked(given, schema)
        self.job = f"{self.options.transactional_id_prefix or 'spark-write'}-{uuid.uuid4().hex[:16]}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        prefix, slot, batch_id = _slot_of_task(self.options.transactional_id_prefix)
        if prefix is None or self.options.transactional_id_prefix is None:
            prefix, batch_id = self.job, 0
        return write_slot(self.options, iterator, prefix, slot, batch_id)
