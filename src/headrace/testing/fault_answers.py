"""Answers of injected faults: the error answer of an API, and an answer with a throttle time.

Most handlers build their own error answer. The others never refuse a whole request: their error answers name the
partitions of the request, and are built here.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Never, Protocol, cast

from headrace.handlers.dispatch.authorization import UNRESTRICTED
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.error_answers import error_answer
from headrace.handlers.dispatch.handler import Fields, Handler
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.errors import ErrorCode
from headrace.net.replies import CLOSE, Answer, Parts
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader, encode_response, known_versions, response_schema, throttle_time_at
from headrace.wire.fetch import FetchedPartition, encode_fetch_response
from headrace.wire.fetch_request import FetchRequest
from headrace.wire.offset_commit import OffsetCommitRequest, encode_offset_commit_response
from headrace.wire.produce import FLEXIBLE_FROM, PartitionOutcome, ProduceRequest, encode_produce_response

_MESSAGE: Final = "a test injected this error"
_GROUPS_FROM: Final = 8  # OffsetFetch asks for several groups


class _Partition(Protocol):
    partition_index: int


class _Topic(Protocol):
    partitions: Sequence[_Partition]


class _ByTopic(Protocol):
    topics: Sequence[_Topic]


class _Group(Protocol):
    group_id: str


class _ByGroup(Protocol):
    groups: Sequence[_Group]


def can_refuse(api: ApiKey, handler: Handler | None) -> bool:
    """Whether an answer of this API has a place for an error."""
    if api in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT) or api in _MIRRORED:
        return True
    if handler is not None and type(handler).refuse is not Handler.refuse:
        return True
    schema = response_schema(api, max(known_versions(api)))
    return any(field.name == "error_code" for field in dataclasses.fields(schema))


def refusal(
    table: HandlerTable,
    header: RequestHeader,
    frame: memoryview,
    body_at: int,
    code: ErrorCode,
    fetched: Iterable[tuple[str | bytes, int]],
) -> Answer:
    """The error answer of a request. `fetched`: the partitions of the fetch session."""
    handler = table.get(header.api_key)
    if handler is None or header.api_version not in handler.versions:
        return CLOSE
    request: Any = handler.read(header, frame, body_at)
    version = header.api_version
    if isinstance(request, ProduceRequest):
        if request.acks == 0:
            return CLOSE
        outcomes = [
            (topic, [PartitionOutcome(index, int(code)) for index, _ in parts]) for topic, parts in request.topics
        ]
        return encode_produce_response(version, header.correlation_id, outcomes)
    if isinstance(request, FetchRequest):
        return _refused_fetch(request, header, code, fetched)
    if isinstance(request, OffsetCommitRequest):
        refused = [(topic, [(one.partition, int(code)) for one in parts]) for topic, parts in request.topics]
        return encode_offset_commit_response(version, header.correlation_id, refused)
    fields: Fields | None
    mirror = _MIRRORED.get(ApiKey(header.api_key))
    if mirror is not None:
        fields = mirror(request, int(code), version)
    else:
        context = RequestContext(header, "", "", "", UNRESTRICTED, 0)
        fields = handler.refuse(cast("Never", request), context, int(code), _MESSAGE)
    return CLOSE if fields is None else encode_response(header.api_key, version, header.correlation_id, fields)


def _refused_fetch(
    request: FetchRequest, header: RequestHeader, code: ErrorCode, fetched: Iterable[tuple[str | bytes, int]]
) -> Answer:
    topics: dict[str | bytes, list[FetchedPartition]] = {}
    for topic, index in fetched:
        topics.setdefault(topic, []).append(FetchedPartition(index, int(code)))
    parts: Parts = encode_fetch_response(
        header.api_version, header.correlation_id, list(topics.items()), session_id=request.session_id
    )
    return parts


def _list_offsets(request: _ByTopic, code: int, version: int) -> Fields:
    nothing = {"old_style_offsets": (), "timestamp": -1, "offset": -1, "leader_epoch": -1}
    return _by_partition(request.topics, {"error_code": code, **nothing})


def _delete_records(request: _ByTopic, code: int, version: int) -> Fields:
    return _by_partition(request.topics, {"error_code": code, "low_watermark": -1})


def _by_partition(topics: Iterable[_Topic], answer: Mapping[str, object]) -> Fields:
    return {
        "throttle_time": 0,
        "topics": [
            {
                "name": getattr(topic, "name", ""),
                "topic_id": getattr(topic, "topic_id", None),
                "partitions": [{"partition_index": one.partition_index, **answer} for one in topic.partitions],
            }
            for topic in topics
        ],
    }


def _offset_fetch(request: _ByGroup, code: int, version: int) -> Fields | None:
    if version < _GROUPS_FROM:
        return error_answer(ApiKey.OFFSET_FETCH, version, code, _MESSAGE)
    groups = [{"group_id": group.group_id, "topics": (), "error_code": code} for group in request.groups]
    return {"throttle_time": 0, "groups": groups}


_MIRRORED: Final[Mapping[ApiKey, Callable[[Any, int, int], Fields | None]]] = {
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.OFFSET_FETCH: _offset_fetch,
}


def throttled(answer: Answer, header: RequestHeader, wait_ms: int) -> Answer:
    """The answer with a throttle time, if its version has one."""
    first = answer[0] if isinstance(answer, list) and answer else answer
    if not isinstance(first, bytearray):
        return answer
    at = throttle_time_at(header.api_key, header.api_version)
    if header.api_key == ApiKey.PRODUCE:  # it comes last, before the empty list of tagged fields
        at = len(first) - (5 if header.api_version >= FLEXIBLE_FROM else 4)
    if at is not None and len(first) >= at + 4:
        struct.pack_into(">i", first, at, wait_ms)
    return answer
