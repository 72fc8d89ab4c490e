"""`headrace.serialization` and confluent-kafka's serializers read each other's records, in both wire formats."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from confluent_kafka.serialization import SerializationError as TheirError
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

from headrace.serialization import schema as kinds
from headrace.serialization.arrow_decoder import ArrowDecoder
from headrace.serialization.errors import RegistryError, RegistryUnreachable, SerializationError
from headrace.serialization.record_decoder import Decoded, RecordDecoder
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from headrace.testing.in_process import broker
from tests.support.registry import registry

AVRO = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": null},
    {"name": "tags", "type": {"type": "map", "values": ["null", "string", "double"]}, "default": {}},
    {"name": "lines", "type": {"type": "array", "items":
        {"type": "record", "name": "Line", "fields": [{"name": "raw", "type": "bytes"}]}}}]}"""
ORDER = {
    "id": 7,
    "price": Decimal("12.50"),
    "day": date(2026, 8, 1),
    "at": datetime(2026, 8, 1, 12, 0, tzinfo=UTC),
    "tags": {"a": "b", "c": None, "d": 1.5},
    "lines": [{"raw": b"\x00\xff"}],
}
PLAIN = {
    "id": 7,
    "price": "12.50",
    "day": "2026-08-01",
    "at": "2026-08-01T12:00:00Z",
    "tags": {"a": "b", "c": None, "d": 1.5},
    "lines": [{"raw": "\x00\xff"}],
}
JSON = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
HEADER_FORM = {"schema.id.serializer": header_schema_id_serializer}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with broker() as running, registry(running.bootstrap) as started:
        yield started.url


@pytest.fixture
def ours(url: str) -> RegistryClient:
    return RegistryClient(url)


