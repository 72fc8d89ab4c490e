"""Hand-written codec of Fetch between brokers (v17). The records of a response stay in the receive buffer.

Followers fetch all the time, so this codec is faster than the general one: a request costs a few microseconds, and the
cost of a response does not depend on its size. `tests/unit/wire` compares it with the general codec.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.wire.apis import ApiKey
from headrace.wire.codec import MalformedRequest, read_uvarint, skip_tagged_fields
from headrace.wire.fetch_request import WantedPartition
from headrace.wire.schema_writer import write_uvarint

VERSION: Final = 17
_HEADER: Final = struct.Struct(">hhi")
_LIMITS: Final = struct.Struct(">iiibii")
_WANTED: Final = struct.Struct(">iiqiqib")
_REPLICA_STATE: Final = struct.Struct(">iqb")
_I32: Final = struct.Struct(">i")
_TOP: Final = struct.Struct(">ihi")
_PARTITION: Final = struct.Struct(">ihqqq")
_DIVERGING: Final = struct.Struct(">iq")


class FetchLimits(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class AnsweredPartition(NamedTuple):
    topic_id: uuid.UUID
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None  # (epoch, end offset) at which the logs diverge
    records: memoryview


class FetchAnswer(NamedTuple):
    error_code: int
    session_id: int
    partitions: Sequence[AnsweredPartition]


def encode_replica_fetch(
    correlation_id: int,
    client_id: str,
    replica: tuple[int, int],
    limits: FetchLimits,
    session: tuple[int, int],
    topics: Mapping[uuid.UUID, Sequence[WantedPartition]],
    forgotten: Mapping[uuid.UUID, Sequence[int]],
) -> bytearray:
    """A whole frame, length prefix included. `replica` is (id, broker epoch), `session` is (id, epoch)."""
    out = bytearray(4)
    out += _HEADER.pack(ApiKey.FETCH, VERSION, correlation_id)
    name = client_id.encode()
    out += len(name).to_bytes(2, "big")
    out += name
    out.append(0)
    out += _LIMITS.pack(*limits, 0, *session)
    write_uvarint(out, len(topics) + 1)
    for topic_id, partitions in topics.items():
        out += topic_id.bytes
        write_uvarint(out, len(partitions) + 1)
        for wanted in partitions:
            out += _WANTED.pack(*wanted, 0)
        out.append(0)
    write_uvarint(out, len(forgotten) + 1)
    for topic_id, indexes in forgotten.items():
        out += topic_id.bytes
        write_uvarint(out, len(indexes) + 1)
        for index in indexes:
            out += _I32.pack(index)
        out.append(0)
    # An empty rack, then one tagged field: number 1, the replica state (thirteen bytes).
    out += b"\x01\x01\x01\x0d"
    out += _REPLICA_STATE.pack(*replica, 0)
    _I32.pack_into(out, 0, len(out) - 4)
    return out


def read_fetch_answer(frame: memoryview) -> FetchAnswer:
    """`frame` without its length prefix. Raises MalformedRequest; the records are views into `frame`."""
    try:
        at = skip_tagged_fields(frame, 4)
        _, error_code, session_id = _TOP.unpack_from(frame, at)
        at += _TOP.size
        found: list[AnsweredPartition] = []
        topics, at = read_uvarint(frame, at)
        for _ in range(topics - 1):
            topic_id = uuid.UUID(bytes=bytes(frame[at : at + 16]))
            partitions, at = read_uvarint(frame, at + 16)
            for _ in range(partitions - 1):
                at = _read_partition(frame, at, topic_id, found)
            at = skip_tagged_fields(frame, at)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedRequest(f"a fetch answer that cannot be read ({error})") from error
    return FetchAnswer(error_code, session_id, found)


def _read_partition(frame: memoryview, at: int, topic_id: uuid.UUID, found: list[AnsweredPartition]) -> int:
    index, code, high_watermark, _, log_start = _PARTITION.unpack_from(frame, at)
    aborted, at = read_uvarint(frame, at + _PARTITION.size)
    for _ in range(aborted - 1):
        at = skip_tagged_fields(frame, at + 16)
    at += 4  # the preferred read replica
    length, at = read_uvarint(frame, at)
    end = at + max(0, length - 1)
    if end > len(frame):
        raise MalformedRequest(f"records of {length - 1} bytes in an answer of {len(frame)}")
    records = frame[at:end]
    fields, at = read_uvarint(frame, end)
    diverging = None
    for _ in range(fields):
        tag, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        if tag == 0:
            epoch, offset = _DIVERGING.unpack_from(frame, at)
            diverging = (epoch, offset) if offset >= 0 else None
        at += size
    found.append(AnsweredPartition(topic_id, index, code, high_watermark, log_start, diverging, records))
    return at


def by_topic(keys: Iterable[tuple[uuid.UUID, int]]) -> dict[uuid.UUID, list[int]]:
    topics: dict[uuid.UUID, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return topics
