"""Faults by request: what they match, and wrong calls.

`tests/conformance/test_faults_of_the_kit.py` has each fault through three clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.testing.faults import FaultError
from headrace.testing.in_process import RunningBroker, broker


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
            # After a failed Metadata request the client asks again at its next refresh. The default is five minutes.
            "topic.metadata.refresh.interval.ms": 1000,
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


# Wrong calls


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
