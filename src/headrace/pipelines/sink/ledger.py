"""The ledger of the exactly-once sink: which batch each slot has written last, in the compacted topic `__sink_ledger`.

An entry is a record with the key `<prefix>.<slot>`. A task writes it in the transaction of its rows, so rows and entry
become visible together or not at all. Compaction keeps the last entry of every slot for as long as the topic exists.

`SinkLedger.last_batch` reads the partition of a slot up to the high watermark, not to the last stable offset, because
open transactions of other slots would hide entries that are committed. It therefore reads the transaction markers
itself: an entry counts when its producer's commit marker follows. The caller must have initialised the transactional
id of the slot. Then every earlier transaction of the slot has its markers, so an entry of the slot without a marker is
committed too: brokers remove a marker only after the records of its transaction, and compaction removes aborted ones.

A worker keeps one view per partition and reads only what is new. Earlier versions kept the ledger as committed offsets
of one consumer group per slot (`old_group`). `settled_letters` has entries of its own in the topic. See
docs/adr/0019.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient, TopicPartitionPair
from headrace.client.blocking.fetch import FetchSettings, FetchStream
from headrace.client.blocking.produce import BatchProducer, Section
from headrace.kernel.errors import ErrorCode, Fault, OffsetOutOfRange
from headrace.kernel.ids import partition_for_key
from headrace.pipelines.options import Cluster
from headrace.pipelines.spark.worker_clients import remembered
from headrace.records.batch import HEADER_BYTES, BatchView, batches
from headrace.records.builder import Record, build_batch
from headrace.records.control import ControlType, control_type
from headrace.records.reader import iter_records

LEDGER_TOPIC: Final = "__sink_ledger"
_PARTITIONS: Final = 4
_MOST_REPLICAS: Final = 3
# A new worker reads a partition from its start, so segments are small and compacted early.
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}


def create_ledger(client: BlockingClient) -> None:
    """Creates the ledger's topic if it does not exist, with up to three replicas."""
    if LEDGER_TOPIC not in client.topics([LEDGER_TOPIC]):
        replicas = min(_MOST_REPLICAS, client.broker_count())
        client.create_topic(LEDGER_TOPIC, _PARTITIONS, replication_factor=replicas, configs=_CONFIGS)


def old_group(prefix: str, slot: int) -> str:
    """The consumer group that was the slot's ledger in earlier versions."""
    return f"headrace-sink.{prefix}.{slot}"


def partition_of(key: bytes) -> TopicPartitionPair:
    """The partition of an entry."""
    # By the constant and not by the topic: a key must not move when the topic gets more partitions.
    return LEDGER_TOPIC, partition_for_key(key, _PARTITIONS)


def entry(key: bytes, number: int, rows: int) -> Record:
    """The record of an entry. Entries of the sink have the number of a batch."""
    value = json.dumps({"batch": number, "rows": rows}).encode()
    return Record(key, value, timestamp_ms=int(time.time() * 1000))


@dataclass
class LedgerView:
    """What one partition of the ledger says, read up to `position`."""

    partition: TopicPartitionPair
    position: int = -1
    committed: dict[bytes, int] = field(default_factory=dict)
    # By producer id: entries without a marker yet.
    undecided: dict[int, dict[bytes, int]] = field(default_factory=dict)

    def last_number(self, key: bytes) -> int | None:
        found = [entries[key] for entries in (self.committed, *self.undecided.values()) if key in entries]
        return max(found, default=None)

    def update(self, client: BlockingClient) -> None:
        """Reads what is new, up to the high watermark."""
        end = client.list_offsets({self.partition: LATEST})[self.partition]
        if not 0 <= self.position <= end:
            self._start_over(client)
        try:
            self._read_to(client, end)
        except OffsetOutOfRange:
            # The topic was deleted and created again.
            self._start_over(client)
            self._read_to(client, end)

    def _start_over(self, client: BlockingClient) -> None:
        self.committed.clear()
        self.undecided.clear()
        self.position = client.list_offsets({self.partition: EARLIEST})[self.partition]

    def _read_to(self, client: BlockingClient, end: int) -> None:
        for chunk in FetchStream(client, self.partition, self.position, end, FetchSettings(stall_timeout_s=30)):
            for batch in batches(chunk.records):
                if batch.last_offset >= self.position:
                    batch.check_crc()
                    self._take(batch)
            self.position = chunk.next_offset

    def _take(self, batch: BatchView) -> None:
        if batch.is_control:
            entries = self.undecided.pop(batch.producer_id, {})
            if control_type(batch) is ControlType.COMMIT:
                self.committed.update(entries)
            return
        entries = self.undecided.setdefault(batch.producer_id, {})
        for record in iter_records(batch):
            if record.key is not None and record.value is not None:
                entries[record.key] = int(json.loads(record.value)["batch"])


# A forked worker continues with the view of its parent, which it has a copy of.
_views: dict[tuple[Cluster, int], LedgerView] = {}


class SinkLedger:
    """The ledger entry of one slot."""

    def __init__(self, client: BlockingClient, cluster: Cluster, prefix: str, slot: int, old_topic: str) -> None:
        self._client, self._cluster = client, cluster
        self._key = f"{prefix}.{slot}".encode()
        self._partition = partition_of(self._key)
        self._old_group, self._old_entry = old_group(prefix, slot), (old_topic, 0)
        self._is_old = False

    def last_batch(self) -> int | None:
        """The last batch that the slot has written; None for a new slot. The caller must have begun a transaction."""
        remembered((self._cluster, LEDGER_TOPIC), lambda: create_ledger(self._client))
        view = _views.setdefault((self._cluster, self._partition[1]), LedgerView(self._partition))
        view.update(self._client)
        found = view.last_number(self._key)
        if found is None:
            found = self._old_batch()
            self._is_old = found is not None
        return found

    def write(self, producer: BatchProducer, batch_id: int, rows: int) -> None:
        """Adds the entry to the producer's transaction."""
        record = entry(self._key, batch_id, rows)
        now = record.timestamp_ms
        producer.send(self._partition, Section(build_batch([record])[HEADER_BYTES:], 1, now, now))

    def written(self) -> None:
        """After the commit: removes the group of earlier versions, which lag monitors show."""
        if self._is_old:
            with suppress(Fault):
                body = {"groups_names": [self._old_group]}
                self._client.coordinator(self._old_group, 0).call("delete_groups", body)

    def _old_batch(self) -> int | None:
        try:
            found = self._client.committed_offsets(self._old_group, [self._old_entry], require_stable=True)
        except Fault as fault:
            if fault.code is ErrorCode.group_authorization_failed:
                # A principal without this right has never written an old ledger.
                return None
            raise
        return found[self._old_entry][0] if self._old_entry in found else None
