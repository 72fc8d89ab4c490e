"""Hand-written decoder of Fetch requests, the most frequent request of consumers and followers.

Versions 4–18. v5 log start offset · v7 sessions · v9 leader epoch · v11 rack · v12 flexible, last fetched epoch
v13 topic ids · v15 the replica as a tagged field · v17 replica directory, v18 high watermark (both skipped).
`tests/unit/wire` compares it with the general codec.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.wire.bounds import checked_count, checked_end, compact_text, legacy_text
from headrace.wire.codec import MalformedRequest, read_uvarint, skip_tagged_fields

_I32: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")
_REPLICA_STATE_TAG: Final = 1

SESSIONS_FROM: Final = 7
RACK_FROM: Final = 11
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
_REPLICA_ID_UP_TO: Final = 14

# The name up to v12, the sixteen bytes of the id from v13.
Topic = str | bytes


class WantedPartition(NamedTuple):
    """One requested partition; the fields are in the order of the newest version."""

    partition: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


_NEWEST: Final = struct.Struct(">iiqiqi")
# Older versions lack some fields: (struct, indexes of its fields in `WantedPartition`).
_OLDER: Final = (
    (9, struct.Struct(">iiqqi"), (0, 1, 2, 4, 5)),
    (5, struct.Struct(">iqqi"), (0, 2, 4, 5)),
    (4, struct.Struct(">iqi"), (0, 2, 5)),
)


class FetchRequest(NamedTuple):
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[Topic, list[WantedPartition]]]
    forgotten: list[tuple[Topic, list[int]]]
    rack_id: str


def read_fetch_request(frame: memoryview, at: int, version: int) -> FetchRequest:
    """Raises MalformedRequest."""
    try:
        if version >= FLEXIBLE_FROM:
            request, end = _read_flexible(frame, at, version)
        else:
            request, end = _read_legacy(frame, at, version)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"a fetch v{version} request that cannot be read ({error})") from error
    if end > len(frame):
        raise MalformedRequest(f"a fetch v{version} request that is longer than its frame")
    return request


def _read_flexible(frame: memoryview, at: int, version: int) -> tuple[FetchRequest, int]:
    replica_id = replica_epoch = -1
    if version <= _REPLICA_ID_UP_TO:
        (replica_id,) = _I32.unpack_from(frame, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(frame, at)
    session_id, session_epoch = _SESSION.unpack_from(frame, at + 13)
    count, at = read_uvarint(frame, at + 21)
    topics: list[tuple[Topic, list[WantedPartition]]] = []
    for _ in range(checked_count(frame, at, count - 1, 3)):
        topic, at = _topic(frame, at, version)
        count, at = read_uvarint(frame, at)
        wanted: list[WantedPartition] = []
        for _ in range(checked_count(frame, at, count - 1, _NEWEST.size + 1)):
            wanted.append(WantedPartition(*_NEWEST.unpack_from(frame, at)))
            at += _NEWEST.size
            at = at + 1 if frame[at] == 0 else skip_tagged_fields(frame, at)
        at = skip_tagged_fields(frame, at)
        topics.append((topic, wanted))
    count, at = read_uvarint(frame, at)
    forgotten: list[tuple[Topic, list[int]]] = []
    for _ in range(checked_count(frame, at, count - 1, 3)):
        topic, at = _topic(frame, at, version)
        count, at = read_uvarint(frame, at)
        end = at + 4 * checked_count(frame, at, count - 1, 4)
        forgotten.append((topic, list(struct.unpack(f">{count - 1}i", frame[at:end]))))
        at = skip_tagged_fields(frame, end)
    rack_id, at = compact_text(frame, at)
    fields, at = read_uvarint(frame, at)
    for _ in range(fields):
        tag, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        end = checked_end(frame, at, size)
        if tag == _REPLICA_STATE_TAG and version > _REPLICA_ID_UP_TO:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(frame, at)
        at = end
    limits = (max_wait_ms, min_bytes, max_bytes, isolation_level)
    return FetchRequest(replica_id, replica_epoch, *limits, session_id, session_epoch, topics, forgotten, rack_id), at


def _topic(frame: memoryview, at: int, version: int) -> tuple[Topic, int]:
    if version >= TOPIC_IDS_FROM:
        end = checked_end(frame, at, 16)
        return bytes(frame[at:end]), end
    return compact_text(frame, at)


def _read_legacy(frame: memoryview, at: int, version: int) -> tuple[FetchRequest, int]:
    (replica_id,) = _I32.unpack_from(frame, at)
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(frame, at + 4)
    at += 17
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(frame, at)
        at += 8
    layout, fields = next((layout, fields) for first, layout, fields in _OLDER if version >= first)
    topics: list[tuple[Topic, list[WantedPartition]]] = []
    count, at = _legacy_count(frame, at, 6)
    for _ in range(count):
        topic, at = legacy_text(frame, at)
        count, at = _legacy_count(frame, at, layout.size)
        wanted: list[WantedPartition] = []
        for _ in range(count):
            values = [0, -1, 0, -1, -1, 0]
            for place, value in zip(fields, layout.unpack_from(frame, at), strict=True):
                values[place] = value
            wanted.append(WantedPartition(*values))
            at += layout.size
        topics.append((topic, wanted))
    forgotten: list[tuple[Topic, list[int]]] = []
    if version >= SESSIONS_FROM:
        count, at = _legacy_count(frame, at, 6)
        for _ in range(count):
            topic, at = legacy_text(frame, at)
            count, at = _legacy_count(frame, at, 4)
            forgotten.append((topic, list(struct.unpack(f">{count}i", frame[at : at + 4 * count]))))
            at += 4 * count
    rack_id = ""
    if version >= RACK_FROM:
        rack_id, at = legacy_text(frame, at)
    limits = (max_wait_ms, min_bytes, max_bytes, isolation_level)
    return FetchRequest(replica_id, -1, *limits, session_id, session_epoch, topics, forgotten, rack_id), at


def _legacy_count(frame: memoryview, at: int, smallest: int) -> tuple[int, int]:
    (count,) = _I32.unpack_from(frame, at)
    return checked_count(frame, at + 4, count, smallest), at + 4
