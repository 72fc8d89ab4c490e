"""The codec writes what kio reads, for every API and version that kio knows."""

from __future__ import annotations

import dataclasses
import datetime
import random
import uuid

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader
from kio.serial._introspect import classify_field, get_schema_field_type, is_optional
from kio.static.constants import EntityType

from headrace.wire import codec
from headrace.wire.schema_writer import writer_for

APIS = sorted(api_key_map)
WIDTHS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "timedelta_i32": 31, "timedelta_i64": 40}


def value_of_type(kafka_type: str, dice: random.Random) -> object:
    if kafka_type in WIDTHS:
        return dice.randrange(1 << WIDTHS[kafka_type])
    match kafka_type:
        case "uint8" | "uint16" | "uint32" | "uint64":
            return dice.randrange(1 << int(kafka_type[4:]))
        case "string":
            return "é" * dice.choice((0, 1, 200))
        case "bytes" | "records":
            return dice.randbytes(dice.choice((0, 3, 300)))
        case "uuid":
            return uuid.UUID(int=dice.getrandbits(128))
        case "bool":
            return dice.random() < 0.5
        case "error_code":
            return dice.choice((0, 3, 100))
        case "float64":
            return dice.random()
        case "datetime_i64":
            return dice.randrange(1 << 40)
    raise AssertionError(kafka_type)


def plain_values(entity: type, dice: random.Random) -> dict[str, object]:
    values: dict[str, object] = {}
    for field in dataclasses.fields(entity):
        kind = classify_field(field)
        count = dice.randrange(4)
        if is_optional(field) and not kind.is_array and dice.random() < 0.3:
            values[field.name] = -1 if field.metadata.get("kafka_type") == "datetime_i64" else None
        elif dataclasses.is_dataclass(kind.type_):
            nested = [plain_values(kind.type_, dice) for _ in range(count if kind.is_array else 1)]
            values[field.name] = nested if kind.is_array else nested[0]
        else:
            kafka_type = get_schema_field_type(field)
            items = [value_of_type(kafka_type, dice) for _ in range(count if kind.is_array else 1)]
            values[field.name] = items if kind.is_array else items[0]
    return values


def plain(value: object) -> object:
    """Converts what kio read to plain values."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    return value


def normal(given: object, read: object) -> object:
    """Normalises null values, which differ (a null timestamp is -1, a zero id is None)."""
    if isinstance(given, dict):
        assert isinstance(read, dict)
        return {name: normal(given[name], read[name]) for name in given}
    if isinstance(given, list) and isinstance(read, list):
        assert len(given) == len(read)
        return [normal(one, other) for one, other in zip(given, read, strict=True)]
    if given in (None, -1) and read in (None, -1):
        return read
    return given


@pytest.mark.parametrize("api_key", APIS)
def test_kio_reads_back_every_encoded_message(api_key: int) -> None:
    name = api_key_map[api_key]
    for version, kinds in schema_name_map[name].items():
        for kind in (EntityType.request, EntityType.response):
            if kind not in kinds:
                continue
            load = codec._request_schema if kind is EntityType.request else codec.response_schema
            entity = load(api_key, version)
            for seed in range(5):
                given = plain_values(entity, random.Random(f"{api_key} {version} {kind} {seed}"))
                out = bytearray()
                writer_for(entity)(out, given)
                read, size = entity_reader(entity)(bytes(out), 0)
                assert size == len(out)
                found = plain(read)
                assert normal(given, found) == found, (name, version, kind, seed)


def test_request_frame_contains_its_header() -> None:
    frame = codec.encode_request(3, 12, 77, "tester", {"topics": None, "include_topic_authorized_operations": False})
    header, at = codec.read_request_header(memoryview(frame)[4:])
    assert header == (3, 12, 77, "tester")
    assert codec.read_request(codec.RequestHeader(*header), memoryview(frame)[4:], at).topics is None
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_api_versions_response_has_the_old_header_in_every_version() -> None:
    body = {"error_code": 0, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}
    frame = codec.encode_response(18, 4, 9, body)
    correlation_id, answer = codec.read_response(18, 4, memoryview(frame)[4:])
    assert correlation_id == 9
    assert answer.api_keys[0].max_version == 4


@pytest.mark.parametrize(
    "frame", [b"", b"\0\3", b"\0\3\0\1\0\0\0\1\0\7ab", b"\0\3\0\x0c\0\0\0\1\0\0\xff\xff\xff\xff\xff\xff"]
)
def test_truncated_header_is_a_malformed_request(frame: bytes) -> None:
    with pytest.raises(codec.MalformedRequest):
        codec.read_request_header(frame)


def test_missing_field_raises_an_error() -> None:
    with pytest.raises(KeyError, match="error_code"):
        codec.encode_response(12, 4, 1, {})
