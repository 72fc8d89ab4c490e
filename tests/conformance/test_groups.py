"""Consumer groups with real clients: rebalances while members join, leave and die, broker restarts, and both
protocols in one group.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import RunningBroker, broker, broker_process
from tests.reference.tools import kafka_tool
from tests.support.clock import wait_for

PROTOCOLS = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
# Short, so that the broker soon detects a dead member. In the new protocol it is a setting of the group.
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker(SETTINGS) as started:
        yield started


def make_topic(bootstrap: str, topic: str, partitions: int, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for n in range(records):
        producer.produce(topic, str(n).encode(), partition=n % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


class Owners:
    """Current owner of each partition, from the members' callbacks. Two owners at one time are a failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_partition: dict[int, str] = {}
        self.problems: list[str] = []

    def take(self, member: str, partitions: list[int]) -> None:
        with self._lock:
            for partition in partitions:
                other = self._by_partition.get(partition)
                if other is not None and other != member:
                    self.problems.append(f"{member} got {partition} while {other} had it")
                self._by_partition[partition] = member

    def give_up(self, member: str, partitions: list[int] | None = None) -> None:
        with self._lock:
            for partition, owner in list(self._by_partition.items()):
                if owner == member and (partitions is None or partition in partitions):
                    del self._by_partition[partition]

    def shares(self) -> Counter[str]:
        with self._lock:
            return Counter(self._by_partition.values())

    def wait_for_shares(self, expected: dict[str, int]) -> None:
        wait_for(lambda: self.shares() == expected, lambda: f"{expected}, and they have {self.shares()}", poll=0.02)


