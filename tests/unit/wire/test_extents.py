"""The lengths in a request are checked against the frame before the request is decoded."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import classify_field, get_field_tag, is_optional

from headrace.wire import codec
from headrace.wire.codec import MalformedRequest
from headrace.wire.extents import checked

EVERY_REQUEST = sorted((key, max(schema_name_map[name])) for key, name in api_key_map.items())


def sample(schema: type[Any], chance: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        kind, kafka_type = classify_field(field), field.metadata.get("kafka_type")
        if get_field_tag(field) is not None and chance.random() < 0.5:
            continue
        if kind.is_array and kafka_type is None:
            body[field.name] = [sample(kind.type_, chance) for _ in range(chance.randrange(3))]
        elif kind.is_array:
            body[field.name] = [value(kafka_type) for _ in range(chance.randrange(3))]  # type: ignore[arg-type]
        elif kafka_type is None:
            body[field.name] = None if is_optional(field) and chance.random() < 0.5 else sample(kind.type_, chance)
        else:
            body[field.name] = value(kafka_type)
    return body


_VALUES = {"string": "word" * 40, "bytes": b"b" * 5, "records": b"r" * 9, "bool": True, "uuid": None, "float64": 1.0}


def value(kafka_type: str) -> Any:
    return _VALUES.get(kafka_type, 3)


def header_of(frame: bytearray) -> tuple[codec.RequestHeader, memoryview, int]:
    view = memoryview(frame)[4:]
    header, at = codec.read_request_header(view)
    return header, view, at


@pytest.mark.parametrize(("api_key", "newest"), EVERY_REQUEST)
def test_every_valid_request_passes_unchanged(api_key: int, newest: int) -> None:
    chance = random.Random(api_key)
    for version in schema_name_map[api_key_map[api_key]]:
        schema = codec._request_schema(api_key, version)
        for _ in range(5):
            body = sample(schema, chance)
            header, frame, at = header_of(codec.encode_request(api_key, version, 1, "me", body))
            assert checked(schema, bytes(frame), at) == bytes(frame)
            codec.read_request(header, frame, at)


@pytest.mark.parametrize(("api_key", "newest"), EVERY_REQUEST)
def test_count_of_two_billion_is_refused_in_every_field(api_key: int, newest: int) -> None:
    chance = random.Random(api_key)
    for version in (newest, min(schema_name_map[api_key_map[api_key]])):
        body = sample(codec._request_schema(api_key, version), chance)
        whole = codec.encode_request(api_key, version, 1, "me", body)
        _, _, at = header_of(whole)
        for position in range(at, len(whole) - 4):
            for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"):
                frame = bytearray(whole)
                frame[4 + position : 4 + position + len(claim)] = claim
                header, view, body_at = header_of(frame)
                try:
                    codec.read_request(header, view, body_at)
                except MalformedRequest:
                    pass


def test_unknown_tagged_fields_are_removed() -> None:
    body = {"topics": [{"name": "a", "topic_id": None}], "allow_auto_topic_creation": False}
    frame = bytes(codec.encode_request(3, 12, 1, "me", {**body, "include_topic_authorized_operations": True}))
    assert frame.endswith(b"\0")
    later = frame[:-1] + b"\x02" + b"\x09\x03abc" + b"\x81\x01\x00"
    header, view, at = header_of(bytearray(later))
    request = codec.read_request(header, view, at)
    assert [topic.name for topic in request.topics] == ["a"]
    assert request.include_topic_authorized_operations


def test_list_with_too_many_elements_is_refused() -> None:
    header, view, at = header_of(codec.encode_request(3, 4, 1, "me", {"topics": [], "allow_auto_topic_creation": True}))
    frame = bytes(view[:at]) + (1_000_001).to_bytes(4, "big") + b"\0\0" * 1_000_001 + b"\1"
    with pytest.raises(MalformedRequest, match="list of 1000001"):
        codec.read_request(header, frame, at)
