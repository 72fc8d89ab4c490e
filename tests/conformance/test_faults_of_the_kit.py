"""Every fault of the test kit, as librdkafka, aiokafka and Kafka's Java client see it.

What a client documents for an error is the expectation: retriable errors are retried, others reach the caller, an
unknown outcome doubles a record only without idempotence.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.testing.in_process import RunningBroker, broker
from headrace.testing.in_process_cluster import InProcessCluster, cluster
from tests.support.clock import Stopwatch, wait_for
from tests.support.fault_clients import FaultClient, Refused, fault_client
from tests.support.names import unique

CLIENTS = [
    "librdkafka",
    "aiokafka",
    pytest.param("java", marks=[pytest.mark.needs("kafka"), pytest.mark.needs("javac")]),
]


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Iterator[FaultClient]:
    with fault_client(request.param) as one:
        yield one


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as one:
        yield one


@pytest.fixture
def headrace(running: RunningBroker) -> Iterator[RunningBroker]:
    yield running
    running.heal()


@pytest.fixture
def topic(headrace: RunningBroker) -> str:
    name = unique("faults")
    headrace.create_topic(name)
    return name


def error_of(client: FaultClient, headrace: RunningBroker, topic: str) -> str:
    """The client's name of the error with which it gives a record up after half a second."""
    with pytest.raises(Refused) as refused:
        client.send(headrace.bootstrap, topic, "tea", give_up_ms=500)
    return str(refused.value)


def stored(headrace: RunningBroker, topic: str) -> int:
    log = headrace.broker.log_dirs.log(topic, 0)
    assert log is not None
    return log.log_end_offset


# Requests