@pytest.fixture
def theirs(url: str) -> Any:
    return SchemaRegistryClient({"url": url})


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def context(topic: str, headers: list[tuple[str, bytes]] | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


@pytest.mark.parametrize("form", [{}, HEADER_FORM])
def test_avro_of_their_serializer_decodes(ours: RegistryClient, theirs: Any, topic: str, form: Any) -> None:
    headers: list[tuple[str, bytes]] = []
    data = AvroSerializer(theirs, AVRO, conf=form)(ORDER, context(topic, headers))
    assert bool(headers) is bool(form)
    native = RecordDecoder(ours, native=True).decode(topic, data, headers=headers)
    assert (native.value, native.error) == (ORDER, None)
    found = RecordDecoder(ours).decode(topic, data, headers=headers)
    assert found.value == PLAIN
    assert found.schema is not None
    assert found.schema.kind == kinds.AVRO


@pytest.mark.parametrize("value", [ORDER, PLAIN])
def test_avro_of_our_encoder_is_read_by_their_deserializer(
    ours: RegistryClient, theirs: Any, topic: str, value: Any
) -> None:
    encoder = RecordEncoder(ours, schema=AVRO)
    assert AvroDeserializer(theirs)(encoder.encode(topic, value), context(topic)) == ORDER
    made = encoder.encode_with_header(topic, value)
    assert made.header is not None
    assert AvroDeserializer(theirs)(made.data, context(topic, [made.header])) == ORDER


def test_avro_references_are_resolved_in_both_directions(ours: RegistryClient, theirs: Any, topic: str) -> None:
    enum = '{"type": "enum", "name": "shop.Kind", "symbols": ["A", "B"]}'
    line = '{"type": "record", "name": "shop.Line", "fields": [{"name": "kind", "type": "shop.Kind"}]}'
    order = """{"type": "record", "name": "shop.Order", "fields": [
        {"name": "line", "type": "shop.Line"}, {"name": "kind", "type": ["null", "shop.Kind"]}]}"""
    ours.register(f"{topic}-kind", enum)
    kind_reference = kinds.SchemaReference("shop.Kind", f"{topic}-kind", 1)
    ours.register(f"{topic}-line", line, references=[kind_reference])
    references = [kinds.SchemaReference("shop.Line", f"{topic}-line", 1), kind_reference]
    value = {"line": {"kind": "B"}, "kind": "A"}
    data = RecordEncoder(ours, schema=order, references=references).encode(topic, value)
    assert AvroDeserializer(theirs)(data, context(topic)) == value
    named = [SchemaReference(each.name, each.subject, each.version) for each in references]
    sent = AvroSerializer(theirs, Schema(order, "AVRO", named))(value, context(topic))
    assert sent == data
    assert RecordDecoder(ours).decode(topic, sent).value == value


def test_json_goes_both_ways_and_is_validated(ours: RegistryClient, theirs: Any, topic: str) -> None:
    encoder = RecordEncoder(ours, "JSON", schema=JSON)
    data = encoder.encode(topic, {"id": 7, "note": "ž"})
    assert JSONDeserializer(None, schema_registry_client=theirs)(data, context(topic)) == {"id": 7, "note": "ž"}
    sent = JSONSerializer(JSON, theirs)({"id": 8}, context(topic))
    assert RecordDecoder(ours).decode(topic, sent).value == {"id": 8}
    with pytest.raises(SerializationError, match=r"\$\.id: 'x' is not of type 'integer'"):
        encoder.encode(topic, {"id": "x"})


def test_json_references_are_resolved(ours: RegistryClient, topic: str) -> None:
    ours.register(f"{topic}-item", '{"type": "string", "maxLength": 3}', kind="JSON")
    reference = kinds.SchemaReference("item.json", f"{topic}-item", 1)
    text = '{"type": "object", "properties": {"item": {"$ref": "item.json"}}}'
    encoder = RecordEncoder(ours, "JSON", schema=text, references=[reference])
    assert encoder.encode(topic, {"item": "abc"}).endswith(b'{"item":"abc"}')
    with pytest.raises(SerializationError, match=r"\$\.item: 'abcd' is too long"):
        encoder.encode(topic, {"item": "abcd"})


PROTO = """syntax = "proto3";
package shop.recordtest;
import "google/protobuf/timestamp.proto";
message First { int32 n = 1; }
message Order {
  message Item { string name = 1; optional int64 count = 2; }
  int64 id = 1;
  repeated Item items = 2;
  google.protobuf.Timestamp at = 3;
  map<string, bytes> parts = 4;
  oneof choice { string text = 5; double number = 6; }
  Color color = 7;
}
enum Color { RED = 0; GREEN = 1; }
"""
PROTO_ORDER = {
    "id": 2**60,
    "items": [{"name": "book", "count": None}, {"name": "pen", "count": 0}],
    "at": datetime(2026, 8, 1, 12, 0, 0, 5, tzinfo=UTC),
    "parts": {"a": b"\xff\x00"},
    "text": None,
    "number": 0.5,
    "color": "GREEN",
}


def order_class(ours: RegistryClient, topic: str) -> Any:
    """The class of PROTO's Order as a program has it from protoc: in the default pool."""
    pool = descriptor_pool.Default()
    try:
        pool.FindFileByName("recordtest.proto")
    except KeyError:
        Timestamp()  # so that the default pool has its file
        schema = ours.register(f"{topic}-proto", PROTO, kind="PROTOBUF")
        file = FileDescriptorProto.FromString(ours.descriptor(schema))
        file.name = "recordtest.proto"
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.recordtest.Order"))


@pytest.mark.parametrize("form", [{}, HEADER_FORM])
def test_protobuf_of_their_serializer_decodes(ours: RegistryClient, theirs: Any, topic: str, form: Any) -> None:
    order = order_class(ours, topic)
    sent = order(id=2**60, items=[{"name": "book"}, {"name": "pen", "count": 0}], number=0.5, color=1)
    sent.at.FromDatetime(PROTO_ORDER["at"])
    sent.parts["a"] = b"\xff\x00"
    headers: list[tuple[str, bytes]] = []
    serializer = ProtobufSerializer(order, theirs, {"use.deprecated.format": False, **form})
    data = serializer(sent, context(topic, headers))
    assert RecordDecoder(ours, native=True).decode(topic, data, headers=headers).value == PROTO_ORDER
    plain = RecordDecoder(ours).decode(topic, data, headers=headers).value
    assert plain == {**PROTO_ORDER, "at": "2026-08-01T12:00:00.000005Z", "parts": {"a": "/wA="}}


def test_protobuf_of_our_encoder_is_read_by_their_deserializer(ours: RegistryClient, theirs: Any, topic: str) -> None:
    order = order_class(ours, topic)
    encoder = RecordEncoder(ours, "PROTOBUF", schema=PROTO, message="shop.recordtest.Order")
    reader = ProtobufDeserializer(order, {"use.deprecated.format": False}, theirs)
    data = encoder.encode(topic, PROTO_ORDER)
    assert data[5:7] == b"\x02\x02"  # one index: the second message
    found = reader(data, context(topic))
    assert (found.id, found.items[1].name, found.parts["a"], found.color) == (2**60, "pen", b"\xff\x00", 1)
    made = encoder.encode_with_header(topic, found)
    assert made.header is not None
    assert reader(made.data, context(topic, [made.header])) == found
    with pytest.raises(SerializationError, match="no field named"):
        encoder.encode(topic, {"unknown": 1})


def test_protobuf_nested_messages_and_imports_of_references(ours: RegistryClient, topic: str) -> None:
    item = 'syntax = "proto3"; package shop; message Item { string name = 1; }'
    ours.register(f"{topic}-item", item, kind="PROTOBUF")
    text = """syntax = "proto3"; package shop; import "item.proto"; import "confluent/type/decimal.proto";
        message Outer { message A {} message B { Item item = 1; confluent.type.Decimal price = 2; } }"""
    reference = kinds.SchemaReference("item.proto", f"{topic}-item", 1)
    encoder = RecordEncoder(ours, "PROTOBUF", schema=text, references=[reference], message="shop.Outer.B")
    data = encoder.encode(topic, {"item": {"name": "book"}, "price": {"value": b"\x05", "scale": 1}})
    assert data[5:8] == b"\x04\x00\x02"  # two indexes: 0, then 1
    found = RecordDecoder(ours, native=True).decode(topic, data)
    assert found.value == {"item": {"name": "book"}, "price": {"value": b"\x05", "precision": 0, "scale": 1}}


def test_bad_data_gives_its_reason_and_no_exception(ours: RegistryClient, topic: str) -> None:
    decoder = RecordDecoder(ours)
    good = RecordEncoder(ours, schema='"string"').encode(topic, "hello")
    assert decoder.decode(topic, None) == Decoded(None, None, None)
    for data, why in [
        (b"", "no schema id"),
        (b"plain text", "no schema id"),
        (good[:-1], "ends too early"),
        (b"\x00\x7f\xff\xff\xff" + good[5:], "Schema 2147483647 not found"),
    ]:
        found = decoder.decode(topic, data, is_key=True)
        assert found.value is None
        assert found.error is not None
        assert found.error.startswith(f"key of topic {topic}: ")
        assert why in found.error


def test_an_unknown_id_is_requested_once(ours: RegistryClient, topic: str) -> None:
    calls: list[str] = []
    original = ours.call
    ours.call = lambda method, path, body=None: calls.append(path) or original(method, path, body)  # type: ignore
    decoder = RecordDecoder(ours)
    for _ in range(5):
        assert decoder.decode(topic, b"\x00\x7f\xff\xff\xff\x00").error
    assert len(calls) == 1


def test_a_registry_that_does_not_answer_is_an_error_of_its_own(topic: str) -> None:
    absent = RegistryClient("http://127.0.0.1:1", timeout_s=1)
    with pytest.raises(RegistryUnreachable, match=r"no schema registry answers at http://127\.0\.0\.1:1"):
        RecordDecoder(absent).decode(topic, b"\x00\x00\x00\x00\x01\x00")


def test_the_latest_version_writes_and_strategies_choose_the_subject(ours: RegistryClient, topic: str) -> None:
    ours.register(f"{topic}-value", '{"type": "record", "name": "R", "fields": []}')
    assert RecordEncoder(ours).encode(topic, {})[:1] == b"\x00"
    with pytest.raises(SerializationError, match="holds AVRO schemas"):
        RecordEncoder(ours, "JSON").encode(topic, {})
    with pytest.raises(RegistryError, match="Subject 'absent-value' not found"):
        RecordEncoder(ours).encode("absent", {})
    name = topic.replace("-", "_")
    record = f'{{"type": "record", "name": "{name}", "namespace": "n", "fields": []}}'
    assert RecordEncoder(ours, strategy="record", schema=record).schema_for(topic).subject == f"n.{name}"
    found = RecordEncoder(ours, strategy="topic-record", schema=record).schema_for(topic)
    assert found.subject == f"{topic}-n.{name}"
    with pytest.raises(RegistryError, match="not found"):
        RecordEncoder(ours, schema='"int"', register=False).encode(topic, 1)


def contract(expression: str, **more: Any) -> dict[str, Any]:
    rule = {"name": "check", "kind": "CONDITION", "type": "CEL", "mode": "WRITEREAD", "expr": expression, **more}
    return {"domainRules": [rule]}


# The expression, and whether the order of this module fulfils it.
CONDITIONS = [
    ("message.id > 0", True),
    ("message.id > 10", False),
    ("size(message.lines) == 1 && message.tags.a == 'b'", True),
    ("message.tags.exists(t, t == 'z')", False),
    ("message.id > 10; message.id == 0", True),
    ("message.id > 0; message.tags.d > 2.0", False),
    ("message.lines[0].raw == b'\\x00\\xff'", True),
    ("message.at > timestamp('2026-01-01T00:00:00Z')", True),
    ("has(message.missing)", False),
]


@pytest.mark.parametrize(("expression", "holds"), CONDITIONS)
def test_conditions_of_data_contracts_hold_as_in_their_client(
    ours: RegistryClient, theirs: Any, topic: str, expression: str, holds: bool
) -> None:
    from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor

    CelExecutor.register()
    data = RecordEncoder(ours, schema=AVRO).encode(topic, ORDER)  # version 1 has no rules
    ours.register(f"{topic}-value", AVRO, rule_set=contract(expression))
    encoder = RecordEncoder(ours)
    serializer = AvroSerializer(theirs, None, conf={"auto.register.schemas": False, "use.latest.version": True})
    if holds:
        assert encoder.encode(topic, PLAIN) == serializer(ORDER, context(topic))
    else:
        with pytest.raises(SerializationError, match="rule 'check'"):
            encoder.encode(topic, PLAIN)
        with pytest.raises(TheirError):
            serializer(ORDER, context(topic))
    latest = ours.latest(f"{topic}-value")
    found = RecordDecoder(ours, reader=latest, native=True).decode(topic, data)
    assert (found.error is None) is holds
    columns = ArrowDecoder(ours, latest).decode(pa.array([data, None], pa.binary()))
    assert (columns.errors.null_count == 2) is holds
    assert (columns.rows.null_count == 1) is holds


def test_rules_that_cannot_be_run_stop_a_writer_and_not_a_reader(ours: RegistryClient, topic: str) -> None:
    data = RecordEncoder(ours, schema=AVRO).encode(topic, ORDER)
    rule = {"name": "hide", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD", "tags": ["PII"]}
    ours.register(f"{topic}-value", AVRO, rule_set={"domainRules": [rule]})
    with pytest.raises(SerializationError, match="rule 'hide' is a TRANSFORM of type ENCRYPT"):
        RecordEncoder(ours).encode(topic, ORDER)
    latest = ours.latest(f"{topic}-value")
    assert RecordDecoder(ours, reader=latest, native=True).decode(topic, data).value == ORDER
    ours.register(f"{topic}-value", AVRO, rule_set={"domainRules": [{**rule, "disabled": True}]})
    assert RecordEncoder(ours).encode(topic, ORDER)[5:] == data[5:]
    for rules in (contract("message.id > 10", onFailure="NONE"), contract("message.id > 10", mode="READ")):
        ours.register(f"{topic}-value", AVRO, rule_set=rules)
        assert RecordEncoder(ours).encode(topic, ORDER)[5:] == data[5:]
    ours.register(f"{topic}-value", AVRO, rule_set=contract("message.id >"))
    with pytest.raises(SerializationError, match="rule 'check' is not CEL"):
        RecordEncoder(ours).encode(topic, ORDER)
