"""`headrace produce` and `consume` with schemas, and Confluent's console tools, run as a user runs them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.cli.records.schema_records import local_decoding, names_schema
from headrace.cli.records.text import Seen
from headrace.testing import RunningBroker
from tests.cli.conftest import Ran, Run
from tests.support.registry import RunningRegistry, registry

AVRO = json.dumps({"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]})
JSON = json.dumps({"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}})
PROTO = 'syntax = "proto3";\npackage shop;\nmessage Order { int32 id = 1; }\n'
FILES = {"order.avsc": AVRO, "order.json": JSON, "order.proto": PROTO}


@pytest.fixture(scope="module")
def server(running: RunningBroker) -> Iterator[RunningRegistry]:
    with registry(running.bootstrap, topic="_schemas_records", group="schemas-records") as started:
        yield started


@pytest.fixture
def run(headrace: Run, server: RunningRegistry, tmp_path: Path) -> Run:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def run(*words: str, stdin: str = "") -> Ran:
        return headrace(*words, stdin=stdin, env={"HEADRACE_REGISTRY": server.url})

    return run


@pytest.fixture
def topic(headrace: Run) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    assert headrace("topics", "create", name, "--partitions", "1").code == 0
    return name


@pytest.mark.parametrize("file", FILES)
def test_records_are_encoded_and_decoded_by_subject(run: Run, server: RunningRegistry, topic: str, file: str) -> None:
    ran = run("produce", topic, '{"id": 1}', '{"id": 2}', "--schema", file, "--key", '{"id": 7}', "--key-schema", file)
    assert ran.code == 0, ran.err
    assert run("produce", topic, '{"id": 3}', "--schema", "latest").code == 0
    subjects = server.ask("GET", f"/subjects?subjectPrefix={topic}")[1]
    assert subjects == [f"{topic}-key", f"{topic}-value"]
    assert run("consume", topic, "-F", "%k %s\\n").out.splitlines() == [
        '{"id":7} {"id":1}', '{"id":7} {"id":2}', ' {"id":3}',
    ]  # fmt: skip
    found = run("consume", topic, "--where", "value.id == 2", "-o", "json").json
    assert (found["key"], found["value"]) == ({"id": 7}, {"id": 2})


@pytest.mark.parametrize("file", FILES)
def test_a_header_can_name_the_schema(run: Run, running: RunningBroker, topic: str, file: str) -> None:
    options = ("--schema", file, "--key", '{"id": 7}', "--key-schema", file, "--schema-in-header", "-H", "source=web")
    ran = run("produce", topic, '{"id": 1}', *options)
    assert ran.code == 0, ran.err
    assert run("consume", topic, "-F", "%k %s\\n").out == '{"id":7} {"id":1}\n'
    settings = {"bootstrap.servers": running.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    headers = dict(message.headers() or ())
    assert headers.keys() == {"source", "__key_schema_id", "__value_schema_id"}
    value = message.value()
    assert value is not None
    assert value[:1] != b"\0"


@pytest.mark.parametrize(("strategy", "subject"), [("record", "shop.Order"), ("topic-record", "{topic}-shop.Order")])
def test_strategies_name_the_subject(
    run: Run, server: RunningRegistry, topic: str, strategy: str, subject: str
) -> None:
    ran = run("produce", topic, '{"id": 1}', "--schema", "order.avsc", "--strategy", strategy)
    assert ran.code == 0, ran.err
    assert subject.format(topic=topic) in server.ask("GET", "/subjects")[1]
    assert run("consume", topic).out == '{"id":1}\n'


def test_a_value_that_does_not_fit_stops_the_command_with_a_sentence(run: Run, topic: str) -> None:
    for text, why in (('{"id": "x"}', "id"), ("not json", "is not JSON"), ("{}", "id")):
        ran = run("produce", topic, text, "--schema", "order.avsc")
        assert ran.code == 1
        assert why in ran.err
        assert "Traceback" not in ran.err
    assert run("produce", topic, "{}", "--schema", "nowhere.avsc").code == 1
    assert run("produce", topic, "{}", "--schema", "order.txt").code == 1
    assert run("produce", topic, "{}", "--schema", "latest").code == 1


def test_a_dry_run_registers_nothing(run: Run, server: RunningRegistry, topic: str) -> None:
    assert run("produce", topic, '{"id": 1}', "--schema", "order.avsc", "--dry-run").code == 0
    assert server.ask("GET", f"/subjects?subjectPrefix={topic}")[1] == []


def test_records_that_do_not_decode_are_shown_raw_with_the_reason(
    run: Run, running: RunningBroker, server: RunningRegistry, topic: str
) -> None:
    assert run("produce", topic, '{"id": 1}', "--schema", "order.avsc").code == 0
    id_ = server.ask("GET", f"/subjects/{topic}-value/versions/1")[1]["id"]
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce(topic, b"\x00\x00\x0f\xff\xffpayload")
    producer.produce(topic, b"\x00" + id_.to_bytes(4, "big"))
    producer.produce(topic, b"plain")
    assert producer.flush(20) == 0
    assert run("produce", topic, '{"id": 2}', "--schema", "order.avsc").code == 0
    shown = run("consume", topic, "-o", "json")
    values = [each.get("value", "raw") for each in shown.lines]
    assert values[0] == {"id": 1}
    assert values[3:] == ["plain", {"id": 2}]
    assert ["error" in each for each in shown.lines] == [False, True, True, False, False]
    assert "1048575" in shown.err
    assert f"{topic}-0 @2 is shown raw" in shown.err


def test_headers_and_prefixes_of_confluents_serializer_are_read(
    run: Run, running: RunningBroker, server: RunningRegistry, topic: str
) -> None:
    client = SchemaRegistryClient({"url": server.url})
    place = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(client, AVRO)({"id": 5}, place)
    guid = server.ask("GET", f"/subjects/{topic}-value/versions/1")[1]["guid"]
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce(topic, data)
    producer.produce(topic, data[5:], headers={"__value_schema_id": b"\x01" + uuid.UUID(guid).bytes})
    assert producer.flush(20) == 0
    assert run("consume", topic).out.splitlines() == ['{"id":5}', '{"id":5}']
    assert run("produce", topic, '{"id": 6}', "--schema", "latest").code == 0
    raw = run("consume", topic, "--from", "2", "--value", "hex", "--registry", "").out.strip()
    assert AvroDeserializer(client)(bytes.fromhex(raw), place) == {"id": 6}


@pytest.mark.parametrize(("kind", "schema"), [("avro", AVRO), ("json-schema", JSON), ("protobuf", PROTO)])
def test_confluents_console_tools(run: Run, server: RunningRegistry, topic: str, running: RunningBroker,
                                  kind: str, schema: str) -> None:  # fmt: skip
    url = f"schema.registry.url={server.url}"
    where = ["--bootstrap-server", running.bootstrap, "--topic", topic, "--property", url]
    made = run("kafka", f"{kind}-console-producer", *where, "--property", f"value.schema={schema}",
               stdin='{"id":1}\n{"id":2}\n')  # fmt: skip
    assert made.code == 0, made.err
    reading = [*where, "--from-beginning", "--timeout-ms", "8000", "--max-messages", "2"]
    shown = run("kafka", f"{kind}-console-consumer", *reading, "--property", "print.schema.ids=true")
    id_ = server.ask("GET", f"/subjects/{topic}-value/versions/1")[1]["id"]
    assert shown.out.splitlines() == [f'{{"id":1}}\t{id_}', f'{{"id":2}}\t{id_}'], shown.err
    wrong = run("kafka", f"{kind}-console-producer", *where, "--property", f"value.schema={schema}", stdin="x\n")
    assert wrong.code == 1
    assert "is not JSON" in wrong.err
    header = "value.schema.id.serializer=io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
    given = ["--property", f"value.schema={schema}", "--property", header]
    made = run("kafka", f"{kind}-console-producer", *where, *given, stdin='{"id":3}\n')
    assert made.code == 0, made.err
    reading[-1] = "3"
    shown = run("kafka", f"{kind}-console-consumer", *reading)
    assert shown.out.splitlines()[-1] == '{"id":3}', shown.err
    assert "__value_schema_id" in run("consume", topic, "--from", "2", "-o", "json").out
    given[-1] = "value.schema.id.serializer=com.example.Other"
    assert run("kafka", f"{kind}-console-producer", *where, *given, stdin="{}\n").code == 1


def test_consume_uses_the_registry_of_the_context(
    headrace: Run, run: Run, running: RunningBroker, server: RunningRegistry, topic: str, tmp_path: Path
) -> None:
    assert run("produce", topic, '{"id": 1}', "--schema", "order.avsc").code == 0
    env = {"HEADRACE_CONFIG": str(tmp_path / "config.yaml")}
    assert headrace("context", "add", "here", running.bootstrap, "--registry", server.url, env=env).code == 0
    assert headrace("consume", topic, "-b", "here", env=env).out == '{"id":1}\n'
    assert "order" in headrace("schemas", "show", f"{topic}-value", env=env).out.lower()
    raw = headrace("consume", topic, "-b", "here", "--registry", "none", env=env)
    assert raw.code == 0 and "id" not in raw.out and raw.err == ""


def test_consume_names_the_way_to_decode_records(headrace: Run, run: Run, topic: str, tmp_path: Path) -> None:
    """Either a registry of this machine answers on its usual port, or the command says which option decodes."""
    assert run("produce", topic, '{"id": 1}', "--schema", "order.avsc").code == 0
    ran = headrace("consume", topic, env={"HEADRACE_CONFIG": str(tmp_path / "none.yaml")})
    assert ran.code == 0 and f"{topic}: " in ran.err and "--registry" in ran.err


def test_registry_on_this_machine_decodes_for_brokers_on_this_machine(run: Run, server: RunningRegistry) -> None:
    assert local_decoding("127.0.0.1:9092,localhost:9093", None, server.url) is not None
    assert local_decoding("127.0.0.1:9092", None, "http://127.0.0.1:1") is None
    assert local_decoding("127.0.0.1:9092,kafka.example:9092", None, server.url) is None


@pytest.mark.parametrize(
    ("value", "names"),
    [(b"\x00\x00\x00\x00\x01\x02", True), ((5).to_bytes(8, "big"), False), (b"text", False), (None, False)],
)
def test_prefix_of_a_schema_is_told_from_a_number(value: bytes | None, names: bool) -> None:
    seen = Seen("orders", 0, 0, 0, None, value, ())
    assert names_schema(seen) is names
