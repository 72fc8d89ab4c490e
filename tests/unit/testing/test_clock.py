"""Every timer of a broker that a test can turn, each with a real client attached (the table in docs/testing.md)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.coordinators.txn.core.queries import ListFilter
from headrace.testing.clock import ClockError
from headrace.testing.in_process import RunningBroker, broker
from headrace.testing.in_process_cluster import cluster
from headrace.testing.secured import make_certificates, secured_broker
from tests.support.clock import wait_for

SETTINGS = {"log.initial.task.delay.ms": "300000", "log.retention.check.interval.ms": "300000"}


@pytest.fixture
def headrace() -> Iterator[RunningBroker]:
    with broker(SETTINGS) as running:
        yield running


_admins: dict[str, AdminClient] = {}


def admin_of(headrace: RunningBroker) -> AdminClient:
    """One for each broker. The futures of a client that was garbage collected never end."""
    if headrace.bootstrap not in _admins:
        _admins[headrace.bootstrap] = AdminClient({"bootstrap.servers": headrace.bootstrap, "log_level": 0})
    return _admins[headrace.bootstrap]


def produce(headrace: RunningBroker, topic: str, *values: str | None, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": headrace.bootstrap, "linger.ms": 0, "log_level": 0, **settings})
    for value in values:
        producer.produce(topic, value, key="k", partition=0, timestamp=headrace.clock.now_ms)
        assert producer.flush(20) == 0


def offsets(headrace: RunningBroker, topic: str) -> tuple[int, int]:
    """(log start offset, end offset) of partition 0, as a client sees them."""
    admin, partition = admin_of(headrace), TopicPartition(topic, 0)
    try:
        first, end = (
            next(iter(admin.list_offsets({partition: spec}).values())).result(20).offset
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
    except KafkaException:  # its idle connection was closed while it asked
        return -1, -1
    return first, end


def read(headrace: RunningBroker, topic: str, **settings: Any) -> list[bytes | None]:
    more = {"group.id": "reader", "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": headrace.bootstrap, **more, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    try:
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(message.value())
        return found
    finally:
        consumer.close()


def member(headrace: RunningBroker, topic: str, **settings: Any) -> Consumer:
    """A consumer that is in its group and holds the partition."""
    more = {"group.id": "kitchen", "auto.offset.reset": "earliest", "log_level": 0, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": headrace.bootstrap, **more, **settings})
    consumer.subscribe([topic])
    wait_for(lambda: consumer.poll(0.1) is not None or consumer.assignment(), "an assignment")
    return consumer


def group(headrace: RunningBroker) -> Any:
    return admin_of(headrace).describe_consumer_groups(["kitchen"])["kitchen"].result(20)


# Storage


def test_retention_by_time(headrace: RunningBroker) -> None:
    headrace.create_topic("orders", settings={"retention.ms": str(7 * 86_400_000)})
    produce(headrace, "orders", "tea")
    headrace.clock.advance(days=6)
    assert wait_for(lambda: offsets(headrace, "orders") == (0, 1), "an answer")
    headrace.clock.advance(days=2)
    wait_for(lambda: offsets(headrace, "orders") == (1, 1), "retention to delete the record")
    assert read(headrace, "orders") == []


def test_compaction_waits_for_the_lag_and_for_the_roll_of_the_segment(headrace: RunningBroker) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "3600000"}
    headrace.create_topic("users", settings={**settings, "min.compaction.lag.ms": "86400000"})
    produce(headrace, "users", "first", "second")
    headrace.clock.advance(hours=2)
    produce(headrace, "users", "third")  # the segment is older than segment.ms: a new one begins
    assert read(headrace, "users") == [b"first", b"second", b"third"]
    headrace.clock.advance(days=2)
    wait_for(lambda: read(headrace, "users") == [b"second", b"third"], "compaction")


def test_a_tombstone_leaves_after_its_retention(headrace: RunningBroker) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "3600000"}
    headrace.create_topic("users", settings={**settings, "delete.retention.ms": str(86_400_000)})
    produce(headrace, "users", "first", None)
    headrace.clock.advance(hours=2)
    produce(headrace, "users", "x")
    wait_for(lambda: headrace.clock.advance(minutes=1) or b"first" not in read(headrace, "users"), "compaction")
    headrace.clock.advance(days=2)
    produce(headrace, "users", "y")
    wait_for(lambda: headrace.clock.advance(hours=2) or None not in read(headrace, "users"), "the tombstone to leave")


def test_files_of_a_deleted_topic_leave_after_the_delay(headrace: RunningBroker) -> None:
    headrace.create_topic("orders", settings={"file.delete.delay.ms": "60000"})
    produce(headrace, "orders", "tea")
    admin_of(headrace).delete_topics(["orders"])["orders"].result(20)

    def waiting() -> list[Path]:
        return list(headrace.data_dir.glob("orders-0.*-delete"))

    wait_for(waiting, "the directory to be renamed")
    headrace.clock.advance(minutes=2)
    wait_for(lambda: not waiting(), "the files to be deleted")


def test_append_time_is_the_turned_time(headrace: RunningBroker) -> None:
    headrace.create_topic("orders", settings={"message.timestamp.type": "LogAppendTime"})
    headrace.clock.advance_to(datetime.datetime(2031, 5, 6, tzinfo=datetime.UTC))
    produce(headrace, "orders", "tea")
    consumer = Consumer({"bootstrap.servers": headrace.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    moment = datetime.datetime.fromtimestamp(message.timestamp()[1] / 1000, datetime.UTC)
    assert (moment.year, moment.month, moment.day) == (2031, 5, 6)


# Groups


def test_the_session_of_a_classic_member_ends(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    consumer = member(headrace, "orders", **{"session.timeout.ms": 45_000, "heartbeat.interval.ms": 40_000})
    try:
        assert len(group(headrace).members) == 1
        headrace.clock.advance(seconds=46)
        assert wait_for(lambda: group(headrace).state is ConsumerGroupState.EMPTY, "the member to be removed")
    finally:
        consumer.close()


def test_the_session_of_a_member_of_the_new_protocol_ends(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    consumer = member(headrace, "orders", **{"group.protocol": "consumer"})
    try:
        assert len(group(headrace).members) == 1
        # The client's next heartbeat comes within five seconds and joins again, so the request log shows the end.
        headrace.clock.advance(seconds=46)
        wait_for(
            lambda: any(
                "UNKNOWN_MEMBER_ID" in str(seen) or "FENCED_MEMBER_EPOCH" in str(seen)
                for seen in headrace.requests(200)
            ),
            "a heartbeat of the removed member",
        )
    finally:
        consumer.close()


def test_a_member_that_does_not_rejoin_is_removed_after_the_rebalance_timeout(headrace: RunningBroker) -> None:
    headrace.create_topic("orders", 2)
    slow = member(
        headrace, "orders", **{"max.poll.interval.ms": 300_000, "session.timeout.ms": 290_000, "client.id": "slow"}
    )
    more = {"group.id": "kitchen", "log_level": 0, "client.id": "quick"}
    quick = Consumer({"bootstrap.servers": headrace.bootstrap, **more})
    quick.subscribe(["orders"])
    try:
        # `slow` is not polled: it never answers the rebalance.
        wait_for(
            lambda: quick.poll(0.1) or group(headrace).state is ConsumerGroupState.PREPARING_REBALANCING, "a rebalance"
        )
        headrace.clock.advance(seconds=301)
        wait_for(lambda: quick.poll(0.1) or len(quick.assignment()) == 2, "the quick member to get both partitions")
    finally:
        quick.close()
        slow.close()


def test_the_first_rebalance_waits_for_its_delay() -> None:
    with broker({**SETTINGS, "group.initial.rebalance.delay.ms": "40000"}) as headrace:
        headrace.create_topic("orders")
        settings = {"group.id": "kitchen", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": headrace.bootstrap, **settings})
        consumer.subscribe(["orders"])
        try:
            wait_for(
                lambda: consumer.poll(0.1) or group(headrace).state is ConsumerGroupState.PREPARING_REBALANCING,
                "a join",
            )
            assert consumer.assignment() == []
            headrace.clock.advance(seconds=41)
            wait_for(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment")
        finally:
            consumer.close()


def test_committed_offsets_of_an_empty_group_expire(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    produce(headrace, "orders", "tea")
    consumer = Consumer({"bootstrap.servers": headrace.bootstrap, "group.id": "kitchen"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    committed = consumer.committed([TopicPartition("orders", 0)], 20)
    assert committed[0].offset == 1
    headrace.clock.advance(days=8)
    wait_for(lambda: consumer.committed([TopicPartition("orders", 0)], 20)[0].offset < 0, "the offset to expire")
    consumer.close()


def test_the_lock_of_a_record_of_a_share_group_ends(headrace: RunningBroker) -> None:
    """A member that keeps a record longer than group.share.record.lock.duration.ms loses it: it is delivered again."""
    headrace.create_topic("orders")
    settings = {"group.id": "workers", "share.acknowledgement.mode": "explicit", "log_level": 0}
    first, second = (ShareConsumer({"bootstrap.servers": headrace.bootstrap, **settings}) for _ in range(2))
    try:
        first.subscribe(["orders"])
        taken: list[Message] = []

        def deliver(consumer: ShareConsumer) -> bool:
            taken.extend(one for one in consumer.poll(0.2) or [] if one.error() is None)
            return bool(taken)

        # A new share group begins at the end of the topic, so the record is written until the member has one.
        wait_for(lambda: produce(headrace, "orders", "tea") or deliver(first), "a record for the first member")
        offset = taken[0].offset()
        taken.clear()
        second.subscribe(["orders"])
        wait_for(
            lambda: (
                headrace.clock.advance(seconds=31)
                or (
                    deliver(second)
                    and any(one.offset() == offset and (one.delivery_count() or 0) >= 2 for one in taken)
                )
            ),
            "the record to be delivered again",
        )
    finally:
        first.close()
        second.close()


# Transactions


def transactional(headrace: RunningBroker, id_: str = "till", **settings: Any) -> Producer:
    more = {"transactional.id": id_, "transaction.timeout.ms": 60_000, "log_level": 0}
    return Producer({"bootstrap.servers": headrace.bootstrap, **more, **settings})


def test_an_open_transaction_is_aborted_after_its_timeout(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    producer = transactional(headrace)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", "tea")
    producer.flush(20)
    committed = {"isolation.level": "read_committed"}
    headrace.clock.advance(seconds=61)
    produce(headrace, "orders", "after")
    wait_for(
        lambda: headrace.clock.advance(seconds=11) or read(headrace, "orders", **committed) == [b"after"],
        "the broker to abort the transaction",
    )
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)


def test_a_transactional_id_expires(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    producer = transactional(headrace)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", "tea")
    producer.commit_transaction(20)

    def known() -> bool:
        return "till" in headrace.run(_transactional_ids(headrace))

    assert known()
    headrace.clock.advance(days=8)
    wait_for(lambda: headrace.clock.advance(hours=2) or not known(), "the transactional id to expire")


async def _transactional_ids(headrace: RunningBroker) -> set[str]:
    found = await headrace.broker.parts.coordinators.transactions.transactions(ListFilter())
    return {one.transactional_id for one in found}


def test_the_state_of_an_idle_producer_expires(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    produce(headrace, "orders", "tea", **{"enable.idempotence": True})
    log = headrace.broker.log_dirs.log("orders", 0)
    assert log is not None
    assert headrace.call(lambda: len(log.producers.entries)) == 1
    headrace.clock.advance(days=2)
    wait_for(lambda: headrace.call(lambda: len(log.producers.entries)) == 0, "the producer to be forgotten")


# Connections, quotas, waiting


def test_an_idle_connection_is_closed(headrace: RunningBroker) -> None:
    settings = {"bootstrap.servers": headrace.bootstrap, "log_level": 0, "reconnect.backoff.ms": 100_000}
    producer = Producer({**settings, "reconnect.backoff.max.ms": 100_000})
    producer.produce("orders", "tea")
    assert producer.flush(20) == 0

    def connections() -> int:
        return headrace.call(lambda: len(headrace.broker.connections.connections))

    assert connections() >= 1
    # The broker looks for idle connections every few seconds.
    wait_for(lambda: headrace.clock.advance(minutes=11) or connections() == 0, "the idle connections to be closed")


def test_a_long_poll_ends_at_once(headrace: RunningBroker) -> None:
    headrace.create_topic("orders")
    settings = {"group.id": "g", "fetch.wait.max.ms": 200_000, "socket.timeout.ms": 300_000, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": headrace.bootstrap, **settings})
    consumer.assign([TopicPartition("orders", 0, 0)])
    try:
        wait_for(lambda: consumer.poll(0.1) or _waiting_fetches(headrace) == 1, "a fetch that waits")
        headrace.clock.advance(seconds=201)
        wait_for(
            lambda: (
                consumer.poll(0.1)
                or any("Fetch" in str(one) and one.outcome == "answered" for one in headrace.requests(200))
            ),
            "the answer to the fetch",
        )
    finally:
        consumer.close()


def _waiting_fetches(headrace: RunningBroker) -> int:
    return sum("Fetch" in str(one) and one.outcome == "not answered yet" for one in headrace.requests(200))


def test_a_quota_forgets_what_was_sent_before_its_window(headrace: RunningBroker) -> None:
    """The limit is a hundred bytes a second over eleven seconds: a second record must wait, unless time passes."""
    headrace.create_topic("orders")
    headrace.run(_limit_producers(headrace, 100.0))
    waits: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": headrace.bootstrap,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
            "log_level": 0,
        }
    )
    producer.produce("orders", b"x" * 5000)
    producer.flush(20)
    wait_for(lambda: producer.poll(0.1) or waits, "the first record to be throttled")
    headrace.clock.advance(minutes=10)
    waits.clear()
    producer.produce("orders", b"tea")
    assert producer.flush(20) == 0
    assert not any(waits), "the window is over, and the muted connection reads again"


async def _limit_producers(headrace: RunningBroker, bytes_per_second: float) -> None:
    change = ([("client-id", None)], [("producer_byte_rate", bytes_per_second, False)])
    await headrace.broker.parts.gateway.controller.alter_quotas([change])


# Security


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("authority") / "certificates"
    make_certificates(directory)
    return directory


def test_the_certificate_of_a_listener_runs_out(certificates: Path) -> None:
    with secured_broker(certificates, SETTINGS) as headrace:
        AdminClient(headrace.client()).list_topics(timeout=20)
        left = headrace.call(headrace.broker.certificates.seconds_left)
        assert all(seconds > 0 for _, seconds in left)
        headrace.clock.advance(days=36_500)
        left = headrace.call(headrace.broker.certificates.seconds_left)
        assert left and all(seconds < 0 for _, seconds in left)


# Clusters


def test_a_follower_that_lags_leaves_the_isr_in_broker_time() -> None:
    """A follower that has every record does not lag, however long ago it fetched (as in Kafka). So the leader gets a
    record that the follower cannot fetch before time passes."""
    with cluster(brokers=3, settings={"replica.lag.time.max.ms": "600000"}) as running:
        running.brokers[1].create_topic("orders", replicas=3)
        leader = running.leader("orders")
        other, third = sorted({1, 2, 3} - {leader})

        def in_sync() -> set[int]:
            topics = running.brokers[leader].broker.parts.gateway.view.current.topics
            return set(topics["orders"].partitions[0].isr) if "orders" in topics else set()

        wait_for(lambda: in_sync() == {1, 2, 3}, "the topic")
        running.cut(leader, other)
        producer = Producer({"bootstrap.servers": running.bootstrap, "acks": 1, "linger.ms": 0, "log_level": 0})
        producer.produce("orders", "tea")
        assert producer.flush(20) == 0
        running.clock.advance(minutes=11)
        wait_for(lambda: in_sync() == {leader, third}, "the follower to leave the ISR")


# The clock itself


def test_the_clock_only_goes_forward(headrace: RunningBroker) -> None:
    with pytest.raises(ClockError, match="only goes forward"):
        headrace.clock.advance(days=-1)
    with pytest.raises(ClockError, match="is before"):
        headrace.clock.advance_to(datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC))
    with pytest.raises(ClockError, match="has no time zone"):
        headrace.clock.advance_to(datetime.datetime(2101, 1, 1))
    before = headrace.clock.now
    headrace.clock.advance(days=1, minutes=1)
    assert datetime.timedelta(days=1, minutes=1) <= headrace.clock.now - before < datetime.timedelta(days=1, minutes=3)
