# ruff: noqa: E501 (a command line is one line)
"""Our commands beside Kafka's own: the same invocation against the same Headrace broker prints the same thing.

Both are run on the same state one after the other. Where a command changes the state, each works on a topic or group
of its own, named by `{who}`, and the name is masked. Differences that are meant are said beside the call.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.testing import RunningBroker, broker
from tests.reference.kafka import run_tool
from tests.reference.tools import Done, KafkaTools

ROOT = Path(__file__).resolve().parents[2]
TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "kafka-topics": f"{TOOLS}.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-groups": f"{TOOLS}.GroupsCommand",
    "kafka-share-groups": f"{TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-get-offsets": f"{TOOLS}.GetOffsetShell",
    "kafka-delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "kafka-log-dirs": f"{TOOLS}.LogDirsCommand",
    "kafka-leader-election": f"{TOOLS}.LeaderElectionCommand",
    "kafka-reassign-partitions": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-transactions": f"{TOOLS}.TransactionsCommand",
    "kafka-broker-api-versions": f"{TOOLS}.BrokerApiVersionsCommand",
    "kafka-cluster": f"{TOOLS}.ClusterTool",
    "kafka-acls": f"{TOOLS}.AclCommand",
    "kafka-console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{TOOLS}.ConsoleProducer",
}


@dataclass(frozen=True)
class Call:
    """One invocation. `meant` says why outputs may differ; then only exit codes must agree."""

    words: str
    stdin: str = ""
    meant: str = ""
    files: dict[str, str] = field(default_factory=dict)
    # Kafka prints some lists in the order of a hash map.
    any_order: bool = False
    # Kafka's tool ends with 0 after some failures; a script should be able to tell.
    code_differs: bool = False

    @property
    def name(self) -> str:
        return self.words


ONE_SENTENCE = "ours says it in one sentence, Kafka's prints a stack trace or its table of options"
OWN_WORDS = "the message comes from the broker, which names key, value and rule"
CALLS = [
    # topics
    Call("kafka-topics --list"),
    Call("kafka-topics --list --exclude-internal"),
    Call("kafka-topics --list --topic or.*"),
    Call("kafka-topics --describe", any_order=True),
    Call("kafka-topics --describe --topic orders"),
    Call("kafka-topics --describe --topic or.*|pay.*"),
    Call("kafka-topics --describe --topic missing"),
    Call("kafka-topics --describe --topic missing --if-exists"),
    Call("kafka-topics --describe --topics-with-overrides", any_order=True),
    Call("kafka-topics --describe --under-replicated-partitions"),
    Call("kafka-topics --describe --unavailable-partitions"),
    Call("kafka-topics --describe --at-min-isr-partitions --topic orders"),
    Call("kafka-topics --create --topic new-{who} --partitions 2"),
    Call("kafka-topics --create --topic with-config-{who} --config retention.ms=60000 --config cleanup.policy=compact"),
    Call("kafka-topics --create --topic orders"),
    Call("kafka-topics --create --topic orders --if-not-exists"),
    Call("kafka-topics --create --topic by-hand-{who} --replica-assignment 0,0,0"),
    Call("kafka-topics --create --topic wide-{who} --replication-factor 3"),
    Call("kafka-topics --create --topic none-{who} --partitions 0"),
    Call("kafka-topics --create --topic bad/name"),
    Call("kafka-topics --create --topic wrong-{who} --config no.such.key=1", meant=OWN_WORDS),
    Call("kafka-topics --create --topic wrong-{who} --config retention.ms=soon", meant=OWN_WORDS),
    Call("kafka-topics --describe --topic new-{who}"),
    Call("kafka-topics --alter --topic new-{who} --partitions 4"),
    Call("kafka-topics --alter --topic new-{who} --partitions 1"),
    Call("kafka-topics --alter --topic missing --partitions 4"),
    Call("kafka-topics --delete --topic new-{who}"),
    Call("kafka-topics --delete --topic missing"),
    Call("kafka-topics --delete --topic missing --if-exists"),
    Call("kafka-topics --nonsense", meant=ONE_SENTENCE),
    Call("kafka-topics --list --create", meant=ONE_SENTENCE),
    # configs
    Call("kafka-configs --describe --entity-type topics --entity-name orders"),
    Call("kafka-configs --describe --entity-type topics --entity-name orders --all"),
    Call("kafka-configs --describe --topic payments"),
    Call("kafka-configs --describe --entity-type brokers --entity-name 0"),
    Call("kafka-configs --describe --entity-type brokers --entity-default"),
    Call("kafka-configs --alter --entity-type topics --entity-name cfg-{who} --add-config retention.ms=1000,cleanup.policy=[compact,delete]"),
    Call("kafka-configs --describe --entity-type topics --entity-name cfg-{who}"),
    Call("kafka-configs --alter --entity-type topics --entity-name cfg-{who} --delete-config retention.ms"),
    Call("kafka-configs --alter --entity-type topics --entity-name cfg-{who} --add-config retention.ms=soon", meant=ONE_SENTENCE),
    Call("kafka-configs --alter --entity-type topics --entity-name missing --add-config retention.ms=1", meant=ONE_SENTENCE),
    Call("kafka-configs --alter --entity-type clients --entity-name app-{who} --add-config producer_byte_rate=1024"),
    Call("kafka-configs --describe --entity-type clients --entity-name app-{who}"),
    Call("kafka-configs --alter --entity-type users --entity-name ann --entity-type clients --entity-name app-{who} --add-config consumer_byte_rate=2048"),
    Call("kafka-configs --describe --entity-type users --entity-name ann --entity-type clients --entity-name app-{who}"),
    Call("kafka-configs --alter --entity-type brokers --entity-name 0 --add-config log.cleaner.threads=2"),
    Call("kafka-configs --describe --entity-type brokers --entity-name 0"),
    Call("kafka-configs --alter --entity-type brokers --entity-name 0 --delete-config log.cleaner.threads"),
    Call("kafka-configs --alter --entity-type groups --entity-name grp-{who} --add-config consumer.session.timeout.ms=50000"),
    Call("kafka-configs --describe --entity-type groups --entity-name grp-{who}"),
    Call("kafka-configs --describe", meant=ONE_SENTENCE),
    # groups and offsets
    Call("kafka-consumer-groups --list", any_order=True),
    Call("kafka-consumer-groups --list --state", any_order=True),
    Call("kafka-consumer-groups --list --type", any_order=True),
    Call("kafka-consumer-groups --describe --group readers"),
    Call("kafka-consumer-groups --describe --group readers --state"),
    Call("kafka-consumer-groups --describe --group readers --members"),
    Call("kafka-consumer-groups --describe --group readers --members --verbose"),
    Call("kafka-consumer-groups --describe --group missing", meant=ONE_SENTENCE, code_differs=True),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --topic orders --to-earliest --dry-run"),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --topic orders --to-latest --execute"),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --topic orders:0 --to-offset 1 --execute"),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --topic orders:0 --shift-by -1 --dry-run"),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --topic orders:0 --shift-by 100 --dry-run"),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --all-topics --to-datetime 2020-01-01T00:00:00.000 --dry-run"),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --topic orders --by-duration PT1H --dry-run"),
    Call("kafka-consumer-groups --reset-offsets --group reset-{who} --topic orders --to-earliest --export --dry-run"),
    Call("kafka-consumer-groups --delete-offsets --group reset-{who} --topic orders"),
    Call("kafka-consumer-groups --delete --group reset-{who}"),
    Call("kafka-consumer-groups --delete --group missing", meant=ONE_SENTENCE, code_differs=True),
    Call("kafka-consumer-groups --describe", meant=ONE_SENTENCE),
    Call("kafka-get-offsets"),
    Call("kafka-get-offsets --topic orders"),
    Call("kafka-get-offsets --topic orders --time earliest"),
    Call("kafka-get-offsets --topic orders --time -3"),
    Call("kafka-get-offsets --topic-partitions orders:0,payments:0-1"),
    Call("kafka-get-offsets --topic missing"),
    Call("kafka-delete-records --offset-json-file {file}", files={"file": '{"partitions":[{"topic":"trim-{who}","partition":0,"offset":1}],"version":1}'}),
    Call("kafka-delete-records --offset-json-file {file}", files={"file": '{"partitions":[{"topic":"trim-{who}","partition":0,"offset":99}],"version":1}'}, meant=ONE_SENTENCE),
    # the cluster
    Call("kafka-log-dirs --describe --topic-list orders"),
    Call("kafka-leader-election --election-type preferred --topic orders --partition 0"),
    Call("kafka-leader-election --election-type preferred --topic missing --partition 0", meant=ONE_SENTENCE),
    Call("kafka-reassign-partitions --list"),
    Call("kafka-reassign-partitions --topics-to-move-json-file {file} --broker-list 0 --generate", files={"file": '{"topics":[{"topic":"orders"}],"version":1}'}),
    Call("kafka-reassign-partitions --reassignment-json-file {file} --execute", files={"file": '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[0]}]}'}),
    Call("kafka-reassign-partitions --reassignment-json-file {file} --verify", files={"file": '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[0]}]}'}),
    Call("kafka-transactions list"),
    Call("kafka-transactions describe --transactional-id missing", meant=ONE_SENTENCE),
    Call("kafka-transactions describe-producers --topic orders --partition 0"),
    Call("kafka-transactions find-hanging --broker-id 0"),
    Call("kafka-broker-api-versions", meant="ours lists what is served, Kafka's also what is not"),
    Call("kafka-cluster cluster-id"),
    Call("kafka-cluster list-endpoints"),
    Call("kafka-acls --list", meant=ONE_SENTENCE),
    # records
    Call("kafka-console-consumer --topic orders --partition 0 --offset earliest --max-messages 2"),
    Call("kafka-console-consumer --topic orders --partition 0 --offset 1 --max-messages 1 --formatter-property print.key=true --formatter-property print.offset=true --formatter-property print.partition=true"),
    Call("kafka-console-consumer --topic orders --partition 0 --offset earliest --max-messages 1 --formatter-property print.headers=true --formatter-property print.timestamp=true"),
    Call("kafka-console-consumer --topic counts --partition 0 --offset earliest --max-messages 1 --formatter kafka.tools.DefaultMessageFormatter --property print.key=true --property print.value=true --property key.deserializer=org.apache.kafka.common.serialization.StringDeserializer --property value.deserializer=org.apache.kafka.common.serialization.LongDeserializer", meant="the documents' old class name is understood by ours only", code_differs=True),
    Call("kafka-console-consumer", meant=ONE_SENTENCE),
    Call("kafka-console-producer --topic written-{who} --reader-property parse.key=true --reader-property key.separator=:", stdin="a:1\nb:2\n"),
    Call("kafka-console-consumer --topic written-{who} --partition 0 --offset earliest --max-messages 2 --formatter-property print.key=true"),
    Call("kafka-console-producer --topic written-{who} --reader-property parse.key=true", stdin="no tab here\n", meant=ONE_SENTENCE),
    Call("kafka-share-groups --reset-offsets --group queue-{who} --topic counts --to-latest --execute"),
    Call("kafka-share-groups --describe --group queue-{who}"),
    Call("kafka-share-groups --describe --group queue-{who} --state --verbose"),
    Call("kafka-share-groups --describe --group queue-{who} --members"),
    Call("kafka-share-groups --list --state", any_order=True),
    Call("kafka-share-groups --describe --group nobody", meant="one sentence without the class name", code_differs=True),
    Call("kafka-share-groups --delete-offsets --group queue-{who} --topic counts"),
    Call("kafka-share-groups --delete --group queue-{who}"),
]  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"num.partitions": "1"}) as started:
        _fill(started.bootstrap)
        yield started


@pytest.fixture(scope="module")
def kafka_tools() -> Iterator[KafkaTools]:
    with KafkaTools() as tools:
        yield tools


def _fill(bootstrap: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("orders", 2),
        NewTopic("payments", 1, config={"retention.ms": "86400000"}),
        NewTopic("counts", 1),
    ]
    topics += [NewTopic(f"{name}-{who}", 1) for name in ("cfg", "trim", "written") for who in ("ours", "theirs")]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    now_ms = int(time.time() * 1000)
    for n in range(3):
        producer.produce(
            "orders",
            key=f"k{n}",
            value=f"order {n}",
            partition=0,
            headers={"h": str(n)},
            timestamp=now_ms + n,
        )
        for who in ("ours", "theirs"):
            producer.produce(f"trim-{who}", value=str(n), partition=0)
    producer.produce("counts", key="all", value=(7).to_bytes(8, "big"))
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, 2), TopicPartition("orders", 1, 0)], asynchronous=False)
    consumer.close()


def _words(call: Call, who: str, bootstrap: str, directory: Path) -> list[str]:
    files = {}
    for name, text in call.files.items():
        path = directory / f"{name}-{who}.json"
        path.write_text(text.replace("{who}", who))
        files[name] = str(path)
    tool, *rest = call.words.split(" ")
    words = [word.replace("{who}", who).format(**files) if "{" in word else word for word in rest]
    # Sub-commands come first, except in the one tool whose own options come before them.
    head = 1 if words and not words[0].startswith("--") and tool != "kafka-transactions" else 0
    return [tool, *words[:head], "--bootstrap-server", bootstrap, *words[head:]]


def _ours(words: list[str], stdin: str) -> Done:
    done = subprocess.run(
        [ROOT / "bin" / f"{words[0]}.sh", *words[1:]], input=stdin, capture_output=True, text=True, timeout=60
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _theirs(kafka_tools: KafkaTools, words: list[str], stdin: str) -> Done:
    name = CLASSES[words[0]]
    if "console" not in words[0]:
        return kafka_tools.run(name, *words[1:], stdin=stdin)
    # The console tools finish their work while the JVM shuts down, so each needs one of its own.
    done = run_tool(name, *words[1:], stdin=stdin)
    return Done(done.returncode, done.stdout, done.stderr)


def _masked(text: str) -> str:
    """Ids, times and the names of what each tool made for itself; blanks and the order of a topic's settings."""
    text = re.sub(r"-(ours|theirs)\b", "-WHO", text)
    text = re.sub(r"Configs: (\S+)", lambda found: "Configs: " + ",".join(sorted(found[1].split(","))), text)
    text = re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", text)
    text = re.sub(r"\b1[6-9]\d{11}\b", "TIME", text)
    text = re.sub(r"-?\d+ ms\b", "N ms", text)
    return "\n".join(re.sub(r"[ \t]+", " ", line).rstrip() for line in text.strip().splitlines())


