"""Unchanged clients of Confluent's schema registry, against our registry and broker."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from headrace.testing.in_process import RunningBroker, broker
from tests.conformance.avro_models import Purchase
from tests.conformance.test_avro_compatibility import class_path
from tests.support.effort import is_long
from tests.support.java_client import SOURCES
from tests.support.npm import npm_project
from tests.support.registry import RunningRegistry, registry

ORDER_1 = (
    '{"type":"record","name":"Order","namespace":"shop","fields":'
    '[{"name":"id","type":"long"},{"name":"item","type":"string"}]}'
)
ORDER_2 = (
    '{"type":"record","name":"Order","namespace":"shop","fields":'
    '[{"name":"id","type":"long"},{"name":"item","type":"string"},{"name":"count","type":"int","default":1}]}'
)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


@pytest.fixture(scope="module")
def server(running: RunningBroker) -> Iterator[RunningRegistry]:
    with registry(running.bootstrap) as started:
        yield started


@pytest.fixture
def client(server: RunningRegistry) -> Any:
    return SchemaRegistryClient({"url": server.url})


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def round_trip(running: RunningBroker, topic: str, data: bytes) -> bytes:
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce(topic, data)
    assert producer.flush(20) == 0
    settings = {"bootstrap.servers": running.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return bytes(message.value())


def test_avro_serializer_registers_and_a_newer_reader_decodes(
    running: RunningBroker, client: Any, server: RunningRegistry, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(client, ORDER_1)({"id": 7, "item": "book"}, context)
    assert data[0] == 0
    stored = round_trip(running, topic, data)
    fresh = SchemaRegistryClient({"url": server.url})
    assert AvroDeserializer(fresh, ORDER_2)(stored, context) == {"id": 7, "item": "book", "count": 1}
    latest = fresh.get_latest_version(f"{topic}-value")
    assert int.from_bytes(data[1:5], "big") == latest.schema_id
    assert latest.schema.schema_str == ORDER_1


def test_an_incompatible_avro_schema_is_rejected_with_the_reason(client: Any, topic: str) -> None:
    client.register_schema(f"{topic}-value", Schema(ORDER_1, "AVRO"))
    broken = ORDER_1.replace('"long"', '"string"')
    with pytest.raises(SchemaRegistryError, match=r"string at path '/fields/0/type' cannot read .* long") as raised:
        AvroSerializer(client, broken)({"id": "7", "item": "book"}, SerializationContext(topic, MessageField.VALUE))
    assert (raised.value.http_status_code, raised.value.error_code) == (409, 40901)
    assert client.get_versions(f"{topic}-value") == [1]


def test_every_lookup_of_the_client_finds_the_registered_schema(client: Any, topic: str) -> None:
    subject = f"{topic}-value"
    first = client.register_schema(subject, Schema(ORDER_1, "AVRO"))
    second = client.register_schema(subject, Schema(ORDER_2, "AVRO"))
    assert second > first
    assert client.get_schema(first).schema_str == ORDER_1
    assert client.get_version(subject, 2).schema.schema_str == ORDER_2
    assert client.lookup_schema(subject, Schema(ORDER_1, "AVRO")).version == 1
    assert client.get_versions(subject) == [1, 2]
    assert subject in client.get_subjects()
    assert client.test_compatibility(subject, Schema(ORDER_1, "AVRO")) is True
    assert client.test_compatibility(subject, Schema('"string"', "AVRO")) is False
    found = client.get_schema_by_guid(client.get_version(subject, 2).guid)
    assert found.schema_str == ORDER_2
    assert client.delete_version(subject, 1) == 1
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as raised:
        client.get_latest_version(subject)
    assert raised.value.error_code == 40401


def test_compatibility_levels_of_a_subject_are_set_and_read(client: Any, topic: str) -> None:
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility(topic, "FULL_TRANSITIVE")
    assert client.get_config(topic).compatibility_level == "FULL_TRANSITIVE"
    assert client.get_compatibility(topic) == "FULL_TRANSITIVE"


def test_avro_references_metadata_and_rules_are_stored(client: Any, topic: str) -> None:
    client.register_schema(f"{topic}-item", Schema('{"type":"enum","name":"shop.Item","symbols":["A","B"]}', "AVRO"))
    order = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"item","type":"shop.Item"}]}'
    rule = Rule("check", None, RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "true", None, None, False)
    schema = Schema(
        order,
        "AVRO",
        [SchemaReference("shop.Item", f"{topic}-item", 1)],
        Metadata(None, MetadataProperties({"owner": "shop"}), None),
        RuleSet(None, [rule]),
    )
    id_ = client.register_schema(topic, schema)
    found = client.get_schema(id_)
    assert [each.subject for each in found.references] == [f"{topic}-item"]
    assert found.metadata.properties.properties == {"owner": "shop"}
    assert [each.name for each in found.rule_set.domain_rules] == ["check"]
    assert found.schema_str == order.replace("shop.Item", "Item")
    assert client.get_latest_with_metadata(topic, {"owner": "shop"}).version == 1
    with pytest.raises(SchemaRegistryError) as raised:
        client.delete_subject(f"{topic}-item")
    assert raised.value.error_code == 42206


def test_json_serializer_registers_validates_and_is_decoded(
    running: RunningBroker, client: Any, server: RunningRegistry, topic: str
) -> None:
    schema = (
        '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object",'
        '"properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}'
    )
    context = SerializationContext(topic, MessageField.VALUE)
    serializer = JSONSerializer(schema, client)
    stored = round_trip(running, topic, serializer({"id": 7}, context))
    fresh = SchemaRegistryClient({"url": server.url})
    assert JSONDeserializer(None, schema_registry_client=fresh)(stored, context) == {"id": 7}
    assert fresh.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"
    narrower = schema.replace('"integer"', '"string"')
    with pytest.raises(SchemaRegistryError, match="type integer became string"):
        JSONSerializer(narrower, fresh)({"id": "7"}, context)


def test_python_schema_registry_client_registers_and_checks(server: RunningRegistry, topic: str) -> None:
    module = pytest.importorskip("schema_registry.client")
    client = module.SchemaRegistryClient(url=server.url)
    schema = module.schema.AvroSchema(ORDER_1)
    id_ = client.register(topic, schema)
    assert client.get_by_id(id_).raw_schema["name"].endswith("Order")
    assert client.check_version(topic, schema).version == 1
    assert client.test_compatibility(topic, module.schema.AvroSchema(ORDER_2)) is True
    assert client.update_compatibility("FULL", subject=topic) is True
    assert client.get_compatibility(topic) == "FULL"
    assert topic in client.get_subjects()


def order_class() -> Any:
    """A message class without protoc: package shop, message Order with a nested Item, a map and a well-known type."""
    pool = descriptor_pool.Default()
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.registrytest.Order"))
    except KeyError:
        pass
    file = FileDescriptorProto(name="shop/registrytest.proto", package="shop.registrytest", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    Timestamp()  # so that the default pool has its file
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="items", number=2, type=11, type_name=".shop.registrytest.Order.Item", label=3)
    order.field.add(name="at", number=3, type=11, type_name=".google.protobuf.Timestamp", label=1)
    order.nested_type.add(name="Item").field.add(name="name", number=1, type=9, label=1)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.registrytest.Order"))


def test_protobuf_serializer_registers_a_descriptor_and_is_decoded(
    running: RunningBroker, client: Any, server: RunningRegistry, topic: str
) -> None:
    order = order_class()
    context = SerializationContext(topic, MessageField.VALUE)
    sent = order(id=7, items=[{"name": "book"}])
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    stored = round_trip(running, topic, serializer(sent, context))
    fresh = SchemaRegistryClient({"url": server.url})
    deserializer = ProtobufDeserializer(order, {"use.deprecated.format": False}, fresh)
    assert deserializer(stored, context) == sent
    latest = fresh.get_latest_version(f"{topic}-value").schema
    assert latest.schema_type == "PROTOBUF"
    assert "  int64 id = 1;\n" in latest.schema_str
    assert fresh.lookup_schema(f"{topic}-value", Schema(latest.schema_str, "PROTOBUF", latest.references)).version == 1
    broken = latest.schema_str.replace("int64 id", "string id")
    with pytest.raises(SchemaRegistryError, match="add the new field with a new number"):
        fresh.register_schema(f"{topic}-value", Schema(broken, "PROTOBUF", latest.references))


HERE = Path(__file__).parent


def lines_of_node(program: Path, url: str) -> dict[str, Any]:
    """Runs `conformance.js` of the directory: its lines by the name of the check."""
    command = ["node", "conformance.js", url]
    place = npm_project(program)
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {line.pop("check"): line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.skipif(not is_long(), reason="fetches 171 MB of packages once: HEADRACE_EFFORT=long")
@pytest.mark.needs("node", "npm")
def test_confluents_javascript_client_encodes_decodes_and_is_refused(server: RunningRegistry) -> None:
    found = lines_of_node(HERE / "confluent_schema_registry_js", server.url)
    assert found["avro"] == {"prefix": True, "id": 7, "item": "book"}
    assert found["latest"] == {"id": True, "version": 1, "same": True}
    assert found["refused"] == {"status": 409, "code": 40901, "said": True}
    assert found["check"] == {"broken": False, "same": True}
    assert found["json"] == {"id": 7}
    assert found["invalid"] == {"refused": True}
    assert found["delete"] == {"soft": [1], "hard": [1]}


@pytest.mark.needs("node", "npm")
def test_kafkajs_schema_registry_encodes_and_decodes_all_three_types(server: RunningRegistry) -> None:
    found = lines_of_node(HERE / "schema_registry_js", server.url)
    assert found["avro"] == {"prefix": True, "id": 7, "item": "book"}
    assert found["again"] == {"same": True, "latest": True}
    assert found["refused"] == {"status": 409, "said": True}
    assert found["json"] == {"id": 7}
    assert found["protobuf"] == {"id": 7}


GO_PROGRAMS = Path(__file__).resolve().parents[2] / ".cache" / "franz-go"


def lines_of_go(source: str, url: str) -> dict[str, Any]:
    """Builds and runs the program of the directory: its lines by the name of the check."""
    GO_PROGRAMS.mkdir(parents=True, exist_ok=True)
    program = GO_PROGRAMS / source
    build = ["go", "build", "-o", str(program), "."]
    built = subprocess.run(build, cwd=HERE / source, capture_output=True, text=True, timeout=280, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program), url], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return {line.pop("check"): line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.needs("go")
def test_franz_go_registers_looks_up_checks_and_deletes(server: RunningRegistry) -> None:
    found = lines_of_go("franz_go_sr", server.url)
    assert found["register"] == {"version": 1, "same": True}
    assert found["check"] == {"version": 1, "compatible": False, "messages": True}
    assert found["refused"] == {"is": True, "code": 40901, "status": 409}
    assert found["level"] == {"level": "FULL"}
    assert found["mode"] == {"mode": "READWRITE", "types": 3}
    assert found["delete"] == {"soft": [1], "hard": [1]}


@pytest.mark.skipif(not is_long(), reason="fetches 150 MB of modules once: HEADRACE_EFFORT=long")
@pytest.mark.needs("go")
def test_confluents_go_client_encodes_decodes_and_is_refused(server: RunningRegistry) -> None:
    found = lines_of_go("confluent_go_sr", server.url)
    assert found["register"] == {"version": 1, "same": True, "guid": True, "places": "[{cgo-value 1}]"}
    assert found["avro"] == {"prefix": True, "id": 7, "item": "book"}
    assert found["refused"] == {"code": 40901, "compatible": False}
    assert found["json"] == {"id": 7, "item": "book"}
    assert found["level"] == {"level": "FULL_TRANSITIVE", "config": "FULL_TRANSITIVE"}
    assert found["delete"] == {"version": 1, "hard": [1], "code": 40401}


def test_schemas_and_records_of_dataclasses_avroschema_are_decoded(
    running: RunningBroker, client: Any, server: RunningRegistry, topic: str
) -> None:
    id_ = client.register_schema(f"{topic}-value", Schema(Purchase.avro_schema(), "AVRO"))
    assert json.loads(client.get_schema(id_).schema_str) == json.loads(Purchase.avro_schema())
    bought = Purchase(7, "book", 2, Decimal("12.50"))
    stored = round_trip(running, topic, b"\0" + id_.to_bytes(4, "big") + bought.serialize())
    fresh = SchemaRegistryClient({"url": server.url})
    value = AvroDeserializer(fresh)(stored, SerializationContext(topic, MessageField.VALUE))
    assert value == {"id": 7, "item": "book", "count": 2, "price": Decimal("12.50")}
    ours = RecordDecoder(RegistryClient(server.url)).decode(topic, stored)
    assert (ours.value, ours.error) == ({"id": 7, "item": "book", "count": 2, "price": "12.50"}, None)
    encoded = RecordEncoder(RegistryClient(server.url), "AVRO").encode(topic, ours.value)
    assert encoded is not None
    assert Purchase.deserialize(encoded[5:]) == bought


def test_python_schema_registry_client_serializes_a_dataclass_model(server: RunningRegistry, topic: str) -> None:
    module = pytest.importorskip("schema_registry.serializers")
    client = pytest.importorskip("schema_registry.client").SchemaRegistryClient(url=server.url)
    serializer = module.AvroMessageSerializer(client)
    bought = Purchase(7, "book", 2, Decimal("12.50"))
    schema = pytest.importorskip("schema_registry.client").schema.AvroSchema(Purchase.avro_schema())
    data = serializer.encode_record_with_schema(f"{topic}-value", schema, bought.asdict())
    assert Purchase.parse_obj(serializer.decode_message(data)) == bought
    ours = RecordDecoder(RegistryClient(server.url)).decode(topic, data)
    assert (ours.value, ours.error) == ({"id": 7, "item": "book", "count": 2, "price": "12.50"}, None)


FLINK = "flink-sql-avro-confluent-registry"
FLINK_JARS = Path(__file__).resolve().parents[2] / ".cache" / "flink"


def flinks_jar() -> Path:
    """Confluent's Java packages are not on Maven Central. Apache Flink ships the client of the registry in a jar of its
    own, with other package names."""
    jar = FLINK_JARS / f"{FLINK}-2.0.0.jar"
    if not jar.exists():
        artifact = f"org.apache.flink:{FLINK}:2.0.0"
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={FLINK_JARS}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stdout
    return jar


@pytest.mark.skipif(not is_long(), reason="fetches 23 MB of Maven artifacts once: HEADRACE_EFFORT=long")
@pytest.mark.needs("java", "mvn")
def test_confluents_java_client_registers_checks_and_deletes(server: RunningRegistry, tmp_path: Path) -> None:
    path = f"{flinks_jar()}:{class_path()}"
    source = str(SOURCES / "ConfluentRegistry.java")
    built = subprocess.run(
        ["javac", "-nowarn", "-cp", path, "-d", str(tmp_path), source], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{tmp_path}:{path}", "ConfluentRegistry", server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "register true",
        "latest 2 true AVRO",
        "lookup 1 [1, 2]",
        "check false true",
        "refused 409 40901",
        "level FULL FULL",
        "mode READWRITE",
        "delete [1, 2] [1, 2]",
        "gone 40401",
    ]
