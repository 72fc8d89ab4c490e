"""Topics with schema validation: the leader takes records with a schema id of the subject and rejects all others."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.ids import TopicPartition
from headrace.net.free_ports import free_port
from headrace.records.builder import Record, build_batch
from headrace.testing.in_process import RunningBroker, broker
from headrace.wire.apis import ApiKey
from tests.support.registry import RunningRegistry, registry

STRATEGY = "io.confluent.kafka.serializers.subject"


@pytest.fixture(scope="module")
def registry_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def running(registry_port: int) -> Iterator[RunningBroker]:
    with broker({"confluent.schema.registry.url": f"http://127.0.0.1:{registry_port}"}) as started:
        yield started


@pytest.fixture(scope="module")
def server(running: RunningBroker, registry_port: int) -> Iterator[RunningRegistry]:
    with registry(running.bootstrap, port=registry_port) as started:
        yield started


def created(running: RunningBroker, **config: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(20)
    return name


def registered(server: RunningRegistry, subject: str, size: int) -> dict[str, Any]:
    schema = json.dumps({"type": "fixed", "name": "shop.F", "size": size})
    status, answer = server.ask("POST", f"/subjects/{subject}/versions", {"schema": schema})
    assert status == 200, answer
    assert isinstance(answer, dict)
    return answer


def framed(id_: int) -> bytes:
    return b"\x00" + id_.to_bytes(4, "big") + b"payload"


def sent(running: RunningBroker, topic: str, *records: dict[str, Any], **settings: Any) -> list[int | None]:
    """The error code of each record; all are in one batch."""
    answers: list[int | None] = []
    producer = Producer(
        {"bootstrap.servers": running.bootstrap, "linger.ms": 200, "message.timeout.ms": 20_000} | settings
    )
    for each in records:
        producer.produce(topic, on_delivery=lambda error, _: answers.append(error and error.code()), **each)
    assert producer.flush(30) == 0
    return answers


async def produced(bootstrap: str, topic: str, values: list[bytes]) -> Any:
    """The answer of the broker. librdkafka does not show the errors of single records."""
    batch = build_batch([Record(None, value, timestamp_ms=1) for value in values])
    async with ClusterClient(bootstrap, client_id="test", timeout=20) as client:
        leader = (await client.leaders([topic]))[TopicPartition(topic, 0)]
        data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
        body = {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": data}
        answer = await client.request(ApiKey.PRODUCE, body, node=leader, at_most=8)
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("names", ["confluent_value_schema_validation", "value_schema_validation"])
def test_only_ids_of_the_subject_are_taken(running: RunningBroker, server: RunningRegistry, names: str) -> None:
    topic = created(running, **{names: "true"})
    known, other = registered(server, f"{topic}-value", 3)["id"], registered(server, "elsewhere", 4)["id"]
    good = {"value": framed(known), "key": b"any bytes"}
    assert sent(running, topic, good, good) == [None, None]
    assert sent(running, topic, {"key": b"k", "value": None}) == [None]
    for bad, why in (
        (b"plain text", "names no schema"),
        (b"\x00\x00", "names no schema"),
        (framed(999_999), "schema id 999999"),
        (framed(other), f"not registered in subject {topic}-value"),
    ):
        # The producer sends records in order, so the second record of the batch is the wrong one.
        errors = sent(running, topic, good, {"value": bad}, good)
        assert errors.count(KafkaError.INVALID_RECORD) >= 1, why
        assert None not in errors


def test_the_answer_names_the_record(running: RunningBroker, server: RunningRegistry) -> None:
    topic = created(running, value_schema_validation="true")
    known = registered(server, f"{topic}-value", 5)["id"]
    answer = asyncio.run(produced(running.bootstrap, topic, [framed(known), b"x", framed(known)]))
    assert answer.error_code == KafkaError.INVALID_RECORD
    assert "record 1: the value names no schema" in answer.error_message
    assert [each.batch_index for each in answer.record_errors] == [1]


def test_guids_in_headers_name_a_schema(running: RunningBroker, server: RunningRegistry) -> None:
    topic = created(running, confluent_value_schema_validation="true")
    made = registered(server, f"{topic}-value", 6)
    header = b"\x01" + uuid.UUID(made["guid"]).bytes
    assert sent(running, topic, {"value": b"payload", "headers": {"__value_schema_id": header}}) == [None]
    unknown = b"\x01" + uuid.uuid4().bytes
    errors = sent(running, topic, {"value": b"payload", "headers": {"__value_schema_id": unknown}})
    assert errors == [KafkaError.INVALID_RECORD]


def test_keys_are_checked_by_their_own_setting(running: RunningBroker, server: RunningRegistry) -> None:
    topic = created(running, confluent_key_schema_validation="true")
    known = registered(server, f"{topic}-key", 7)["id"]
    assert sent(running, topic, {"key": framed(known), "value": b"any"}) == [None]
    assert sent(running, topic, {"key": b"any", "value": b"any"})[0] is not None


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (f"{STRATEGY}.RecordNameStrategy", "shop.F"),
        ("record", "shop.F"),
        (f"{STRATEGY}.TopicRecordNameStrategy", "{topic}-shop.F"),
        ("topic-record", "{topic}-shop.F"),
    ],
)
def test_subject_name_strategies(running: RunningBroker, server: RunningRegistry, strategy: str, subject: str) -> None:
    topic = created(running, value_schema_validation="true", value_subject_name_strategy=strategy)
    server.ask("PUT", "/config/shop.F", {"compatibility": "NONE"})
    good = registered(server, subject.format(topic=topic), 8)["id"]
    other = registered(server, f"{topic}-value", 9)["id"]
    assert sent(running, topic, {"value": framed(good)}) == [None]
    assert sent(running, topic, {"value": framed(other)})[0] is not None


def test_validation_is_switched_on_and_off_while_the_topic_is_in_use(
    running: RunningBroker, server: RunningRegistry
) -> None:
    topic = created(running)
    assert sent(running, topic, {"value": b"any"}) == [None]
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for value, accepted in (("true", False), ("false", True)):
        entry = ConfigEntry("confluent.value.schema.validation", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(20)
        assert (sent(running, topic, {"value": b"any"}) == [None]) is accepted


def test_idempotent_and_transactional_producers(running: RunningBroker, server: RunningRegistry) -> None:
    topic = created(running, value_schema_validation="true")
    known = registered(server, f"{topic}-value", 10)["id"]
    assert sent(running, topic, {"value": framed(known)}, **{"enable.idempotence": True}) == [None]
    producer = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, framed(registered(server, f"{topic}-value", 10)["id"]))
    producer.commit_transaction(20)


def test_an_unreachable_registry_is_a_retriable_error(running: RunningBroker) -> None:
    with broker({"schema.registry.url": f"http://127.0.0.1:{free_port()}"}) as lonely:
        topic = created(lonely, value_schema_validation="true")
        errors = sent(lonely, topic, {"value": framed(1)}, **{"message.timeout.ms": 1000})
        assert errors[0] not in (None, KafkaError.INVALID_RECORD)


def test_a_broker_without_a_registry_rejects_validated_topics() -> None:
    with broker() as lonely:
        topic = created(lonely, value_schema_validation="true")
        errors = sent(lonely, topic, {"value": framed(1)})
        assert errors == [KafkaError.INVALID_CONFIG]
