"""Transactional ids: TransactionLogKey (version 0), TransactionLogValue (versions 0 and 1).

Version 1 is flexible and carries these tags: 0 the previous producer id, 1 the next producer id, 2 the transaction
version of the client, 3 the next producer epoch. Kafka writes it from transaction.version 2 on (`flexible=True` here).

Kafka does not write the last producer epoch. A new Kafka coordinator therefore takes a repeated InitProducerId for the
request of a fenced producer. Headrace writes that epoch as a tag with a number far from Kafka's own; Kafka's readers
skip unknown tags.
"""

from __future__ import annotations

from typing import Final

from headrace.coordinators.codec.primitives import (
    compact_int32s,
    compact_string,
    int16,
    int32,
    int64,
    key_of,
    key_words,
    read_version,
    string,
    tagged,
    uvarint,
)
from headrace.kernel.dataclass import dataclass

TRANSACTION_LOG: Final = 0
_LAST_PRODUCER_EPOCH_TAG: Final = 10_000


@dataclass(frozen=True, slots=True)
class TransactionLogValue:
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None
    last_update_timestamp_ms: int
    start_timestamp_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = -1
    last_producer_epoch: int = -1


def transaction_log_key(transactional_id: str) -> bytes:
    return key_of(TRANSACTION_LOG, transactional_id)


def read_transaction_log_key(key: bytes) -> str:
    return key_words(key, 1)[0]


def transaction_log_value(value: TransactionLogValue, *, flexible: bool) -> bytes:
    parts = [
        int16(1 if flexible else 0),
        int64(value.producer_id),
        int16(value.producer_epoch),
        int32(value.timeout_ms),
        bytes((value.status,)),
    ]
    partitions = value.partitions
    if flexible:
        parts.append(b"\0" if partitions is None else uvarint(len(partitions) + 1))
        for topic, indexes in partitions or ():
            parts += (compact_string(topic), compact_int32s(indexes), tagged())
    else:
        parts.append(int32(-1 if partitions is None else len(partitions)))
        for topic, indexes in partitions or ():
            parts += (string(topic), int32(len(indexes)), *map(int32, indexes))
    parts += (int64(value.last_update_timestamp_ms), int64(value.start_timestamp_ms))
    if flexible:
        parts.append(tagged(_tags(value)))
    return b"".join(parts)


def _tags(value: TransactionLogValue) -> dict[int, bytes]:
    tags = {}
    if value.previous_producer_id != -1:
        tags[0] = int64(value.previous_producer_id)
    if value.next_producer_id != -1:
        tags[1] = int64(value.next_producer_id)
    if value.client_transaction_version != 0:
        tags[2] = int16(value.client_transaction_version)
    if value.next_producer_epoch != -1:
        tags[3] = int16(value.next_producer_epoch)
    if value.last_producer_epoch != -1:
        tags[_LAST_PRODUCER_EPOCH_TAG] = int16(value.last_producer_epoch)
    return tags


def read_transaction_log_value(data: bytes) -> TransactionLogValue:
    version, reader = read_version(data, range(2), "TransactionLogValue")
    producer_id, epoch, timeout_ms, status = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    count = reader.compact_count() if version else reader.array_count()
    partitions: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(count):
        if version:
            partitions.append((reader.compact_string(), tuple(reader.compact_int32s())))
            reader.tagged()
        else:
            topic = reader.string()
            partitions.append((topic, tuple(reader.int32() for _ in range(reader.array_count()))))
    last_update, start = reader.int64(), reader.int64()
    tags = {tag: int.from_bytes(data, "big", signed=True) for tag, data in reader.tagged().items()} if version else {}
    return TransactionLogValue(
        producer_id,
        epoch,
        timeout_ms,
        status,
        None if count < 0 else tuple(partitions),
        last_update,
        start,
        tags.get(0, -1),
        tags.get(1, -1),
        tags.get(2, 0),
        tags.get(3, -1),
        tags.get(_LAST_PRODUCER_EPOCH_TAG, -1),
    )
