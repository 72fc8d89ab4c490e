"""Partitions with many transactions, written over the wire: several producers, both transaction versions, every codec.

A seed determines the random steps that write a log. Each producer follows one of Kafka's two protocols (KIP-890): with
version 1 it adds the partition to its transaction, with version 2 the broker does so at the first batch, and every
transaction has its own epoch. The writer also knows the expected result: `committed` has the offsets of the records
that are not in an open or aborted transaction. Compaction makes that set smaller.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from headrace.client.blocking.client import LATEST, READ_COMMITTED, READ_UNCOMMITTED, BlockingClient, TopicPartitionPair
from headrace.client.blocking.connection import BlockingConnection
from headrace.kernel.errors import ErrorCode, Refused
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.wire import codec
from tests.support.clock import wait_for

PRODUCE, INIT, ADD_PARTITIONS, END = 0, 22, 24, 26
# API versions of the two transaction versions: Produce, InitProducerId, EndTxn.
_VERSIONS = {1: (11, 4, 4), 2: (12, 5, 5)}
_TRY_AGAIN = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas,
    ErrorCode.concurrent_transactions,
    ErrorCode.leader_not_available,
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_topic_or_partition,
}
_TIMEOUT_MS = 600_000
_KEYS = 6
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass
class WireProducer:
    """A transactional id and its open transaction."""

    client: BlockingClient
    partition: TopicPartitionPair
    transactional_id: str
    version: int
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0
    written: list[int] = field(default_factory=list)  # offsets of the open transaction
    is_added: bool = False

    @property
    def is_open(self) -> bool:
        return self.is_added or bool(self.written)

    def init(self) -> None:
        """Gets a new epoch. The coordinator aborts an open transaction."""
        body = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": _TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = self._coordinated(INIT, _VERSIONS[self.version][1], body, lambda found: found.error_code)
        self.producer_id, self.epoch, self.sequence = int(answer.producer_id), int(answer.producer_epoch), 0
        self.written, self.is_added = [], False

    def add(self) -> None:
        """Version 1: adds the partition to the transaction, with or without records."""
        assert self.version == 1
        body = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": self.partition[0], "partitions": [self.partition[1]]}],
        }

        def error_of(answer: Any) -> ErrorCode:
            (topic,) = answer.results_by_topic_v3_and_below
            (part,) = topic.results_by_partition
            found: ErrorCode = part.partition_error_code
            return found

        self._coordinated(ADD_PARTITIONS, 3, body, error_of)
        self.is_added = True

    def write(self, records: list[Record], codec_: Codec = Codec.NONE) -> None:
        if self.version == 1 and not self.is_added:
            self.add()
        batch = build_batch(
            records,
            codec=codec_,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        offset = produce(self.client, self.partition, batch, self.transactional_id, _VERSIONS[self.version][0])
        self.sequence += len(records)
        self.written += range(offset, offset + len(records))

    def end(self, *, commit: bool) -> list[int]:
        """The offsets that the transaction wrote."""
        body = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "committed": commit,
        }
        answer = self._coordinated(END, _VERSIONS[self.version][2], body, lambda found: found.error_code)
        if self.version == 2:
            self.producer_id, self.epoch, self.sequence = int(answer.producer_id), int(answer.producer_epoch), 0
        ended, self.written, self.is_added = self.written, [], False
        return ended

    def _coordinated(self, api: int, version: int, body: dict[str, Any], error_of: Any) -> Any:
        return _asked(lambda: self.client.coordinator(self.transactional_id, 1), api, version, body, error_of)


def produce(
    client: BlockingClient, partition: TopicPartitionPair, batch: bytes, transactional_id: str | None, version: int = 11
) -> int:
    """The offset of the batch."""
    body = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": 10_000,
        "topic_data": [{"name": partition[0], "partition_data": [{"index": partition[1], "records": batch}]}],
    }

    def part_of(answer: Any) -> Any:
        return answer.responses[0].partition_responses[0]

    answer = _asked(lambda: client.leader(partition), PRODUCE, version, body, lambda found: part_of(found).error_code)
    return int(part_of(answer).base_offset)


def _asked(connect: Any, api: int, version: int, body: dict[str, Any], error_of: Any) -> Any:
    def attempt() -> Any:
        try:
            connection: BlockingConnection = connect()
        except Refused as refused:
            assert refused.code in _TRY_AGAIN, refused
            return None
        _, answer = codec.read_response(api, version, connection.exchange_raw(api, version, body))
        code = error_of(answer)
        assert code is ErrorCode.none or code in _TRY_AGAIN, f"API {api} v{version}: {code.name}"
        return answer if code is ErrorCode.none else None

    return wait_for(attempt, f"an answer to API {api} v{version}", poll=0.002)


class TransactionLog:
    """One partition under a random workload."""

    def __init__(self, client: BlockingClient, partition: TopicPartitionPair, seed: int, headers: Headers = ()) -> None:
        self.client, self.partition, self.headers = client, partition, headers
        self.choice = random.Random(seed)
        self.committed: set[int] = set()
        self.end = self.stable = 0
        self.producers = [
            WireProducer(client, partition, f"{partition[0]}-{partition[1]}-{number}", version)
            for number, version in enumerate((1, 2, 1, 2))
        ]
        for producer in self.producers:
            producer.init()

    def records(self, count: int) -> list[Record]:
        return [
            Record(
                b"k%d" % self.choice.randrange(_KEYS),
                b"%d" % self.choice.randrange(10**6),
                self.headers,
                timestamp_ms=1,
            )
            for _ in range(count)
        ]

    def work(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        producer = self.choice.choice(self.producers)
        dice = self.choice.random()
        if dice < 0.15:
            self.write_plain(self.choice.randint(1, 3))
        elif dice < 0.5 or not producer.is_open:
            if producer.version == 1 and not producer.is_open and dice > 0.85:
                producer.add()  # if it ends now, the transaction is a marker without records
            else:
                producer.write(self.records(self.choice.randint(1, 3)), self.choice.choice(list(Codec)))
        elif dice < 0.57:
            producer.init()
        else:
            self.end_transaction(producer, commit=self.choice.random() < 0.5)

    def end_all(self) -> None:
        """Ends all transactions, so that the log can be read to its end."""
        for producer in self.producers:
            if producer.is_open:
                self.end_transaction(producer, commit=self.choice.random() < 0.5)

    def write_plain(self, count: int) -> None:
        batch = build_batch(self.records(count), codec=self.choice.choice(list(Codec)))
        offset = produce(self.client, self.partition, batch, None)
        self.committed |= set(range(offset, offset + count))

    def end_transaction(self, producer: WireProducer, *, commit: bool) -> None:
        written = producer.end(commit=commit)
        if commit:
            self.committed |= set(written)

    def settle(self) -> int:
        """The last stable offset, after every marker of an ended transaction is written."""

        def is_settled() -> bool:
            self.end = self._end(READ_UNCOMMITTED)
            self.stable = self._end(READ_COMMITTED)
            return self.stable == min((p.written[0] for p in self.producers if p.written), default=self.end)

        wait_for(is_settled, lambda: f"the last stable offset of {self.partition}, which is {self.stable}", poll=0.002)
        return self.stable

    def _end(self, isolation: int) -> int:
        return self.client.list_offsets({self.partition: LATEST}, isolation=isolation)[self.partition]

    def visible(self, stable: int) -> list[int]:
        """Records that a `read_committed` consumer sees below the last stable offset, before compaction."""
        return sorted(offset for offset in self.committed if offset < stable)
