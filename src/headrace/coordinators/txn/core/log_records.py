"""Transactions as records of `__transaction_state`, in Kafka's TransactionLogKey and TransactionLogValue.

Key version 0: the transactional id. Value version 1 (flexible; version 0 is read too); a tombstone forgets the id.

Kafka does not write the last producer epoch, so after a coordinator moved it takes a repeated InitProducerId for that
of a fenced producer. Here it is a tagged field with a number far from Kafka's own: Kafka's readers skip tags they do
not know.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.coordinators.txn.core.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record
from headrace.wire.codec import read_uvarint
from headrace.wire.schema_writer import write_uvarint

_HEAD: Final = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, state
_TIMES: Final = struct.Struct(">qq")
_TAG_PREVIOUS_PRODUCER_ID: Final = 0
_TAG_NEXT_PRODUCER_ID: Final = 1
_TAG_CLIENT_VERSION: Final = 2
_TAG_LAST_PRODUCER_EPOCH: Final = 10_000


def key_of(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return struct.pack(">hh", 0, len(name)) + name


def transactional_id_of(key: bytes) -> str | None:
    """None for a key version from the future, which is skipped as Kafka skips it."""
    version, length = struct.unpack_from(">hh", key)
    return key[4 : 4 + length].decode() if version == 0 else None


def record_of(transaction: Transaction) -> Record:
    return Record(key_of(transaction.transactional_id), value_of(transaction), timestamp_ms=transaction.updated_at_ms)


def tombstone_of(transactional_id: str) -> Record:
    return Record(key_of(transactional_id), None)


def value_of(transaction: Transaction) -> bytes:
    out = bytearray(
        _HEAD.pack(1, transaction.producer_id, transaction.producer_epoch, transaction.timeout_ms, transaction.state)
    )
    if transaction.state is TransactionState.EMPTY:
        out.append(0)  # Kafka writes null, not an empty list
    else:
        _write_partitions(out, transaction.partitions)
    out += _TIMES.pack(transaction.updated_at_ms, transaction.started_at_ms)
    tags = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_TAG_PREVIOUS_PRODUCER_ID, struct.pack(">q", transaction.previous_producer_id)))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        tags.append((_TAG_NEXT_PRODUCER_ID, struct.pack(">q", transaction.next_producer_id)))
    if transaction.client_version:
        tags.append((_TAG_CLIENT_VERSION, struct.pack(">h", transaction.client_version)))
    if transaction.last_producer_epoch != NO_PRODUCER_EPOCH:
        tags.append((_TAG_LAST_PRODUCER_EPOCH, struct.pack(">h", transaction.last_producer_epoch)))
    out.append(len(tags))
    for tag, data in tags:
        write_uvarint(out, tag)
        out.append(len(data))
        out += data
    return bytes(out)


def _write_partitions(out: bytearray, partitions: frozenset[TopicPartition]) -> None:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    write_uvarint(out, len(by_topic) + 1)
    for topic, indexes in by_topic.items():
        name = topic.encode()
        write_uvarint(out, len(name) + 1)
        out += name
        write_uvarint(out, len(indexes) + 1)
        out += struct.pack(f">{len(indexes)}i", *indexes)
        out.append(0)


def transaction_of(transactional_id: str, value: bytes) -> Transaction:
    """Raises ValueError for a version this program does not know: its meaning must not be guessed."""
    version, producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(value)
    if version not in (0, 1):
        raise ValueError(f"transaction {transactional_id!r}: record version {version} is not known here")
    flexible = version == 1
    partitions, at = _read_partitions(value, _HEAD.size, flexible)
    updated_at_ms, started_at_ms = _TIMES.unpack_from(value, at)
    tags = _read_tags(value, at + _TIMES.size)[0] if flexible else {}

    def tagged(tag: int, form: str, default: int) -> int:
        return int(struct.unpack(form, tags[tag])[0]) if tag in tags else default

    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        TransactionState(state),
        updated_at_ms,
        started_at_ms,
        partitions,
        last_producer_epoch=tagged(_TAG_LAST_PRODUCER_EPOCH, ">h", NO_PRODUCER_EPOCH),
        previous_producer_id=tagged(_TAG_PREVIOUS_PRODUCER_ID, ">q", NO_PRODUCER_ID),
        next_producer_id=tagged(_TAG_NEXT_PRODUCER_ID, ">q", NO_PRODUCER_ID),
        client_version=tagged(_TAG_CLIENT_VERSION, ">h", 0),
    )


def _read_partitions(value: bytes, at: int, flexible: bool) -> tuple[frozenset[TopicPartition], int]:
    read_count = _compact_length if flexible else _legacy_count
    found: set[TopicPartition] = set()
    topics, at = read_count(value, at)
    for _ in range(max(topics, 0)):
        length, at = _compact_length(value, at) if flexible else _legacy_length(value, at)
        topic = value[at : at + length].decode()
        at += length
        count, at = read_count(value, at)
        found.update(TopicPartition(topic, index) for index in struct.unpack_from(f">{count}i", value, at))
        at += 4 * count
        if flexible:
            _, at = _read_tags(value, at)
    return frozenset(found), at


def _compact_length(value: bytes, at: int) -> tuple[int, int]:
    length, at = read_uvarint(value, at)
    return length - 1, at


def _legacy_length(value: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(value[at : at + 2], "big", signed=True), at + 2


def _legacy_count(value: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(value[at : at + 4], "big", signed=True), at + 4


def _read_tags(value: bytes, at: int) -> tuple[dict[int, bytes], int]:
    tags = {}
    count, at = read_uvarint(value, at)
    for _ in range(count):
        tag, at = read_uvarint(value, at)
        size, at = read_uvarint(value, at)
        tags[tag] = value[at : at + size]
        at += size
    return tags, at
