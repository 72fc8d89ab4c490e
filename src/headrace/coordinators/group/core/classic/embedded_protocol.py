"""Encoding of the subscriptions and assignments of classic consumers (ConsumerProtocolSubscription, …Assignment).

The coordinator treats them as opaque except in three cases: offsets of a subscribed topic cannot be deleted, they do
not expire, and a migration between the classic and the consumer protocol translates them. Every version begins with the
fields of version 0, so the decoder reads the known fields of a newer version.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.coordinators.codec.primitives import Reader, UnreadableRecord, int16, int32, string
from headrace.kernel.dataclass import dataclass

PROTOCOL_TYPE: Final = "consumer"
_HIGHEST_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[tuple[str, tuple[int, ...]], ...] = ()
    generation: int = -1
    rack: str | None = None


def read_subscription(data: bytes) -> Subscription:
    """Raises UnreadableRecord."""
    reader = Reader(data)
    version = reader.int16()
    if version < 0:
        raise UnreadableRecord(f"consumer protocol version {version}")
    topics = tuple(reader.string() for _ in range(max(reader.array_count(), 0)))
    user_data = _read_nullable_bytes(reader)
    owned = tuple(_read_topic(reader) for _ in range(max(reader.array_count(), 0))) if version >= 1 else ()
    generation = reader.int32() if version >= 2 else -1
    rack = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, user_data, owned, generation, rack)


def _read_nullable_bytes(reader: Reader) -> bytes | None:
    size = reader.int32()
    return reader._take(size) if size >= 0 else None


def _read_topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    topic = reader.string()
    return topic, tuple(reader.int32() for _ in range(max(reader.array_count(), 0)))


def subscribed_topics(data: bytes) -> frozenset[str]:
    """Only the topics; works even if the rest is unreadable."""
    reader = Reader(data)
    reader.int16()
    return frozenset(reader.string() for _ in range(max(reader.array_count(), 0)))


def write_subscription(subscription: Subscription) -> bytes:
    version = min(subscription.version, _HIGHEST_VERSION)
    parts = [int16(version), int32(len(subscription.topics)), *map(string, subscription.topics)]
    parts.append(_nullable_bytes(subscription.user_data))
    if version >= 1:
        parts.append(_topic_partitions(subscription.owned))
    if version >= 2:
        parts.append(int32(subscription.generation))
    if version >= 3:
        parts.append(b"\xff\xff" if subscription.rack is None else string(subscription.rack))
    return b"".join(parts)


def write_assignment(topics: tuple[tuple[str, tuple[int, ...]], ...], version: int) -> bytes:
    return int16(max(0, min(version, _HIGHEST_VERSION))) + _topic_partitions(topics) + _nullable_bytes(None)


def read_assignment(data: bytes) -> tuple[dict[str, tuple[int, ...]], bytes]:
    """The partitions by topic, and the user data of a custom assignor."""
    reader = Reader(data)
    reader.int16()
    topics = dict(_read_topic(reader) for _ in range(max(reader.array_count(), 0)))
    return topics, _read_nullable_bytes(reader) or b""


def _topic_partitions(topics: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    parts = [int32(len(topics))]
    for topic, partitions in topics:
        parts += (string(topic), int32(len(partitions)), struct.pack(f">{len(partitions)}i", *partitions))
    return b"".join(parts)


def _nullable_bytes(data: bytes | None) -> bytes:
    return int32(-1) if data is None else int32(len(data)) + data
