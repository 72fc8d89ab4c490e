"""Share groups (KIP-932) with Kafka's own client and tool."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.testing import RunningBroker, broker_process
from tests.reference.kafka import java_command, run_tool
from tests.reference.tools import kafka_tool
from tests.support.clock import wait_for
from tests.support.group_requests import SHARE_DESCRIBE, Client

pytestmark = pytest.mark.needs("kafka")

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def tool(name: str, *arguments: str) -> str:
    done = kafka_tool(name, *arguments)
    return done.out + done.err


def make_topic(bootstrap: str, topic: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


def produce(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for n in range(first, first + count):
        producer.produce(topic, f"r{n}".encode())
    assert producer.flush(60) == 0


def from_the_start(bootstrap: str, group: str, **settings: str) -> None:
    wanted = ",".join(f"{key}={value}" for key, value in {"share.auto.offset.reset": "earliest", **settings}.items())
    told = tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", wanted),
    )
    assert "Completed" in told, told


def consume(bootstrap: str, topic: str, group: str, *more: str, timeout_ms: int = 5_000) -> Counter[str]:
    told = tool(
        CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--timeout-ms", str(timeout_ms), *more),
    )
    return Counter(line for line in told.splitlines() if line.startswith("r") and line[1:].isdigit())


def offsets(bootstrap: str, group: str) -> dict[str, tuple[str, str]]:
    """Partition → (start offset, lag)."""
    told = tool(GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group)
    rows = [line.split() for line in told.splitlines() if line.startswith(group)]
    return {row[2]: (row[3], row[4]) for row in rows}


def test_records_are_accepted_released_and_rejected(bootstrap: str, topic: str) -> None:
    group = f"s-{topic}"
    make_topic(bootstrap, topic)
    from_the_start(bootstrap, group, **{"share.delivery.count.limit": "3"})
    produce(bootstrap, topic, 10)
    assert consume(bootstrap, topic, group, "--max-messages", "10") == {f"r{n}": 1 for n in range(10)}
    assert consume(bootstrap, topic, group, timeout_ms=2_000) == {}
    produce(bootstrap, topic, 5, first=10)
    released = consume(bootstrap, topic, group, "--release", "--max-messages", "15")
    assert released == {f"r{n}": 3 for n in range(10, 15)}, "delivered three times, then archived"
    produce(bootstrap, topic, 5, first=15)
    refused = consume(bootstrap, topic, group, "--reject", "--max-messages", "5")
    assert refused == {f"r{n}": 1 for n in range(15, 20)}
    assert consume(bootstrap, topic, group, timeout_ms=2_000) == {}
    stands = offsets(bootstrap, group)
    assert sum(int(start) for start, _ in stands.values()) == 20
    assert {lag for _, lag in stands.values()} == {"0"}


def test_several_consumers_share_one_partition_and_get_each_record_once(bootstrap: str, topic: str) -> None:
    group = f"s-{topic}"
    make_topic(bootstrap, topic, partitions=1)
    from_the_start(bootstrap, group)
    command = java_command(
        CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--timeout-ms", "60000"
    )
    members = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)
    ]
    try:
        state = ("--bootstrap-server", bootstrap, "--describe", "--group", group, "--state")
        wait_for(lambda: "2" in tool(GROUPS, *state).split(), "two members")
        for first in range(0, 1_000, 20):
            produce(bootstrap, topic, 20, first)
        wait_for(
            lambda: offsets(bootstrap, group) == {"0": ("1000", "0")},
            lambda: f"all records to be accepted: {offsets(bootstrap, group)}",
        )
        for member in members:
            member.terminate()
        shares = [[line for line in m.communicate(timeout=60)[0].splitlines() if line.startswith("r")] for m in members]
    finally:
        for member in members:
            member.kill()
    assert Counter(record for share in shares for record in share) == {f"r{n}": 1 for n in range(1_000)}
    assert all(shares), "one consumer took everything"


def test_admin_client_alters_and_deletes_share_group_offsets(bootstrap: str, topic: str) -> None:
    group, server = f"s-{topic}", ("--bootstrap-server", bootstrap)
    make_topic(bootstrap, topic)
    from_the_start(bootstrap, group)
    produce(bootstrap, topic, 10)
    consume(bootstrap, topic, group, "--max-messages", "10")
    assert group in tool(GROUPS, *server, "--list").split()
    tool(GROUPS, *server, "--reset-offsets", "--to-earliest", "--group", group, "--all-topics", "--execute")
    assert {start for start, _ in offsets(bootstrap, group).values()} == {"0"}
    assert len(consume(bootstrap, topic, group, "--max-messages", "10")) == 10
    assert "Successful" in tool(GROUPS, *server, "--delete-offsets", "--group", group, "--topic", topic)
    assert offsets(bootstrap, group) == {}
    assert "successful" in tool(GROUPS, *server, "--delete", "--group", group)
    assert group not in tool(GROUPS, *server, "--list").split()


@pytest.mark.needs("javac")
def test_a_member_acknowledges_each_record_separately(bootstrap: str, topic: str) -> None:
    group = f"s-{topic}"
    make_topic(bootstrap, topic, partitions=1)
    from_the_start(bootstrap, group)
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in ("accept", "release", "renew", "reject"):
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    source = Path(__file__).with_name("share") / "ExplicitMember.java"
    done = run_tool(str(source), bootstrap, topic, group, "6", timeout=90)
    told = Counter(line.removeprefix("told ") for line in done.stdout.splitlines() if line.startswith("told "))
    assert told == {
        "accept 1 accept": 1,
        "release 1 release": 1,
        "release 2 accept": 1,
        "renew 1 renew": 1,
        "renew 1 accept": 1,
        "reject 1 reject": 1,
    }, done.stderr
    assert offsets(bootstrap, group) == {"0": ("4", "0")}


def test_aborted_records_are_not_delivered(bootstrap: str, topic: str) -> None:
    group = f"s-{topic}"
    make_topic(bootstrap, topic, partitions=1)
    from_the_start(bootstrap, group, **{"share.isolation.level": "read_committed"})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{topic}"})
    producer.init_transactions(30)
    for first, ends in (
        (0, producer.commit_transaction),
        (3, producer.abort_transaction),
        (6, producer.commit_transaction),
    ):
        producer.begin_transaction()
        for number in range(first, first + 3):
            producer.produce(topic, f"r{number}")
        producer.flush(60)
        ends(30)
    handed = consume(bootstrap, topic, group, "--max-messages", "6")
    assert handed == {f"r{number}": 1 for number in (0, 1, 2, 6, 7, 8)}
    assert {lag for _, lag in offsets(bootstrap, group).values()} == {"0"}, "no record is left to deliver"


def test_a_changed_isolation_level_applies_from_the_next_record(bootstrap: str, topic: str) -> None:
    group = f"s-{topic}"
    make_topic(bootstrap, topic, partitions=1)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{topic}"})
    producer.init_transactions(30)

    def set_isolation(level: str) -> None:
        wanted = {"share.auto.offset.reset": "earliest", "share.isolation.level": level}
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(60)

    def transaction(value: str, end: Callable[[float], object]) -> None:
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(60) == 0
        end(30)

    set_isolation("read_uncommitted")
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.subscribe([topic])
        transaction("dropped, and seen", producer.abort_transaction)
        assert next_value(consumer) == b"dropped, and seen"
        set_isolation("read_committed")
        transaction("dropped", producer.abort_transaction)
        transaction("kept", producer.commit_transaction)
        assert next_value(consumer) == b"kept"
    finally:
        consumer.close()


def test_a_consumer_reads_no_more_of_a_topic_after_it_unsubscribes(bootstrap: str, topic: str) -> None:
    """Also while the assignment interval delays the next target: here it is the longest that a group may set."""
    old, new, group = f"{topic}-old", f"{topic}-new", f"s-{topic}"
    for name in (old, new):
        make_topic(bootstrap, name)
    from_the_start(bootstrap, group, **{"share.assignment.interval.ms": "15000"})
    client = Client(bootstrap)
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})

    def until_it_has(names: set[str]) -> None:
        def has() -> bool:
            assert not consumer.poll(0.1)
            body = {"group_ids": [group], "include_authorized_operations": False}
            members = client.ask(SHARE_DESCRIBE, 1, body).groups[0].members
            return names == {each.topic_name for member in members for each in member.assignment.topic_partitions}

        wait_for(has, f"the member to have {names}", within=30)

    try:
        consumer.subscribe([old])
        until_it_has({old})
        consumer.subscribe([new])
        until_it_has(set())
        # A fetch of the old topic that was in flight may still return a record. The next one must not.
        for number in range(20):
            produce(bootstrap, old, 1, first=number)
            if not consumer.poll(0.7):
                break
        else:
            raise AssertionError("the consumer keeps reading the old topic")
        from_the_start(bootstrap, group, **{"share.assignment.interval.ms": "0"})
        until_it_has({new})
        produce(bootstrap, new, 1, first=100)
        assert next_value(consumer) == b"r100"
    finally:
        consumer.close()


def next_value(consumer: ShareConsumer) -> bytes | None:
    for _ in range(30):
        for message in consumer.poll(1.0):
            assert message.error() is None
            return cast("bytes | None", message.value())
    raise AssertionError("no record was delivered")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_share_partitions_survive_a_broker_restart(tmp_path: Path, end: str) -> None:
    with broker_process(data_dir=tmp_path / "data") as process:
        make_topic(process.bootstrap, "jobs", partitions=1)
        from_the_start(process.bootstrap, "workers")
        produce(process.bootstrap, "jobs", 30)
        # Some records are acknowledged before the broker stops, the others afterwards. Each is delivered at least once,
        # and never again after its acknowledgement.
        first = consume(process.bootstrap, "jobs", "workers", "--max-messages", "10", timeout_ms=10_000)
        assert len(first) >= 10
        done = int(offsets(process.bootstrap, "workers")["0"][0])
        getattr(process, end)()
        process.start()
        assert int(offsets(process.bootstrap, "workers")["0"][0]) == done
        second = consume(process.bootstrap, "jobs", "workers", "--max-messages", str(30 - done), timeout_ms=8_000)
        assert set(second) == {f"r{n}" for n in range(done, 30)}
        assert offsets(process.bootstrap, "workers") == {"0": ("30", "0")}


def test_kafka_reads_the_share_group_state_log(running: RunningBroker, bootstrap: str, topic: str) -> None:
    group = f"s-{topic}"
    make_topic(bootstrap, topic, partitions=1)
    from_the_start(bootstrap, group)
    produce(bootstrap, topic, 5)
    consume(bootstrap, topic, group, "--max-messages", "5")
    consume(bootstrap, topic, group, "--release", timeout_ms=2_000)
    logs = [p for p in running.data_dir.glob("__share_group_state-*/*.log") if p.stat().st_size]
    dumped = "".join(
        tool("org.apache.kafka.tools.DumpLogSegments", "--share-group-state-decoder", "--files", str(log))
        for log in logs
    )
    assert f'"groupId":"{group}"' in dumped and '"startOffset":5' in dumped
    assert "exception" not in dumped.lower()
