"""Writes batches to partitions, with or without a transaction.

    transaction = Transaction(client, "orders-sink-3", timeout_ms=60_000)
    transaction.begin()                                    # fences every older attempt of this id
    producer = BatchProducer(client, transaction=transaction)
    producer.send(("orders", 0), section)
    producer.flush()
    transaction.commit(group="orders-sink", offsets={("orders", 3): (17, "")})

Up to five batches are in flight per broker, as with Kafka's own producers: the broker checks sequence numbers, so a
batch that overtakes a failed one is refused and sent again after it. Produce v8 is written by hand, so that records are
sent without copying them.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import crc32c

from headrace.client.blocking.client import (
    BlockingClient,
    TopicPartitionPair,
    is_retriable,
    offset_topics,
)
from headrace.client.blocking.connection import BlockingConnection
from headrace.client.errors import NoAnswer, Unreachable
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.records.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, TRANSACTIONAL_BIT
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec, compress
from headrace.wire import codec as wire
from headrace.wire.entities import Body, Entity

_PRODUCE_KEY: Final = 0
_PRODUCE_VERSION: Final = 8
_IN_FLIGHT: Final = 5
_LANE: Final = "produce"
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_FENCED: Final = frozenset(
    {ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping}
)
# Refused because an earlier batch of the same partition failed: a retry in order succeeds.
_OUT_OF_ORDER: Final = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id})


@dataclass(frozen=True, slots=True)
class Section:
    """The encoded records of one batch, without its header."""

    records: bytes | bytearray | memoryview
    count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


class Fenced(Refused):
    """A newer producer with the same transactional id has taken over: this one must stop."""


@dataclass
class ProducerIdentity:
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[TopicPartitionPair, int] = field(default_factory=dict)

    def take(self, partition: TopicPartitionPair, count: int) -> int:
        if self.producer_id < 0:
            return -1
        first = self.sequences.get(partition, 0)
        self.sequences[partition] = (first + count) & 0x7FFFFFFF
        return first


class Transaction:
    """One transaction at a time of one transactional id, with the protocol of brokers since 2.5."""

    def __init__(self, client: BlockingClient, transactional_id: str, *, timeout_ms: int) -> None:
        self.client, self.transactional_id, self.timeout_ms = client, transactional_id, timeout_ms
        self.identity = ProducerIdentity()
        self._partitions: set[TopicPartitionPair] = set()

    def begin(self) -> None:
        """Takes over the transactional id: the broker aborts an open transaction and fences its producer."""
        body = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": self.timeout_ms,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = self._coordinated("init_producer_id", body, lambda a: a.error_code)
        self.identity = ProducerIdentity(int(answer.producer_id), int(answer.producer_epoch))
        self._partitions = set()

    def add(self, partition: TopicPartitionPair) -> None:
        if partition in self._partitions:
            return
        topics = [{"name": partition[0], "partitions": [partition[1]]}]
        body = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.identity.producer_id,
            "v3_and_below_producer_epoch": self.identity.epoch,
            "v3_and_below_topics": topics,
        }

        def error_of(answer: Entity) -> ErrorCode:
            results = answer.results_by_topic_v3_and_below
            return next(iter(p.partition_error_code for t in results for p in t.results_by_partition), ErrorCode.none)

        self._coordinated("add_partitions_to_txn", body, error_of)
        self._partitions.add(partition)

    def commit(self, group: str = "", offsets: Mapping[TopicPartitionPair, tuple[int, str]] | None = None) -> None:
        """Commits the records, and these offsets of `group` if there are any, atomically."""
        identity = {
            "transactional_id": self.transactional_id,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
        }
        if offsets:
            self._coordinated("add_offsets_to_txn", {**identity, "group_id": group}, lambda a: a.error_code)
            body = {
                **identity,
                "group_id": group,
                "generation_id": -1,
                "member_id": "",
                "group_instance_id": None,
                "topics": offset_topics(offsets),
            }

            def attempt() -> None:
                answer = self.client.coordinator(group, 0).call("txn_offset_commit", body)
                for topic in answer.topics:
                    for part in topic.partitions:
                        self._check(part.error_code, f"ledger entry {topic.name}-{part.partition_index}")

            self.client.retrying(f"writing the ledger of {self.transactional_id!r}", attempt)
        self._end(committed=True)

    def abort(self) -> None:
        if self._partitions:
            self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        body = {
            "transactional_id": self.transactional_id,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
            "committed": committed,
        }
        self._coordinated("end_txn", body, lambda a: a.error_code)
        self._partitions = set()

    def _coordinated(self, api: str, body: Body, error_of: Callable[[Entity], ErrorCode]) -> Entity:
        def attempt() -> Entity:
            answer = self.client.coordinator(self.transactional_id, 1).call(api, body)
            self._check(error_of(answer), api)
            return answer

        return self.client.retrying(f"{api} of {self.transactional_id!r}", attempt)

    def _check(self, code: ErrorCode, what: str) -> None:
        if code in _FENCED:
            raise Fenced(
                code, f"transaction {self.transactional_id!r} was taken over by a newer attempt ({what}: {code.name})"
            )
        if code is not ErrorCode.none:
            raise Refused(code, f"transaction {self.transactional_id!r}: {what}: {code.name}")


@dataclass
class _Sent:
    number: int
    partition: TopicPartitionPair
    batch: bytearray
    connection: BlockingConnection


class BatchProducer:
    """Sends batches; `flush` returns when every one is acknowledged, or raises."""

    def __init__(
        self,
        client: BlockingClient,
        *,
        transaction: Transaction | None = None,
        codec: Codec = Codec.NONE,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> None:
        self.client, self.transaction, self.codec, self.acks = client, transaction, codec, acks
        self.timeout_ms = timeout_ms
        self.identity = transaction.identity if transaction else ProducerIdentity()
        self._under_way: deque[_Sent] = deque()
        self._failed: list[_Sent] = []
        self._count = 0

    def be_idempotent(self) -> None:
        """Without a transaction: gets a producer id, so that the broker drops duplicates of a retry."""
        body = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}

        def attempt() -> Entity:
            answer = self.client.any_connection().call("init_producer_id", body)
            if answer.error_code is not ErrorCode.none:
                raise Refused(answer.error_code, answer.error_code.name)
            return answer

        answer = self.client.retrying("asking for a producer id", attempt)
        self.identity = ProducerIdentity(int(answer.producer_id), int(answer.producer_epoch))

    def send(self, partition: TopicPartitionPair, section: Section) -> None:
        if self._failed:
            self._again()
        if self.transaction is not None:
            self.transaction.add(partition)
        batch = self._seal(partition, section)
        connection = self.client.retrying("finding the leader", lambda: self.client.leader(partition, _LANE))
        while len(self._under_way) >= _IN_FLIGHT:
            self._settle_oldest()
        self._count += 1
        sent = _Sent(self._count, partition, batch, connection)
        try:
            self._write(sent)
        except Unreachable:
            self._failed.append(sent)
            return
        if self.acks != 0:
            self._under_way.append(sent)

    def flush(self) -> None:
        while self._under_way:
            self._settle_oldest()
        if self._failed:
            self._again()

    def _seal(self, partition: TopicPartitionPair, section: Section) -> bytearray:
        records = section.records if self.codec is Codec.NONE else compress(self.codec, section.records)
        attributes = int(self.codec) | (TRANSACTIONAL_BIT if self.transaction is not None else 0)
        out = bytearray(HEADER_BYTES)
        HEADER.pack_into(
            out,
            0,
            0,
            HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records),
            -1,
            2,
            0,
            attributes,
            section.count - 1,
            section.base_timestamp_ms,
            section.max_timestamp_ms,
            self.identity.producer_id,
            self.identity.epoch,
            self.identity.take(partition, section.count),
            section.count,
        )
        out += records
        struct.pack_into(">I", out, _CRC_AT, crc32c.crc32c(memoryview(out)[_CRC_FROM:]))
        return out

    def _write(self, sent: _Sent) -> None:
        topic, index = sent.partition
        name = topic.encode()
        txn = self.transaction.transactional_id.encode() if self.transaction else None
        body = b"\xff\xff" if txn is None else struct.pack(f">h{len(txn)}s", len(txn), txn)
        body += struct.pack(">hi", self.acks, self.timeout_ms)
        body += struct.pack(f">ih{len(name)}siii", 1, len(name), name, 1, index, len(sent.batch))
        head = sent.connection.next_header(_PRODUCE_KEY, _PRODUCE_VERSION) + body
        sent.connection.send((len(head) + len(sent.batch)).to_bytes(4, "big") + head, sent.batch)

    def _settle_oldest(self) -> None:
        sent = self._under_way.popleft()
        try:
            code, message = self._answer(sent)
        except (Unreachable, NoAnswer):
            self._failed.append(sent)
            return
        if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            return
        fault = Refused(code, message)
        if is_retriable(fault) or code in _OUT_OF_ORDER:
            self._failed.append(sent)
            return
        raise self._refusal(code, message)

    def _answer(self, sent: _Sent) -> tuple[ErrorCode, str]:
        frame = sent.connection.receive(timeout_s=self.timeout_ms / 1000 + self.client.timeout_s)
        _, answer = wire.read_response(_PRODUCE_KEY, _PRODUCE_VERSION, frame)
        (result,) = answer.responses[0].partition_responses
        topic, index = sent.partition
        return result.error_code, f"writing {topic}-{index}: {result.error_message or result.error_code.name}"

    def _refusal(self, code: ErrorCode, message: str) -> Fault:
        if code in _FENCED:
            return Fenced(code, f"the transaction was taken over by a newer attempt ({message})")
        return Refused(code, message)

    def _again(self) -> None:
        """Repeats all failed batches, in order and one by one."""
        while self._under_way:
            self._settle_oldest()
        # A batch that could not be sent comes before batches without an answer.
        failed, self._failed = sorted(self._failed, key=lambda sent: sent.number), []
        for sent in failed:

            def attempt(sent: _Sent = sent) -> None:
                sent.connection = self.client.leader(sent.partition, _LANE)
                self._write(sent)
                code, message = self._answer(sent) if self.acks else (ErrorCode.none, "")
                if code not in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                    raise self._refusal(code, message)

            self.client.retrying(f"writing {sent.partition[0]}-{sent.partition[1]}", attempt)


def write_records(client: BlockingClient, partition: TopicPartitionPair, records: list[Record]) -> None:
    """A handful of records, acknowledged by all in-sync replicas."""
    sealed = build_batch(records)
    times = [record.timestamp_ms for record in records]
    producer = BatchProducer(client)
    producer.send(partition, Section(sealed[HEADER_BYTES:], len(records), times[0], max(times)))
    producer.flush()