class Member(threading.Thread):
    """Consumes and commits until the test stops it."""

    def __init__(self, name: str, bootstrap: str, topic: str, owners: Owners, seen: Counter[bytes], **conf: object):
        super().__init__(name=name, daemon=True)
        self._owners, self._seen, self._topic = owners, seen, topic
        self._leave = threading.Event()
        self.errors: list[str] = []
        session = {} if "group.protocol" in conf else {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 200}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"g-{topic}",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **session,
                **conf,
            }
        )
        self.start()

    def run(self) -> None:
        name, owners = self.name, self._owners
        consumer = self._consumer

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            owners.take(name, [p.partition for p in partitions])

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            owners.give_up(name, [p.partition for p in partitions])

        consumer.subscribe([self._topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while not self._leave.is_set():
            messages = consumer.consume(50, 0.05)
            for message in messages:
                if message.error():
                    self.errors.append(str(message.error()))
                else:
                    self._seen[message.value()] += 1
            # Once for all: a commit for each record would queue up on a slow machine, with heartbeats behind them.
            for last in {message.partition(): message for message in messages if not message.error()}.values():
                try:
                    consumer.commit(last, asynchronous=True)
                except KafkaException as error:
                    self.errors.append(str(error))
        consumer.close()
        owners.give_up(name)

    def leave(self) -> None:
        self._leave.set()
        self.join(20)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_every_record_reaches_the_group_and_no_partition_has_two_readers(
    bootstrap: str, topic: str, protocol: str
) -> None:
    make_topic(bootstrap, topic, partitions=6, records=0)
    owners, seen = Owners(), Counter[bytes]()
    stop = threading.Event()
    produced = 0

    def produce() -> None:
        nonlocal produced
        producer = Producer({"bootstrap.servers": bootstrap})
        while not stop.is_set():
            for _ in range(20):
                producer.produce(topic, str(produced).encode(), partition=produced % 6)
                produced += 1
            producer.flush(60)
            time.sleep(0.01)

    load = threading.Thread(target=produce)
    members = [Member("a", bootstrap, topic, owners, seen, **PROTOCOLS[protocol])]
    load.start()
    try:
        owners.wait_for_shares({"a": 6})
        members += [Member(name, bootstrap, topic, owners, seen, **PROTOCOLS[protocol]) for name in ("b", "c")]
        owners.wait_for_shares({"a": 2, "b": 2, "c": 2})
        members[0].leave()
        owners.wait_for_shares({"b": 3, "c": 3})
        members.append(Member("d", bootstrap, topic, owners, seen, **PROTOCOLS[protocol]))
        owners.wait_for_shares({"b": 2, "c": 2, "d": 2})
    finally:
        stop.set()
        load.join(20)
    wait_for(lambda: len(seen) == produced, "all records")
    for member in members:
        member.leave()
    assert not owners.problems
    assert not [e for member in members for e in member.errors]


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_partitions_of_a_killed_member_move_to_the_others(
    bootstrap: str, topic: str, protocol: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, partitions=4, records=100)
    script = tmp_path / "member.py"
    script.write_text(
        "import sys\nfrom confluent_kafka import Consumer\n"
        "conf = dict(pair.split('=', 1) for pair in sys.argv[2:])\n"
        "c = Consumer(conf)\nc.subscribe([sys.argv[1]], on_assign=lambda _, p: print('assigned', len(p), flush=True))\n"
        "while True: c.consume(10, 0.1)\n"
    )
    session = {} if protocol == "consumer" else {"session.timeout.ms": "3000", "heartbeat.interval.ms": "200"}
    conf = {"bootstrap.servers": bootstrap, "group.id": f"g-{topic}", **PROTOCOLS[protocol], **session}
    process = subprocess.Popen(
        [sys.executable, str(script), topic, *(f"{k}={v}" for k, v in conf.items())], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "assigned 4"
        owners, seen = Owners(), Counter[bytes]()
        survivor = Member("s", bootstrap, topic, owners, seen, **PROTOCOLS[protocol])
        owners.wait_for_shares({"s": 2})
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        owners.wait_for_shares({"s": 4})
        survivor.leave()
    finally:
        process.kill()
        process.wait(10)


def test_a_group_migrates_to_the_new_protocol_and_back_under_load(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=4, records=200)
    owners, seen = Owners(), Counter[bytes]()
    # Not the sticky assignors: librdkafka leaves user data in assignments, and Kafka refuses to migrate such a group,
    # too.
    old = [Member(n, bootstrap, topic, owners, seen, **PROTOCOLS["range"]) for n in ("old-1", "old-2")]
    owners.wait_for_shares({"old-1": 2, "old-2": 2})
    new = Member("new", bootstrap, topic, owners, seen, **PROTOCOLS["consumer"])
    wait_for(
        lambda: set(owners.shares()) == {"old-1", "old-2", "new"} and sum(owners.shares().values()) == 4,
        lambda: f"three members with four partitions, and they have {owners.shares()}",
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = {g.group_id: g.type.name for g in admin.list_consumer_groups().result().valid}
    assert listed[f"g-{topic}"] == "CONSUMER"
    old[0].leave()
    owners.wait_for_shares({"old-2": 2, "new": 2})
    new.leave()
    owners.wait_for_shares({"old-2": 4})
    listed = {g.group_id: g.type.name for g in admin.list_consumer_groups().result().valid}
    assert listed[f"g-{topic}"] == "CLASSIC"
    wait_for(lambda: len(seen) == 200, "all records")
    old[1].leave()
    assert not owners.problems


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_a_restarted_static_member_keeps_its_partitions(bootstrap: str, topic: str, protocol: str) -> None:
    make_topic(bootstrap, topic, partitions=4, records=20)
    owners, seen = Owners(), Counter[bytes]()

    def member(name: str, instance: str) -> Member:
        return Member(name, bootstrap, topic, owners, seen, **PROTOCOLS[protocol], **{"group.instance.id": instance})

    one, two = member("one", "i-1"), member("two", "i-2")
    owners.wait_for_shares({"one": 2, "two": 2})
    one.leave()
    again = member("one-again", "i-1")
    owners.wait_for_shares({"one-again": 2, "two": 2})
    again.leave()
    two.leave()
    assert not owners.problems


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_groups_and_offsets_survive_a_broker_restart(tmp_path: Path, end: str) -> None:
    with broker_process({**SETTINGS, "offsets.topic.num.partitions": "5"}, data_dir=tmp_path / "data") as process:
        make_topic(process.bootstrap, "orders", partitions=2, records=50)
        conf = {
            "bootstrap.servers": process.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        for group_protocol in ("classic", "consumer"):
            consumer = Consumer({**conf, "group.id": f"readers-{group_protocol}", "group.protocol": group_protocol})
            consumer.subscribe(["orders"])
            found = 0
            while found < 50:
                found += len(consumer.consume(50, 1))
            consumer.commit(
                offsets=[TopicPartition("orders", 0, 7, "half-way"), TopicPartition("orders", 1, 25)],
                asynchronous=False,
            )
            getattr(process, end)()
            process.start()
            # The same member continues in the same group: it gets no error, and its commits succeed.

            def is_committed(consumer: Consumer = consumer) -> bool:
                consumer.poll(0.1)
                try:
                    consumer.commit(offsets=[TopicPartition("orders", 1, 20)], asynchronous=False)
                except KafkaException:
                    return False
                return True

            wait_for(is_committed, "the commit to succeed", poll=0)
            consumer.close()
            reader = Consumer({**conf, "group.id": f"readers-{group_protocol}"})
            kept = reader.committed([TopicPartition("orders", 0), TopicPartition("orders", 1)], timeout=60)
            assert [(p.offset, p.metadata or "") for p in kept] == [(7, "half-way"), (20, "")]
            reader.close()


def test_a_stale_member_cannot_commit(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=1, records=5)
    conf = {"bootstrap.servers": bootstrap, "group.id": f"g-{topic}", "enable.auto.commit": False}
    outsider = Consumer(conf)
    outsider.assign([TopicPartition(topic, 0)])
    outsider.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    owners = Owners()
    member = Member("m", bootstrap, topic, owners, Counter(), **PROTOCOLS["range"])
    owners.wait_for_shares({"m": 1})
    with pytest.raises(KafkaException) as refused:
        outsider.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    member.leave()
    outsider.close()


# Kafka's own tools

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def tool(name: str, *arguments: str, ok: bool = True) -> str:
    done = kafka_tool(name, *arguments)
    if ok:
        assert done.code == 0, f"{name} {arguments}:\n{done.out}\n{done.err}"
    return done.out + done.err


@pytest.mark.needs("kafka")
@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_kafka_consumer_groups_describes_resets_and_deletes(bootstrap: str, topic: str, protocol: str) -> None:
    make_topic(bootstrap, topic, partitions=2, records=20)
    owners, seen = Owners(), Counter[bytes]()
    member = Member("reader", bootstrap, topic, owners, seen, **PROTOCOLS[protocol])
    owners.wait_for_shares({"reader": 2})
    wait_for(lambda: len(seen) == 20, "all records")
    group, server = f"g-{topic}", ("--bootstrap-server", bootstrap)
    lines = tool(GROUPS, *server, "--describe", "--group", group, "--members").splitlines()
    assert any("reader" in line and group in line for line in lines)
    assert "Stable" in tool(GROUPS, *server, "--describe", "--group", group, "--state")
    assert "1 members" not in tool(GROUPS, *server, "--delete", "--group", group, ok=False)
    member.leave()
    described = tool(GROUPS, *server, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sorted((row[2], row[3], row[5]) for row in rows) == [("0", "10", "0"), ("1", "10", "0")]
    to_earliest = ("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    tool(GROUPS, *server, "--group", group, *to_earliest)
    described = tool(GROUPS, *server, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sorted((row[3], row[5]) for row in rows) == [("0", "10"), ("0", "10")]
    tool(GROUPS, *server, "--group", group, "--delete-offsets", "--topic", f"{topic}:0")
    described = tool(GROUPS, *server, "--describe", "--group", group)
    assert len([line for line in described.splitlines() if line.startswith(group)]) == 1
    assert "successful" in tool(GROUPS, *server, "--delete", "--group", group)
    assert group not in tool(GROUPS, *server, "--list")


@pytest.mark.needs("kafka")
def test_java_consumer_subscribes_with_a_regular_expression_in_the_new_protocol(bootstrap: str, topic: str) -> None:
    for name in ("eu", "us"):
        make_topic(bootstrap, f"{topic}-{name}", partitions=1, records=3)
    make_topic(bootstrap, f"other-{topic}", partitions=1, records=3)
    told = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--include", f"{topic}-.*", "--from-beginning", "--max-messages", "6"),
        *("--consumer-property", "group.protocol=consumer", "--timeout-ms", "30000", "--group", f"g-{topic}"),
    )
    assert "Processed a total of 6 messages" in told


@pytest.mark.needs("kafka")
def test_kafka_reads_the_consumer_offsets_log_from_disk_and_from_the_topic(running: RunningBroker, topic: str) -> None:
    make_topic(running.bootstrap, topic, partitions=1, records=3)
    for protocol in ("range", "consumer"):
        owners = Owners()
        member = Member(protocol, running.bootstrap, topic, owners, Counter(), **PROTOCOLS[protocol])
        wait_for(lambda owners=owners: sum(owners.shares().values()) == 1, "the partition to have an owner")
        member.leave()
    outsider = Consumer({"bootstrap.servers": running.bootstrap, "group.id": f"out-{topic}"})
    outsider.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    outsider.close()
    logs = [p for p in running.data_dir.glob("__consumer_offsets-*/*.log") if p.stat().st_size]
    files = ",".join(str(log) for log in logs)
    dumped = tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", files)
    for kind in ('"type":"1"', '"type":"2"', '"type":"3"', '"type":"5"', '"type":"6"', '"type":"7"', '"type":"8"'):
        assert kind in dumped
    assert f'"topic":"{topic}"' in dumped
    assert "Error" not in dumped and "exception" not in dumped.lower()
    formatted = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", running.bootstrap, "--topic", "__consumer_offsets", "--from-beginning"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter", "--timeout-ms", "5000"),
    )
    assert f'"topic":"{topic}"' in formatted
