"""Assertions for tests of users: what they accept, and how they explain a failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing.assertions import assert_records, eventually, topic_text
from headrace.testing.in_process import RunningBroker, broker


@pytest.fixture(scope="module")
def headrace() -> Iterator[RunningBroker]:
    with broker() as running:
        running.create_topic("orders", 2)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce("orders", "tea", key="ann", partition=0)
        producer.produce("orders", '{"b": 1, "a": 2}', partition=1)
        producer.produce("orders", None, key="ann", partition=1)
        producer.flush(10)
        yield running


def test_records_that_are_there_are_accepted(headrace: RunningBroker) -> None:
    assert_records(headrace, "orders", ["tea", '{"b": 1, "a": 2}', None])
    assert_records(headrace, "orders", [None, {"a": 2, "b": 1}, "tea"], in_order=False)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (["tea"], "has 3 records after 0 s, and 1 were expected\n  not expected: "),
        (["tea", '{"b": 1, "a": 2}', None, "milk"], "\n  missing: milk"),
        ([None, '{"b": 1, "a": 2}', "tea"], "\n  in another order: tea"),
    ],
)
def test_a_difference_is_explained(headrace: RunningBroker, expected: list[object], message: str) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_records(headrace, "orders", expected, within=0)
    assert message in str(failure.value)


def test_the_text_none_is_no_tombstone(headrace: RunningBroker) -> None:
    headrace.create_topic("texts")
    producer = Producer({"bootstrap.servers": headrace.bootstrap})
    producer.produce("texts", str(None))
    producer.flush(10)
    with pytest.raises(AssertionError, match=r"missing: a record without a value\n  not expected: None"):
        assert_records(headrace, "texts", [None], within=0)


def test_records_after_deleted_ones_are_seen(headrace: RunningBroker) -> None:
    headrace.create_topic("shortened")
    producer = Producer({"bootstrap.servers": headrace.bootstrap, "partitioner": "consistent"})
    for value in ("old", "kept"):
        producer.produce("shortened", value)
    producer.flush(10)
    admin = AdminClient({"bootstrap.servers": headrace.bootstrap})
    for deleted in admin.delete_records([TopicPartition("shortened", 0, 1)]).values():
        assert deleted.result(10).low_watermark == 1
    assert_records(headrace, "shortened", ["kept"])
    with pytest.raises(AssertionError, match="has 1 records"):
        assert_records(headrace, "shortened", [], within=0)


def test_a_missing_topic_is_named() -> None:
    with (
        broker({"auto.create.topics.enable": "false"}) as running,
        pytest.raises(AssertionError, match="topic 'missing' cannot be read"),
    ):
        assert_records(running, "missing", [])


def test_a_topic_as_text(headrace: RunningBroker) -> None:
    assert topic_text(headrace, "orders") == '0 "ann" "tea"\n1 - "{\\"b\\": 1, \\"a\\": 2}"\n1 "ann" -\n'


def test_eventually_waits_and_explains() -> None:
    values = iter([0, 0, 7])
    assert eventually(lambda: next(values)) == 7
    with pytest.raises(AssertionError, match=r"the lag did not hold within 0 s: its last value was \[\]"):
        eventually(list, within=0, message="the lag")

    def failing() -> bool:
        raise AssertionError("three is no four")

    with pytest.raises(AssertionError, match="three is no four"):
        eventually(failing, within=0)
