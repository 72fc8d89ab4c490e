"""The partitions that a request names, for faults that concern one topic or partition only."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping
from typing import Final

from headrace.wire.fetch_request import FetchRequest
from headrace.wire.offset_commit import OffsetCommitRequest
from headrace.wire.produce import ProduceRequest

# A request that names a topic without a partition, for example Metadata.
WHOLE_TOPIC: Final = -1
_TOPIC_FIELDS: Final = ("topic", "name", "topic_name", "topic_id")
_PARTITION_FIELDS: Final = ("partition", "partition_index", "index")


def named_partitions(request: object, names: Mapping[uuid.UUID, str]) -> set[tuple[str, int]]:
    """`names`: topics by id. A request without topics gives an empty set."""
    if isinstance(request, ProduceRequest):
        return {(_name(topic, names), index) for topic, parts in request.topics for index, _ in parts}
    if isinstance(request, FetchRequest | OffsetCommitRequest):
        return {(_name(topic, names), one.partition) for topic, wanted in request.topics for one in wanted}
    return set(_walk(request, names, None))


def _name(topic: str | bytes | uuid.UUID, names: Mapping[uuid.UUID, str]) -> str:
    if isinstance(topic, str):
        return topic
    return names.get(topic if isinstance(topic, uuid.UUID) else uuid.UUID(bytes=topic), "")


def _walk(value: object, names: Mapping[uuid.UUID, str], within: str | None) -> Iterator[tuple[str, int]]:
    if isinstance(value, tuple | list):
        for one in value:
            if isinstance(one, str) and within is None:
                yield one, WHOLE_TOPIC
            elif isinstance(one, int) and within is not None:
                yield within, one
            else:
                yield from _walk(one, names, within)
        return
    if not dataclasses.is_dataclass(value):
        return
    topic = within
    for field in _TOPIC_FIELDS:
        found = getattr(value, field, None)
        if isinstance(found, str | uuid.UUID) and found:
            topic = _name(found, names) or topic
    index = next((getattr(value, field) for field in _PARTITION_FIELDS if hasattr(value, field)), None)
    if topic is not None:
        yield topic, index if isinstance(index, int) else WHOLE_TOPIC
    for one in dataclasses.fields(value):
        inner = getattr(value, one.name)
        if isinstance(inner, tuple | list):
            yield from _walk(inner, names, topic)
