"""Hand-written codec of Produce: no copy of the request's records, no object per field of the response.

Versions 3–13. v5 log start offset · v8 record errors · v9 flexible · v10 current leader · v13 topic ids, no names.
The records of a partition are a writable memoryview of the frame, so that the leader sets offsets in place.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.kernel.dataclass import dataclass
from headrace.wire.bounds import checked_count, checked_end
from headrace.wire.codec import MalformedRequest, read_uvarint, skip_tagged_fields
from headrace.wire.node_endpoints import NodeEndpoint, write_node_endpoints
from headrace.wire.schema_writer import write_uvarint
from headrace.wire.strings import compact_string, nullable_string

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_PARTITION_V3: Final = struct.Struct(">ihqq")
_PARTITION_V5: Final = struct.Struct(">ihqqq")
# Null transactional id, acks, timeout, a count of one topic (one byte).
_ONE_TOPIC: Final = struct.Struct(">bhib")
_ONE_PARTITION: Final = struct.Struct(">bi")

LOG_START_FROM: Final = 5
FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13


# Plain tuples for speed: every small request creates two of them.
# (partition, its records)
PartitionRecords = tuple[int, memoryview | None]
# (the name up to v12 or the sixteen bytes of the id from v13, its partitions)
TopicRecords = tuple[str | bytes, list[PartitionRecords]]


@dataclass(slots=True)
class ProduceRequest:
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]
    size_bytes: int
    """Size of the whole frame, which the produce quota counts."""


class PartitionOutcome(NamedTuple):
    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    # (leader, epoch) if this broker is not the leader.
    current_leader: tuple[int, int] | None = None


def read_produce_request(frame: memoryview, at: int, version: int) -> ProduceRequest:
    """Raises MalformedRequest."""
    try:
        if version < FLEXIBLE_FROM:
            request, end = _read_legacy(frame, at)
        else:
            alone = _read_single_partition(frame, at, version)
            if alone is not None:
                return alone
            request, end = _read_flexible(frame, at, version)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"a produce v{version} request that cannot be read ({error})") from error
    if end > len(frame):
        raise MalformedRequest(f"a produce v{version} request that is longer than its frame")
    return request


def _read_legacy(frame: memoryview, at: int) -> tuple[ProduceRequest, int]:
    (length,) = _I16.unpack_from(frame, at)
    at += 2
    transactional_id = None
    if length >= 0:
        end = checked_end(frame, at, length)
        transactional_id = str(frame[at:end], "utf-8")
        at = end
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    (topic_count,) = _I32.unpack_from(frame, at + 6)
    at += 10
    topics: list[TopicRecords] = []
    for _ in range(checked_count(frame, at, topic_count, 6)):
        (length,) = _I16.unpack_from(frame, at)
        end = checked_end(frame, at + 2, length)
        name = str(frame[at + 2 : end], "utf-8")
        (partition_count,) = _I32.unpack_from(frame, end)
        at = end + 4
        partitions: list[PartitionRecords] = []
        for _ in range(checked_count(frame, at, partition_count, 8)):
            (index,) = _I32.unpack_from(frame, at)
            (length,) = _I32.unpack_from(frame, at + 4)
            at += 8
            records = None
            if length >= 0:
                end = checked_end(frame, at, length)
                records = frame[at:end]
                at = end
            partitions.append((index, records))
        topics.append((name, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics, len(frame)), at


def _read_single_partition(frame: memoryview, at: int, version: int) -> ProduceRequest | None:
    """Fast path for a request with one partition and no transactional id. None for any other request."""
    no_id, acks, timeout_ms, topics = _ONE_TOPIC.unpack_from(frame, at)
    if no_id or topics != 2:
        return None
    if version >= TOPIC_IDS_FROM:
        name_at = at + 8
        at += 24
    else:
        length = frame[at + 8]
        if length >= 0x80:
            return None
        name_at = at + 9
        at += 8 + length
    if at + _ONE_PARTITION.size > len(frame):
        return None
    partitions, index = _ONE_PARTITION.unpack_from(frame, at)
    if partitions != 2:
        return None
    length, records_at = read_uvarint(frame, at + 5)
    end = records_at + length - 1
    # The frame must end with three empty lists of tagged fields.
    if not length or end + 3 != len(frame) or frame[end] or frame[end + 1] or frame[end + 2]:
        return None
    name = frame[name_at:at]
    topic = bytes(name) if version >= TOPIC_IDS_FROM else str(name, "utf-8")
    return ProduceRequest(None, acks, timeout_ms, [(topic, [(index, frame[records_at:end])])], len(frame))


def _read_flexible(frame: memoryview, at: int, version: int) -> tuple[ProduceRequest, int]:
    # Varints nearly always have one byte; testing that here saves a call for each.
    size = len(frame)
    length, at = (frame[at], at + 1) if frame[at] < 0x80 else read_uvarint(frame, at)
    transactional_id = None
    if length:
        end = checked_end(frame, at, length - 1)
        transactional_id = str(frame[at:end], "utf-8")
        at = end
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    at += 6
    topic_count, at = (frame[at], at + 1) if frame[at] < 0x80 else read_uvarint(frame, at)
    topics: list[TopicRecords] = []
    for _ in range(checked_count(frame, at, topic_count - 1, 3)):
        topic: str | bytes
        if version >= TOPIC_IDS_FROM:
            end = checked_end(frame, at, 16)
            topic = bytes(frame[at:end])
        else:
            length, at = (frame[at], at + 1) if frame[at] < 0x80 else read_uvarint(frame, at)
            end = checked_end(frame, at, length - 1)
            topic = str(frame[at:end], "utf-8")
        partition_count, at = (frame[end], end + 1) if frame[end] < 0x80 else read_uvarint(frame, end)
        partitions: list[PartitionRecords] = []
        for _ in range(checked_count(frame, at, partition_count - 1, 6)):
            (index,) = _I32.unpack_from(frame, at)
            length, at = read_uvarint(frame, at + 4)
            records = None
            if length:
                end = at + length - 1
                if end > size:
                    checked_end(frame, at, length - 1)
                records = frame[at:end]
                at = end
            at = at + 1 if frame[at] == 0 else skip_tagged_fields(frame, at)
            partitions.append((index, records))
        at = at + 1 if frame[at] == 0 else skip_tagged_fields(frame, at)
        topics.append((topic, partitions))
    at = at + 1 if frame[at] == 0 else skip_tagged_fields(frame, at)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics, len(frame)), at


# Templates of responses by version and topic, which differ in six numbers only; see `encode_taken`.
_templates: dict[tuple[int, str | bytes], tuple[bytearray, int]] = {}
# Clients cannot fill the cache with invented names: a response without an error names an existing topic.
_TEMPLATES_KEPT: Final = 10_000


def encode_taken(
    version: int, correlation_id: int, topic: str | bytes, index: int, offset: int, append_time_ms: int, log_start: int
) -> bytearray:
    """The response to a request whose one batch was appended, by far the most frequent one. Fills in a template."""
    found = _templates.get((version, topic))
    if found is None:
        if len(_templates) >= _TEMPLATES_KEPT:
            _templates.clear()
        found = _templates[version, topic] = _template(version, topic)
    template, at = found
    out = template[:]
    _I32.pack_into(out, 4, correlation_id)
    _PARTITION_V5.pack_into(out, at, index, 0, offset, append_time_ms, log_start)
    return out


def _template(version: int, topic: str | bytes) -> tuple[bytearray, int]:
    """A response for that topic, and the position of its partition's numbers."""
    assert version >= LOG_START_FROM
    marked = encode_produce_response(version, 0, [(topic, [PartitionOutcome(-1, -1, -1, -1, -1)])])
    plain = encode_produce_response(version, 0, [(topic, [PartitionOutcome(0, 0, 0, 0, 0)])])
    assert len(marked) == len(plain)
    return plain, next(at for at, (one, two) in enumerate(zip(marked, plain, strict=True)) if one != two)


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: list[tuple[str | bytes, list[PartitionOutcome]]],
    throttle_time_ms: int = 0,
    node_endpoints: tuple[NodeEndpoint, ...] = (),
) -> bytearray:
    """The whole frame, length prefix included."""
    out = bytearray(8)
    if version >= FLEXIBLE_FROM:
        out.append(0)
        write_uvarint(out, len(topics) + 1)
        for topic, outcomes in topics:
            if isinstance(topic, bytes):
                out += topic
            else:
                compact_string(out, topic)
            write_uvarint(out, len(outcomes) + 1)
            for outcome in outcomes:
                _flexible_partition(out, outcome, version)
            out.append(0)
        out += _I32.pack(throttle_time_ms)
        write_node_endpoints(out, node_endpoints if version >= 10 else ())
    else:
        out += _I32.pack(len(topics))
        for topic, outcomes in topics:
            assert isinstance(topic, str)
            name = topic.encode()
            out += _I16.pack(len(name))
            out += name
            out += _I32.pack(len(outcomes))
            for outcome in outcomes:
                _legacy_partition(out, outcome, version)
        out += _I32.pack(throttle_time_ms)
    struct.pack_into(">ii", out, 0, len(out) - 4, correlation_id)
    return out