@pytest.mark.needs("kafka")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name[:70])
def test_prints_what_kafkas_own_tool_prints(
    call: Call, running: RunningBroker, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    theirs_words = _words(call, "theirs", running.bootstrap, tmp_path)
    theirs = _theirs(kafka_tools, theirs_words, call.stdin)
    ours = _ours(_words(call, "ours", running.bootstrap, tmp_path), call.stdin)
    assert (ours.code != theirs.code) == call.code_differs, (ours, theirs)
    assert "Traceback" not in ours.err, ours.err
    if call.meant:
        assert ours.code == 0 or ours.err.strip(), "a failure must be explained"
        return
    expected, found = _masked(theirs.out), _masked(ours.out)
    if ours.code != 0:
        # Some of Kafka's tools print a failure on standard output, ours always on standard error.
        expected, found = _masked(theirs.out + theirs.err), _masked(ours.out + ours.err)
    if call.any_order:
        assert sorted(found.splitlines()) == sorted(expected.splitlines())
    else:
        assert found == expected


def test_the_documents_word_count_line_prints_long_values(running: RunningBroker) -> None:
    """The console-consumer line of the documents, word for word."""
    java = "org.apache.kafka.common.serialization"
    words = f"""kafka-console-consumer --bootstrap-server {running.bootstrap} --topic counts --from-beginning
        --formatter kafka.tools.DefaultMessageFormatter --property print.key=true --property print.value=true
        --property key.deserializer={java}.StringDeserializer --property value.deserializer={java}.LongDeserializer
        --max-messages 1 --timeout-ms 20000""".split()
    assert _ours(words, "").out == "all\t7\n"


def test_the_old_broker_list_spelling_still_writes(running: RunningBroker) -> None:
    done = _ours(
        ["kafka-console-producer", "--broker-list", running.bootstrap, "--topic", "old-spelling"], "one\ntwo\n"
    )
    assert done.code == 0, done.err
    read = ["kafka-get-offsets", "--bootstrap-server", running.bootstrap, "--topic", "old-spelling"]
    assert _ours(read, "").out == "old-spelling:0:2\n"


def test_an_unreachable_broker_is_named(running: RunningBroker) -> None:
    done = _ours(["kafka-topics", "--bootstrap-server", "127.0.0.1:1", "--list"], "")
    assert done.code == 1
    assert "127.0.0.1:1" in done.err
    assert "Traceback" not in done.err


def test_a_broken_json_file_is_told_by_line_and_column(running: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"partitions": [\n  {"topic": "orders", }\n]}')
    done = _ours(["kafka-delete-records", "--bootstrap-server", running.bootstrap, "--offset-json-file", str(file)], "")
    assert done.code == 1
    assert f"{file} line 2 column" in done.err


def test_verifiable_tools_tell_what_was_acknowledged_and_read(running: RunningBroker) -> None:
    address = ["--bootstrap-server", running.bootstrap, "--topic", "verified"]
    written = _ours(["kafka-verifiable-producer", *address, "--max-messages", "20"], "")
    events = [json.loads(line) for line in written.out.splitlines()]
    assert [e["name"] for e in events].count("producer_send_success") == 20
    read = _ours(["kafka-verifiable-consumer", *address, "--group-id", "verifiers", "--max-messages", "20"], "")
    counts = [e["count"] for e in map(json.loads, read.out.splitlines()) if e["name"] == "records_consumed"]
    assert sum(counts) == 20
