"""Hand-written encoder of Fetch responses: bytes for everything but the records, which stay slices of segment files.

Versions 4–18. v5 log start offset · v7 sessions (top-level error and session id) · v11 preferred read replica
v12 flexible, diverging epoch and current leader as tagged fields · v13 topic ids · v16 node endpoints.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from headrace.wire.node_endpoints import NodeEndpoint, write_node_endpoints
from headrace.wire.schema_writer import write_uvarint
from headrace.wire.strings import compact_string, nullable_string

_I32: Final = struct.Struct(">i")
_TOP: Final = struct.Struct(">ihi")
_PARTITION_V4: Final = struct.Struct(">ihqq")
_PARTITION_V5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_ABORTED_FLEXIBLE: Final = struct.Struct(">qqb")
_LEADER: Final = struct.Struct(">iib")
_DIVERGING: Final = struct.Struct(">iqb")

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13


class Slice(Protocol):
    @property
    def length(self) -> int: ...


class FetchedPartition(NamedTuple):
    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # (producer id, first offset) of each aborted transaction; None for a null list (read_uncommitted).
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: Slice | None = None
    # (epoch, end offset) at which the follower's log diverges from the leader's.
    diverging: tuple[int, int] | None = None
    # (leader, epoch) if this broker is not the leader.
    current_leader: tuple[int, int] | None = None


# Topic: the name up to v12, the sixteen bytes of the id from v13.
FetchedTopic = tuple[str | bytes, Sequence[FetchedPartition]]


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[FetchedTopic],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Any]:
    """The parts of a whole frame: bytes, and the slices unchanged."""
    writer = _FlexibleWriter(version) if version >= FLEXIBLE_FROM else _LegacyWriter(version)
    out = writer.out
    if version >= FLEXIBLE_FROM:
        out.append(0)
    if version >= 7:
        out += _TOP.pack(throttle_time_ms, error_code, session_id)
    else:
        out += _I32.pack(throttle_time_ms)
    writer.count(len(topics))
    for topic, partitions in topics:
        writer.topic(topic)
        writer.count(len(partitions))
        for partition in partitions:
            writer.partition(partition)
        writer.end_of_topic()
    if version >= FLEXIBLE_FROM:
        write_node_endpoints(writer.out, node_endpoints if version >= 16 else ())
    return writer.finish(correlation_id)


class _LegacyWriter:
    """`out` has the bytes since the last slice; `parts` has everything before."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.out = bytearray(8)
        self.parts: list[Any] = []
        self._length = 0

    def finish(self, correlation_id: int) -> list[Any]:
        if self.out:
            self._length += len(self.out)
            self.parts.append(self.out)
        struct.pack_into(">ii", self.parts[0], 0, self._length - 4, correlation_id)
        return self.parts

    def slice(self, records: Slice) -> None:
        self._length += len(self.out) + records.length
        self.parts.append(self.out)
        self.parts.append(records)
        self.out = bytearray()

    def count(self, count: int) -> None:
        self.out += _I32.pack(count)

    def topic(self, topic: str | bytes) -> None:
        assert isinstance(topic, str)
        nullable_string(self.out, topic)

    def end_of_topic(self) -> None:
        pass

    def partition(self, fetched: FetchedPartition) -> None:
        out, version = self.out, self.version
        if version >= 5:
            out += _PARTITION_V5.pack(*fetched[:5])
        else:
            out += _PARTITION_V4.pack(*fetched[:4])
        aborted = fetched.aborted
        if aborted is None:
            out += b"\xff\xff\xff\xff"
        else:
            out += _I32.pack(len(aborted))
            for one in aborted:
                out += _ABORTED.pack(*one)
        if version >= 11:
            out += _I32.pack(fetched.preferred_read_replica)
        records = fetched.records
        if records is None:
            out += b"\x00\x00\x00\x00"
        else:
            out += _I32.pack(records.length)
            self.slice(records)


class _FlexibleWriter(_LegacyWriter):
    def count(self, count: int) -> None:
        write_uvarint(self.out, count + 1)

    def topic(self, topic: str | bytes) -> None:
        if isinstance(topic, bytes):
            self.out += topic
        else:
            compact_string(self.out, topic)

    def end_of_topic(self) -> None:
        self.out.append(0)

    def partition(self, fetched: FetchedPartition) -> None:
        out = self.out
        out += _PARTITION_V5.pack(*fetched[:5])
        aborted = fetched.aborted
        if aborted is None:
            out.append(0)
        else:
            write_uvarint(out, len(aborted) + 1)
            for one in aborted:
                out += _ABORTED_FLEXIBLE.pack(*one, 0)
        out += _I32.pack(fetched.preferred_read_replica)
        records = fetched.records
        if records is None:
            out.append(1)
        else:
            write_uvarint(out, records.length + 1)
            self.slice(records)
        self._tagged(fetched)

    def _tagged(self, fetched: FetchedPartition) -> None:
        out, diverging, leader = self.out, fetched.diverging, fetched.current_leader
        if diverging is None and leader is None:
            out.append(0)
            return
        out.append((diverging is not None) + (leader is not None))
        # Each tagged field: its number, its length, its values, and a zero for no nested tagged fields.
        if diverging is not None:
            out += b"\x00\x0d"
            out += _DIVERGING.pack(*diverging, 0)
        if leader is not None:
            out += b"\x01\x09"
            out += _LEADER.pack(*leader, 0)