def _legacy_partition(out: bytearray, outcome: PartitionOutcome, version: int) -> None:
    index, error_code, base_offset, append_time, log_start, message, record_errors, _ = outcome
    if version < 5:
        out += _PARTITION_V3.pack(index, error_code, base_offset, append_time)
        return
    out += _PARTITION_V5.pack(index, error_code, base_offset, append_time, log_start)
    if version >= 8:
        out += _I32.pack(len(record_errors))
        for batch_index, why in record_errors:
            out += _I32.pack(batch_index)
            nullable_string(out, why)
        nullable_string(out, message)


def _flexible_partition(out: bytearray, outcome: PartitionOutcome, version: int) -> None:
    index, error_code, base_offset, append_time, log_start, message, record_errors, leader = outcome
    out += _PARTITION_V5.pack(index, error_code, base_offset, append_time, log_start)
    write_uvarint(out, len(record_errors) + 1)
    for batch_index, why in record_errors:
        out += _I32.pack(batch_index)
        compact_string(out, why)
        out.append(0)
    compact_string(out, message)
    if leader is None or version < 10:
        out.append(0)
    else:
        # One tagged field: number 0, nine bytes; the last byte is its empty list of nested tagged fields.
        out += b"\x01\x00\x09"
        out += struct.pack(">iib", *leader, 0)