def test_a_retriable_error_is_retried(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    fault = headrace.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert client.send(headrace.bootstrap, topic, "tea") == [0]
    assert fault.hits == 2 and stored(headrace, topic) == 1


def test_another_error_reaches_the_caller(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    fault = headrace.fail("Produce", error="INVALID_REQUIRED_ACKS", times=None)
    expected = {
        "librdkafka": "INVALID_REQUIRED_ACKS",
        "aiokafka": "InvalidRequiredAcksError",
        "java": "InvalidRequiredAcksException",
    }
    with pytest.raises(Refused, match=expected[client.name]):
        client.send(headrace.bootstrap, topic, "tea")
    assert fault.hits == 1 and stored(headrace, topic) == 0


def test_a_dropped_answer_doubles_the_record(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", drop_answer=True)
    assert client.send(headrace.bootstrap, topic, "tea") == [1]
    assert client.read(headrace.bootstrap, topic, 2) == ["tea", "tea"]


def test_a_dropped_answer_is_harmless_with_idempotence(
    client: FaultClient, headrace: RunningBroker, topic: str
) -> None:
    headrace.fail("Produce", drop_answer=True)
    client.send(headrace.bootstrap, topic, "tea", idempotent=True)
    assert stored(headrace, topic) == 1


def test_a_closed_connection_loses_nothing(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", close=True, times=2)
    assert client.send(headrace.bootstrap, topic, "tea") == [0]
    headrace.fail("Fetch", close=True)
    assert client.read(headrace.bootstrap, topic, 1) == ["tea"]


def test_a_silent_broker_times_the_request_out(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", silent=True, times=None)
    expected = {
        "librdkafka": ("_MSG_TIMED_OUT",),
        "aiokafka": ("KafkaTimeoutError", "RequestTimedOutError"),
        "java": ("TimeoutException",),
    }
    assert error_of(client, headrace, topic) in expected[client.name]
    assert stored(headrace, topic) >= 1, "applied, although the client never learnt it"


def test_a_delay_holds_the_answer_back(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    headrace.fail("Produce", delay=0.3)
    watch = Stopwatch()
    assert client.send(headrace.bootstrap, topic, "tea") == [0]
    watch.at_least(0.3)


def test_a_throttled_client_waits_before_its_next_request(
    client: FaultClient, headrace: RunningBroker, topic: str
) -> None:
    fault = headrace.fail("Produce", throttle=0.4)
    watch = Stopwatch()
    assert client.send(headrace.bootstrap, topic, "tea", "coffee") == [0, 1]
    watch.at_least(0.4)
    assert fault.hits == 1


def test_corrupt_records_are_noticed_by_the_checksum(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    client.send(headrace.bootstrap, topic, "tea")
    headrace.fail("Fetch", corrupt=True, times=None)
    expected = {"librdkafka": "_BAD_MSG", "aiokafka": "CorruptRecordException", "java": "KafkaException"}
    with pytest.raises(Refused, match=expected[client.name]):
        client.read(headrace.bootstrap, topic, 1)


def test_a_fetch_error_is_retried(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    client.send(headrace.bootstrap, topic, "tea")
    fault = headrace.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert client.read(headrace.bootstrap, topic, 1) == ["tea"]
    assert fault.hits == 2


def test_a_failed_commit_reaches_the_caller(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    headrace.fail("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED", times=None)
    expected = {
        "librdkafka": "GROUP_AUTHORIZATION_FAILED",
        "aiokafka": "GroupAuthorizationFailedError",
        "java": "GroupAuthorizationException",
    }
    with pytest.raises(Refused, match=expected[client.name]):
        client.commit(headrace.bootstrap, topic, unique("group"))


# Disks


def test_a_full_disk_refuses_writes_and_not_reads(client: FaultClient, headrace: RunningBroker, topic: str) -> None:
    client.send(headrace.bootstrap, topic, "tea")
    headrace.disk_full()
    expected = {"librdkafka": "_MSG_TIMED_OUT", "aiokafka": "KafkaStorageError", "java": "TimeoutException"}
    assert error_of(client, headrace, topic) == expected[client.name]
    assert any("KAFKA_STORAGE_ERROR" in seen.errors() for seen in headrace.requests(200))
    assert client.read(headrace.bootstrap, topic, 1) == ["tea"]
    assert stored(headrace, topic) == 1


def test_a_waiting_record_is_written_when_there_is_room(
    client: FaultClient, headrace: RunningBroker, topic: str
) -> None:
    headrace.disk_full()
    with ThreadPoolExecutor() as pool:
        sent = pool.submit(client.send, headrace.bootstrap, topic, "tea")
        wait_for(
            lambda: any("KAFKA_STORAGE_ERROR" in seen.errors() for seen in headrace.requests(5)), "a refused write"
        )
        headrace.make_room()
        assert sent.result() == [0]


# Clusters


@pytest.fixture(scope="module")
def brokers() -> Iterator[InProcessCluster]:
    with cluster(3) as one:
        yield one


@pytest.fixture
def replicated(brokers: InProcessCluster) -> Iterator[str]:
    name = unique("replicated")
    next(iter(brokers.brokers.values())).create_topic(name, replicas=3)
    yield name
    brokers.heal()
    for broker_id in {1, 2, 3} - set(brokers.brokers):
        brokers.start(broker_id)


def test_a_full_disk_moves_the_leader(client: FaultClient, brokers: InProcessCluster, replicated: str) -> None:
    leader = brokers.leader(replicated)
    brokers.disk_full(leader)
    assert client.send(brokers.bootstrap, replicated, "tea") == [0]
    assert brokers.leader(replicated) != leader
    brokers.make_room(leader)
    assert client.read(brokers.bootstrap, replicated, 1) == ["tea"]


def log_end(brokers: InProcessCluster, broker_id: int, topic: str) -> int | None:
    """None while the broker has not heard of the topic: another one may know its leader first."""
    log = brokers.running(broker_id).broker.log_dirs.log(topic, 0)
    return None if log is None else log.log_end_offset


def test_a_cut_link_delays_a_record_until_the_follower_has_left_the_isr(
    client: FaultClient, brokers: InProcessCluster, replicated: str
) -> None:
    leader = brokers.leader(replicated)
    follower = next(one for one in (1, 2, 3) if one != leader)
    brokers.cut(leader, follower)
    with ThreadPoolExecutor() as pool:
        sent = pool.submit(client.send, brokers.bootstrap, replicated, "tea")
        wait_for(lambda: log_end(brokers, leader, replicated) == 1, "the leader to append")
        brokers.clock.advance(seconds=4)  # replica.lag.time.max.ms
        assert 0 in sent.result()
    assert client.read(brokers.bootstrap, replicated, 1) == ["tea"]


def test_a_killed_leader_is_replaced(client: FaultClient, brokers: InProcessCluster, replicated: str) -> None:
    assert client.send(brokers.bootstrap, replicated, "tea") == [0]
    brokers.kill(brokers.leader(replicated))
    assert client.send(brokers.bootstrap, replicated, "coffee") == [1]
    assert client.read(brokers.bootstrap, replicated, 2) == ["tea", "coffee"]
