"""Faults by request, as librdkafka and aiokafka see them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CorruptRecordException, KafkaError, NotLeaderForPartitionError, RequestTimedOutError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing.faults import FaultError
from headrace.testing.in_process import RunningBroker, broker
from tests.support.clock import Stopwatch


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as one:
        yield one


@pytest.fixture
def headrace(running: RunningBroker) -> Iterator[RunningBroker]:
    yield running
    running.heal()


@pytest.fixture
def topic(headrace: RunningBroker, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", "-").replace("]", "")
    headrace.create_topic(name, 2)
    return name


def send(headrace: RunningBroker, topic: str, value: str = "tea", **settings: Any) -> Any:
    """Sends one record with librdkafka. Returns its error, or its message."""
    told: list[Any] = []
    more = {name.replace("_", "."): setting for name, setting in settings.items()}
    producer = Producer({"bootstrap.servers": headrace.bootstrap, "linger.ms": 0, "log_level": 0, **more})
    producer.produce(topic, value, partition=0, on_delivery=lambda error, message: told.append(error or message))
    assert producer.flush(30) == 0
    return told[0]


def values(headrace: RunningBroker, topic: str, **settings: Any) -> list[bytes]:
    """Everything in partition 0, read with librdkafka."""
    more = {name.replace("_", "."): setting for name, setting in settings.items()}
    consumer = Consumer(
        {"bootstrap.servers": headrace.bootstrap, "group.id": "g", "enable.partition.eof": True, "log_level": 0, **more}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is None:
                found.append(message.value())
            elif message.error().name() == "_PARTITION_EOF":
                return found
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def aio_send(headrace: RunningBroker, topic: str, **settings: Any) -> Any:
    async def run() -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=headrace.bootstrap, **settings)
        await producer.start()
        try:
            return await producer.send_and_wait(topic, b"tea", partition=0)
        finally:
            await producer.stop()

    return asyncio.run(run())


def aio_read(headrace: RunningBroker, topic: str, **settings: Any) -> bytes:
    async def run() -> bytes:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=headrace.bootstrap, auto_offset_reset="earliest", **settings
        )
        await consumer.start()
        try:
            return bytes((await asyncio.wait_for(consumer.getone(), 30)).value)
        finally:
            await consumer.stop()

    return asyncio.run(run())


# --- librdkafka ---


def test_librdkafka_retries_a_retriable_error_and_succeeds(headrace: RunningBroker, topic: str) -> None:
    fault = headrace.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert send(headrace, topic).offset() == 0
    assert fault.hits == 2
    assert values(headrace, topic) == [b"tea"]


def test_librdkafka_reports_a_fatal_error_to_the_sender(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED")
    assert send(headrace, topic).name() == "TOPIC_AUTHORIZATION_FAILED"
    assert values(headrace, topic) == []


def test_a_dropped_answer_doubles_the_record_without_idempotence(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", drop_answer=True)
    assert send(headrace, topic).offset() == 1
    assert values(headrace, topic) == [b"tea", b"tea"]


def test_a_dropped_answer_is_harmless_with_idempotence(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", drop_answer=True)
    assert send(headrace, topic, enable_idempotence=True).offset() == 0
    assert values(headrace, topic) == [b"tea"]


def test_a_closed_connection_loses_nothing(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", close=True, times=2)
    assert send(headrace, topic).offset() == 0
    assert values(headrace, topic) == [b"tea"]


def test_a_silent_broker_times_the_request_out(headrace: RunningBroker, topic: str) -> None:
    fault = headrace.fail("Produce", silent=True, times=None)
    error = send(headrace, topic, request_timeout_ms=200, message_timeout_ms=500)
    assert error.name() in ("_MSG_TIMED_OUT", "REQUEST_TIMED_OUT")
    assert fault.hits >= 1
    headrace.heal()
    assert len(values(headrace, topic)) >= 1, "applied, although the client never learnt it"


def test_a_delay_holds_the_answer_back(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", delay=0.3)
    watch = Stopwatch()
    assert send(headrace, topic).offset() == 0
    watch.at_least(0.3)


def test_a_throttle_time_reaches_the_client(headrace: RunningBroker, topic: str) -> None:
    throttled: list[int] = []
    headrace.fail("Produce", throttle=0.2)
    producer = Producer(
        {
            "bootstrap.servers": headrace.bootstrap,
            "throttle_cb": lambda event: throttled.append(round(event.throttle_time * 1000)),
        }
    )
    producer.produce(topic, "tea")
    producer.flush(10)
    for _ in range(50):
        if throttled:
            break
        producer.poll(0.1)
    assert throttled == [200]


def test_corrupt_records_are_noticed_by_the_checksum(headrace: RunningBroker, topic: str) -> None:
    send(headrace, topic)
    headrace.fail("Fetch", corrupt=True)
    with pytest.raises(KafkaException, match="_BAD_MSG"):
        values(headrace, topic, check_crcs=True)


def test_a_fetch_error_is_retried(headrace: RunningBroker, topic: str) -> None:
    send(headrace, topic)
    fault = headrace.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert values(headrace, topic) == [b"tea"]
    assert fault.hits == 2


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("ListOffsets", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("ListOffsets", "LEADER_NOT_AVAILABLE"),
        ("Fetch", "LEADER_NOT_AVAILABLE"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("FindCoordinator", "NOT_COORDINATOR"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "NOT_COORDINATOR"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_other_apis_fail_by_request_too(headrace: RunningBroker, topic: str, api: str, error: str) -> None:
    send(headrace, topic)
    fault = headrace.fail(api, error=error)
    consumer = Consumer(
        {
            "bootstrap.servers": headrace.bootstrap,
            "group.id": f"g-{api}-{error}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        while message is not None and message.error() is not None:
            message = consumer.poll(30)
        assert message is not None and message.value() == b"tea"
    finally:
        consumer.close()
    assert fault.hits == 1


def test_a_failed_commit_is_reported(headrace: RunningBroker, topic: str) -> None:
    send(headrace, topic)
    headrace.fail("OffsetCommit", error="UNKNOWN_MEMBER_ID", times=None)
    consumer = Consumer({"bootstrap.servers": headrace.bootstrap, "group.id": "committer"})
    try:
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    finally:
        consumer.close()


def test_creating_a_topic_can_fail(headrace: RunningBroker) -> None:
    from confluent_kafka.admin import NewTopic

    headrace.fail("CreateTopics", error="POLICY_VIOLATION")
    admin = AdminClient({"bootstrap.servers": headrace.bootstrap})
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        admin.create_topics([NewTopic("refused", 1)])["refused"].result(10)


@pytest.mark.parametrize(
    ("limit", "hit"),
    [({"client_id": "other"}, 0), ({"client_id": "shop"}, 1), ({"topic": "other"}, 0), ({"partition": 1}, 0)],
)
def test_a_fault_is_limited_to_a_client_topic_or_partition(
    headrace: RunningBroker, topic: str, limit: dict[str, Any], hit: int
) -> None:
    fault = headrace.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", **limit)
    assert send(headrace, topic, client_id="shop").offset() == 0
    assert fault.hits == hit


def test_a_fault_of_this_topic_and_partition_hits(headrace: RunningBroker, topic: str) -> None:
    fault = headrace.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", topic=topic, partition=0)
    send(headrace, topic)
    assert fault.hits == 1


def test_a_seed_repeats_random_faults(headrace: RunningBroker) -> None:
    from confluent_kafka.admin import NewTopic

    admin = AdminClient({"bootstrap.servers": headrace.bootstrap})

    def outcomes(seed: int) -> list[bool]:
        headrace.heal()
        headrace.fail("CreateTopics", error="POLICY_VIOLATION", times=None, probability=0.5, seed=seed)
        # One after the other: the order of requests that are sent at once is not fixed, and the seed counts them.
        return [
            admin.create_topics([NewTopic("dice", 1)], validate_only=True)["dice"].exception(10) is None
            for _ in range(12)
        ]

    first = outcomes(7)
    assert outcomes(7) == first
    assert True in first and False in first


# --- aiokafka ---


def test_aiokafka_retries_a_retriable_error(headrace: RunningBroker, topic: str) -> None:
    fault = headrace.fail("Produce", error="NOT_LEADER_OR_FOLLOWER")
    assert aio_send(headrace, topic).offset == 0
    assert fault.hits == 1


def test_aiokafka_raises_a_fatal_error(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", error="MESSAGE_TOO_LARGE")
    with pytest.raises(KafkaError, match="MessageSizeTooLarge"):
        aio_send(headrace, topic)


def test_aiokafka_doubles_without_idempotence_after_a_dropped_answer(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", drop_answer=True)
    aio_send(headrace, topic)
    assert values(headrace, topic) == [b"tea", b"tea"]


def test_aiokafka_notices_corrupt_records(headrace: RunningBroker, topic: str) -> None:
    send(headrace, topic)
    headrace.fail("Fetch", corrupt=True, times=None)
    with pytest.raises(CorruptRecordException):
        aio_read(headrace, topic)


def test_aiokafka_reads_after_a_closed_connection(headrace: RunningBroker, topic: str) -> None:
    send(headrace, topic)
    headrace.fail("Fetch", close=True)
    assert aio_read(headrace, topic) == b"tea"


def test_aiokafka_times_out_on_a_silent_broker(headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", silent=True, times=None)
    with pytest.raises((RequestTimedOutError, NotLeaderForPartitionError, KafkaError)):
        aio_send(headrace, topic, request_timeout_ms=300)


# --- wrong calls ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"api": "Prodcue", "close": True}, "'Prodcue' is no API"),
        ({"api": "Produce", "error": "OOPS"}, "'OOPS' is no error"),
        ({"api": "Produce"}, "a fault needs one of"),
        ({"api": "Produce", "close": True, "silent": True}, "close and silent cannot be combined"),
        ({"api": "Produce", "close": True, "times": 0}, "times=0"),
        ({"api": "Produce", "close": True, "probability": 2}, "probability=2"),
        ({"api": "Produce", "delay": -1}, "cannot be negative"),
        ({"api": "DescribeTransactions", "error": "UNKNOWN_SERVER_ERROR"}, "has no error code"),
    ],
)
def test_a_wrong_fault_is_refused(headrace: RunningBroker, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError, match=message):
        headrace.fail(**arguments)
