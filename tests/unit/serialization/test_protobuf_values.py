"""Protobuf values that have no other form: the record has an error, and its neighbours are decoded."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from google.protobuf import any_pb2, descriptor_pb2, struct_pb2, timestamp_pb2
from google.protobuf.message import Message

from headrace.serialization.arrow_decoder import ArrowDecoder
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import JSON, PROTOBUF, RegisteredSchema
from headrace.serialization.wire_format import prefixed

# message Event { google.protobuf.Any any = 1; google.protobuf.Timestamp at = 2; google.protobuf.Value value = 3; }
# message Other { int32 x = 1; }
_TYPES = {"any": "Any", "at": "Timestamp", "value": "Value"}


def _file() -> descriptor_pb2.FileDescriptorProto:
    needed = [f"google/protobuf/{name}.proto" for name in ("any", "timestamp", "struct")]
    file = descriptor_pb2.FileDescriptorProto(package="shop", syntax="proto3", dependency=needed)
    event, other = file.message_type.add(name="Event"), file.message_type.add(name="Other")
    for number, (name, kind) in enumerate(_TYPES.items(), 1):
        event.field.add(name=name, number=number, label=1, type=11, type_name=f".google.protobuf.{kind}")
    other.field.add(name="x", number=1, label=1, type=5)
    return file


class _Schemas(RegistryClient):
    def __init__(self, kind: str) -> None:
        super().__init__("http://127.0.0.1:1")
        self.schema = RegisteredSchema(1, None, None, None, kind, "{}")

    def schema_by_id(self, _: int) -> RegisteredSchema:
        return self.schema

    def descriptor(self, _: RegisteredSchema) -> bytes:
        return _file().SerializeToString()


def _record(number: int, message: Message) -> bytes:
    data = message.SerializeToString()
    return prefixed(1, b"\x00" + bytes([number << 3 | 2, len(data)]) + data)


def test_an_any_of_a_type_of_the_schema_is_decoded() -> None:
    client = _Schemas(PROTOBUF)
    data = _record(1, any_pb2.Any(type_url="type.googleapis.com/shop.Other", value=b"\x08\x05"))
    found = RecordDecoder(client).decode("t", data)
    assert found.error is None
    assert found.value["any"] == {"@type": "type.googleapis.com/shop.Other", "x": 5}
    columns = ArrowDecoder(client, client.schema).decode(pa.array([data]))
    assert columns.rows.to_pylist()[0]["any"] == '{"@type": "type.googleapis.com/shop.Other", "x": 5}'


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1, any_pb2.Any(type_url="type.googleapis.com/another.Type", value=b"\x08\x05")),
        (2, timestamp_pb2.Timestamp(seconds=1 << 60)),
        (3, struct_pb2.Value(number_value=math.nan)),
    ],
)
def test_a_value_without_another_form_is_an_error_of_its_record(number: int, message: Message) -> None:
    client, good = _Schemas(PROTOBUF), _record(2, timestamp_pb2.Timestamp(seconds=1))
    bad = _record(number, message)
    assert "cannot be read" in str(RecordDecoder(client).decode("t", bad).error)
    columns = ArrowDecoder(client, client.schema).decode(pa.array([good, bad, good]))
    errors = columns.errors.to_pylist()
    assert [error is None for error in errors] == [True, False, True]


def test_json_that_nests_too_deeply_is_an_error_of_its_record() -> None:
    client, data = _Schemas(JSON), prefixed(1, b"[" * 100_000)
    assert "nests too deeply" in str(RecordDecoder(client).decode("t", data).error)
    assert "nests too deeply" in str(ArrowDecoder(client, client.schema).decode(pa.array([data])).errors[0])
