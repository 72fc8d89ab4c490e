"""Records in transactions, with the ledger of Spark's tasks: a slot writes its rows and its entry, both or neither."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from headrace.client.blocking.client import BlockingClient, is_retriable
from headrace.client.blocking.produce import BatchProducer, Fenced, Section, Transaction
from headrace.kernel.errors import Fault
from headrace.kernel.ids import partition_for_key
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.lite.rows import DELETED, KEY, LiteBatch, LiteRow, SlotReader, not_in_lite
from headrace.pipelines.lite.spark_text import cast_text, json_text
from headrace.pipelines.options import SinkOptions
from headrace.pipelines.plugins.columns import Column
from headrace.pipelines.sink.ledger import SinkLedger, create_ledger
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch

_RECORDS_PER_BATCH = 1_000
# Half of what a broker accepts by default (`message.max.bytes`). A larger record goes alone.
_BATCH_BYTES = 500_000
_OLD_LEDGER_TOPIC = "__pipelines"


def record_maker(end: End, columns: tuple[Column, ...]) -> Callable[[LiteRow], LiteRow]:
    """The key and the value of a row, by the rules of Spark's topic target."""
    if name := next((name for name in ("encode", "schema", "subjectStrategy") if name in end.settings), None):
        raise not_in_lite(end.place, f'it has "{name}"')
    names = [column.name for column in columns if not column.name.startswith("_")]
    for setting in ("key", "value"):
        if setting in end.settings and end.text(setting) not in names:
            raise OptionError(
                f"{end.place}: {setting} {end.text(setting)!r} is not a column; there are {', '.join(names)}"
            )
    key = end.text("key") if "key" in end.settings else "key" if "key" in names else None
    single = end.text("value") if "value" in end.settings else "value" if {"key", "value"} >= set(names) else None

    def make(row: LiteRow) -> LiteRow:
        named = cast_text(row.get(key)) if key is not None else None
        if named is None and (DELETED in row):
            named = row.get(KEY)
        value = None if row.get(DELETED) else cast_text(row[single]) if single else json_text(row, names)
        return {"key": _bytes(named), "value": _bytes(value)}

    return make


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class TopicTarget:
    """Rows have key, value, and topic and headers if they go to several topics."""

    def __init__(self, options: SinkOptions, make: Callable[[LiteRow], LiteRow]) -> None:
        self.options, self._make = options, make
        cluster = options.cluster
        self._client = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security)
        self._partitions: dict[str, int] = {}
        try:
            self._client.any_connection()
            create_ledger(self._client)
        except Fault as fault:
            raise PipelineError(fault.message or fault.code.name) from fault

    def write(self, batch: LiteBatch) -> int:
        prefix = f"{self.options.transactional_id_prefix or 'spark'}-{batch.query_id}"
        try:
            return sum(self._write_slot(prefix, slot, batch.number, read) for slot, read in enumerate(batch.slots))
        except Fault as fault:
            # Answers may still arrive on the connections: the next batch must not read them as its own.
            self._client.close()
            raise PipelineError(fault.message or fault.code.name) from fault

    def _write_slot(self, prefix: str, slot: int, number: int, read: SlotReader) -> int:
        options = self.options
        old_topic = options.ledger_topic or options.topic or _OLD_LEDGER_TOPIC
        ledger = SinkLedger(self._client, options.cluster, prefix, slot, old_topic)
        transaction = Transaction(self._client, f"{prefix}-{slot}", timeout_ms=options.transaction_timeout_ms)
        transaction.begin()
        done = ledger.last_batch()
        if done is not None and done >= number:
            return 0
        producer = BatchProducer(self._client, transaction=transaction, codec=options.codec)
        try:
            rows = self._send(producer, slot + number, read())
            if rows:
                ledger.write(producer, number, rows)
            producer.flush()
        except BaseException as failure:
            # As the tasks do: readers need not wait for the time-out of the transaction.
            if not isinstance(failure, Fault) or not (isinstance(failure, Fenced) or is_retriable(failure)):
                with suppress(Fault):
                    producer.flush()
                    transaction.abort()
            raise
        if rows:
            transaction.commit()
            ledger.written()
        return rows

    def _send(self, producer: BatchProducer, spread: int, rows: Iterator[LiteRow]) -> int:
        waiting: dict[tuple[str, int], list[Record]] = {}
        sizes: Counter[tuple[str, int]] = Counter()
        now, count = int(time.time() * 1000), 0
        for row in rows:
            made = self._make(row)
            topic = str(self.options.topic or made["topic"])
            key, total = made["key"], self._partition_count(topic)
            partition = partition_for_key(key, total) if key is not None else spread % total
            pair = topic, partition
            records, size = waiting.setdefault(pair, []), len(key or b"") + len(made["value"] or b"")
            if len(records) >= _RECORDS_PER_BATCH or sizes[pair] + size > _BATCH_BYTES:
                self._flush(producer, pair, records)
                sizes[pair] = 0
            records.append(Record(key, made["value"], made.get("headers", ()), timestamp_ms=now))
            sizes[pair] += size
            count += 1
        for pair, records in waiting.items():
            self._flush(producer, pair, records)
        return count

    def _flush(self, producer: BatchProducer, pair: tuple[str, int], records: list[Record]) -> None:
        if records:
            now = records[0].timestamp_ms
            producer.send(pair, Section(build_batch(records)[HEADER_BYTES:], len(records), now, now))
            records.clear()

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partitions:
            found = self._client.topics([topic])
            if topic not in found:
                self._client.provoke_creation(topic)
                found = self._client.topics([topic])
            if topic not in found:
                raise PipelineError(
                    f"topic {topic!r} does not exist and the broker does not create topics by itself: create it"
                )
            self._partitions[topic] = len(found[topic].partitions)
        return self._partitions[topic]

    def close(self) -> None:
        self._client.close()
