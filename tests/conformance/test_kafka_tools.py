"""Our commands and Kafka's own tools: the same command line against the same Headrace broker prints the same output.

The test runs both on the same state, one after the other. If a command changes the state, each uses a topic or group of
its own, whose name contains `{who}`, and the comparison masks the name. Intended differences are stated beside the
call.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.coordinators.codec import consumer_groups, share_groups, share_state, streams_groups, streams_topology
from headrace.records.builder import Record, build_batch
from headrace.testing import RunningBroker, broker
from tests.conformance.kafka_tool_calls import CALLS, Call
from tests.conformance.kafka_tool_runs import CLASSES, TOOLS, check, fill, kafkas, ours_forked, ours_started
from tests.reference.tools import KafkaTools, shared_tools
from tests.support.clock import wait_for
from tests.support.programs import Programs


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"num.partitions": "1"}) as started:
        fill(started.bootstrap)
        yield started


@pytest.fixture(scope="module")
def kafka_tools() -> KafkaTools:
    return shared_tools()


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with Programs() as loaded:
        yield loaded


@pytest.mark.needs("kafka")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name[:70])
def test_prints_what_kafkas_own_tool_prints(
    call: Call, running: RunningBroker, kafka_tools: KafkaTools, programs: Programs, tmp_path: Path
) -> None:
    check(call, running.bootstrap, kafka_tools, programs, tmp_path)


@pytest.mark.needs("kafka")
@pytest.mark.parametrize(
    "options", ["", "--print-data-log", "--deep-iteration", "--skip-record-metadata --print-data-log"]
)
def test_dump_log_prints_what_kafkas_own_tool_prints(
    options: str, running: RunningBroker, kafka_tools: KafkaTools, programs: Programs
) -> None:
    directory = running.data_dir / "orders-0"
    files = [directory / f"{0:020d}{ending}" for ending in (".log", ".timeindex")]
    words = ["--files", ",".join(map(str, [*files, directory / "leader-epoch-checkpoint"])), *options.split()]
    _same_dump(words, kafka_tools, programs)


@pytest.mark.needs("kafka")
@pytest.mark.parametrize(
    ("topic", "name", "decoder", "formatters"),
    [
        ("__transaction_state", "till-1", "--transaction-log-decoder", ["TransactionLogMessageFormatter"]),
        (
            "__consumer_offsets",
            "classic-members",
            "--offsets-decoder",
            ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"],
        ),
        (
            "__share_group_state",
            "queue-members",
            "--share-group-state-decoder",
            ["group.share.ShareGroupStateMessageFormatter"],
        ),
    ],
)
def test_coordinator_records_are_dumped_and_formatted_as_by_kafkas_own_tools(
    topic: str,
    name: str,
    decoder: str,
    formatters: list[str],
    running: RunningBroker,
    members: None,
    kafka_tools: KafkaTools,
    programs: Programs,
) -> None:
    logs = [path for path in running.data_dir.glob(f"{topic}-*/*.log") if path.stat().st_size]
    for log in logs:
        _same_dump(["--files", str(log), decoder], kafka_tools, programs)
    log = next(log for log in logs if name.encode() in log.read_bytes())
    dumped = kafka_tools.run(f"{TOOLS}.DumpLogSegments", "--files", str(log)).out
    count = sum(int(number) for number in re.findall(r" count: (\d+) ", dumped))
    for formatter in formatters:
        shown = f"""kafka-console-consumer --bootstrap-server {running.bootstrap} --topic {topic}
            --partition {log.parent.name.rpartition("-")[2]} --offset earliest --max-messages {count}
            --formatter {TOOLS}.consumer.{formatter}""".split()
        theirs, ours = kafkas(kafka_tools, shown, ""), ours_forked(programs, shown, "")
        # Kafka's formatter prints no newlines between the documents.
        assert ours.out.splitlines() == theirs.out.replace("}{", "}\n{").splitlines()
        assert name in ours.out


@pytest.fixture(scope="module")
def members(running: RunningBroker, kafka_tools: KafkaTools) -> None:
    """One group of each kind, each of which has had a member."""
    for protocol in ("classic", "consumer"):
        settings = {"group.id": f"{protocol}-members", "group.protocol": protocol, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "client.id": "one", **settings})
        consumer.subscribe(["orders"])
        wait_for(lambda c=consumer: [c.poll(0.05)] and c.assignment(), "an assignment", poll=0)
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
    words = ["--reset-offsets", "--group", "queue-members", "--topic", "orders", "--to-latest", "--execute"]
    done = kafka_tools.run(CLASSES["kafka-share-groups"], "--bootstrap-server", running.bootstrap, *words)
    assert done.code == 0, done


def _same_dump(words: list[str], kafka_tools: KafkaTools, programs: Programs) -> None:
    theirs = kafka_tools.run(f"{TOOLS}.DumpLogSegments", *words)
    ours = ours_forked(programs, ["kafka-dump-log", *words], "")
    assert (ours.code, ours.out) == (theirs.code, theirs.out)


def test_documented_console_consumer_command_prints_long_values(running: RunningBroker) -> None:
    """The console-consumer line of the documents, word for word."""
    java = "org.apache.kafka.common.serialization"
    words = f"""kafka-console-consumer --bootstrap-server {running.bootstrap} --topic counts --from-beginning
        --formatter kafka.tools.DefaultMessageFormatter --property print.key=true --property print.value=true
        --property key.deserializer={java}.StringDeserializer --property value.deserializer={java}.LongDeserializer
        --max-messages 1 --timeout-ms 20000""".split()
    assert ours_started(words, "").out == "all\t7\n"


def test_producer_accepts_the_old_broker_list_option(running: RunningBroker) -> None:
    done = ours_started(
        ["kafka-console-producer", "--broker-list", running.bootstrap, "--topic", "old-spelling"], "one\ntwo\n"
    )
    assert done.code == 0, done.err
    read = ["kafka-get-offsets", "--bootstrap-server", running.bootstrap, "--topic", "old-spelling"]
    assert ours_started(read, "").out == "old-spelling:0:2\n"


def test_error_names_the_unreachable_broker(running: RunningBroker) -> None:
    done = ours_started(["kafka-topics", "--bootstrap-server", "127.0.0.1:1", "--list"], "")
    assert done.code == 1
    assert "127.0.0.1:1" in done.err
    assert "Traceback" not in done.err


def test_error_names_line_and_column_of_invalid_json(running: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"partitions": [\n  {"topic": "orders", }\n]}')
    address = ["--bootstrap-server", running.bootstrap]
    done = ours_started(["kafka-delete-records", *address, "--offset-json-file", str(file)], "")
    assert done.code == 1
    assert f"{file} line 2 column" in done.err


def test_verifiable_tools_report_acknowledged_and_read_records(running: RunningBroker) -> None:
    address = ["--bootstrap-server", running.bootstrap, "--topic", "verified"]
    written = ours_started(["kafka-verifiable-producer", *address, "--max-messages", "20"], "")
    events = [json.loads(line) for line in written.out.splitlines()]
    assert [e["name"] for e in events].count("producer_send_success") == 20
    read = ours_started(["kafka-verifiable-consumer", *address, "--group-id", "verifiers", "--max-messages", "20"], "")
    counts = [e["count"] for e in map(json.loads, read.out.splitlines()) if e["name"] == "records_consumed"]
    assert sum(counts) == 20


def records_of_a_streams_group() -> dict[bytes, bytes]:
    kinds, topologies = streams_groups, streams_topology
    endpoint = kinds.Endpoint("localhost", 40_001)
    member = kinds.StreamsMemberMetadata(None, "r", "c", "/h", 5, 1, "p", endpoint, (("a", "1"), ("b", "2")))
    has = kinds.EpochedTasks({"0": {0: 3, 2: 5}}, {"1": frozenset({1})}, {"1": frozenset({7})})
    revokes = kinds.EpochedTasks({"1": {4: 4}}, {}, {"0": frozenset({9})})
    infos = (topologies.InternalTopicInfo("log", 0, 0, (("k", "v"),)), topologies.InternalTopicInfo("rep", 3, 2))
    copartitions = (topologies.CopartitionGroup((0,), (0,), (1,)),)
    topology = topologies.StreamsTopology(
        2, [topologies.Subtopology("0", ("t",), ("x.*",), infos[:1], ("sink",), infos, copartitions)]
    )

    def key(kind: int, *words: str) -> bytes:
        return consumer_groups.key(kind, "f", *words)

    return {
        key(kinds.GROUP_METADATA): kinds.group_metadata_value(
            kinds.StreamsGroupMetadata(7, -5, 2, (("num.standby.replicas", "1"),))
        ),
        key(kinds.MEMBER_METADATA, "m"): kinds.member_metadata_value(member),
        key(kinds.MEMBER_METADATA, "n"): kinds.member_metadata_value(member._replace(user_endpoint=None)),
        key(kinds.TARGET_METADATA): consumer_groups.target_metadata_value(5, 77),
        key(kinds.TARGET_MEMBER, "m"): kinds.target_member_value(
            kinds.Tasks({"0": frozenset({1, 0})}, {"1": frozenset({2})}, {})
        ),
        key(kinds.CURRENT_ASSIGNMENT, "m"): kinds.current_assignment_value(
            kinds.StreamsCurrentAssignment(5, 4, 1, has, revokes)
        ),
        key(topologies.TOPOLOGY): topologies.topology_value(topology),
    }


@pytest.mark.needs("kafka")
def test_records_of_every_group_type_are_dumped_as_by_kafkas_own_tool(
    kafka_tools: KafkaTools, programs: Programs, tmp_path: Path
) -> None:
    """Record types and fields that the groups above do not leave behind."""
    topic, other = uuid.UUID(int=7 << 80), uuid.UUID(int=9 << 64)
    classic = consumer_groups.ClassicMemberMetadata(6000, (("range", b"\1\2"),))
    member = consumer_groups.MemberMetadata("i", "r", "c", "/h", ("a", "b"), "x.*", 5, "uniform", classic)
    current = consumer_groups.CurrentAssignment(3, 2, 1, {topic: {0: -1, 1: -1}}, {other: {2: 4}})
    kinds = consumer_groups
    values = {
        kinds.key(kinds.MEMBER_METADATA, "g", "m"): kinds.member_metadata_value(member),
        kinds.key(kinds.CURRENT_ASSIGNMENT, "g", "m"): kinds.current_assignment_value(current),
        kinds.key(kinds.TARGET_METADATA, "g"): kinds.target_metadata_value(4),
        kinds.key(kinds.REGULAR_EXPRESSION, "g", "x.*"): kinds.regular_expression_value(("xa", "xb"), 3, 99),
        kinds.key(share_groups.MEMBER_METADATA, "s", "m"): share_groups.member_metadata_value(
            share_groups.ShareMemberMetadata(None, "c", "/h", ("a",))
        ),
        kinds.key(share_groups.TARGET_METADATA, "s"): kinds.target_metadata_value(5, 77),
        kinds.key(share_groups.TARGET_MEMBER, "s", "m"): kinds.target_member_value({topic: (1, 0)}),
        kinds.key(share_groups.CURRENT_ASSIGNMENT, "s", "m"): share_groups.current_assignment_value(
            share_groups.ShareCurrentAssignment(2, 1, 0, {topic: frozenset({0})})
        ),
        kinds.key(share_groups.STATE_PARTITION_METADATA, "s"): share_groups.state_partition_metadata_value(
            share_groups.StatePartitionMetadata({topic: ("a", frozenset({1}))}, {}, {other: "b"})
        ),
        **records_of_a_streams_group(),
    }
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(build_batch([Record(key, value, timestamp_ms=1) for key, value in values.items()]))
    _same_dump(["--files", str(log), "--offsets-decoder"], kafka_tools, programs)
    key, batches = share_state.ShareKey("s", topic, 3), (share_state.StateBatch(5, 9, 2, 1),)
    log.write_bytes(
        build_batch(
            [
                Record(
                    share_state.share_key(share_state.SHARE_SNAPSHOT, key),
                    share_state.share_snapshot_value(share_state.ShareSnapshot(1, 2, 3, 4, 5, 6, batches)),
                    timestamp_ms=1,
                ),
                Record(
                    share_state.share_key(share_state.SHARE_UPDATE, key),
                    share_state.share_update_value(share_state.ShareUpdate(1, 2, 3, batches, 8)),
                    timestamp_ms=1,
                ),
            ]
        )
    )
    _same_dump(["--files", str(log), "--share-group-state-decoder"], kafka_tools, programs)
