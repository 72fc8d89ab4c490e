"""Our commands beside Kafka's own: the same invocation against the same Headrace broker prints the same thing.

Both are run on the same state one after the other. Where a command changes the state, each works on a topic or group
of its own, named by `{who}`, and the name is masked. Differences that are meant are said beside the call.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import RunningBroker, broker
from tests.conformance.kafka_tool_calls import CALLS, Call
from tests.reference.kafka import run_tool
from tests.reference.tools import Done, KafkaTools
from tests.support.programs import Programs

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
    "kafka-features": f"{TOOLS}.FeatureCommand",
    "kafka-console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{TOOLS}.ConsoleProducer",
}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"num.partitions": "1"}) as started:
        _fill(started.bootstrap)
        yield started


@pytest.fixture(scope="module")
def kafka_tools() -> Iterator[KafkaTools]:
    with KafkaTools() as tools:
        yield tools


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with Programs() as loaded:
        yield loaded


def _fill(bootstrap: str) -> None:
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
    sender = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till-1"})
    sender.init_transactions(30)
    sender.begin_transaction()
    sender.produce("orders", "paid", partition=1)
    sender.commit_transaction(30)
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
    # Sub-commands come first, except in the two tools whose own options come before them.
    options_first = tool in ("kafka-transactions", "kafka-features")
    head = 1 if words and not words[0].startswith("--") and not options_first else 0
    return [tool, *words[:head], "--bootstrap-server", bootstrap, *words[head:]]


def _ours(words: list[str], stdin: str) -> Done:
    done = subprocess.run(
        [ROOT / "bin" / f"{words[0]}.sh", *words[1:]], input=stdin, capture_output=True, text=True, timeout=60
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _ours_forked(programs: Programs, words: list[str], stdin: str) -> Done:
    """The module that the script of this name starts, in a process forked from one that has loaded it."""
    [module] = re.findall(r'/headrace-tool" (\w+) "\$@"', (ROOT / "bin" / f"{words[0]}.sh").read_text())
    done = programs.run(
        f"headrace.cli.kafka_tools.{module}", words[1:], stdin=stdin.encode(), env=os.environ, cwd=ROOT, timeout=60
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def _theirs(kafka_tools: KafkaTools, words: list[str], stdin: str) -> Done:
    name = CLASSES[words[0]]
    if "console" not in words[0]:
        return kafka_tools.run(name, *words[1:], stdin=stdin)
    # The console tools finish their work while the JVM shuts down, so each needs one of its own.
    done = run_tool(name, *words[1:], stdin=stdin)
    return Done(done.returncode, done.stdout, done.stderr)


def _masked(text: str) -> str:
    """Ids, times and the names of what each tool made for itself; blanks and the order of a topic's settings; the table
    of options after a wrong call and the stack trace after a failure."""
    text = re.sub(r"(?ms)^Option( \(\* = required\))? +Description\s*$.*", "", text)
    text = re.sub(r"(?m)^[\w.]+(Exception|Error)\b.*$|^\s+at [\w.$/<>]+\(.*$|^\s+\.\.\. \d+ more$", "", text)
    text = re.sub(r"(?m)^(Caused by|\s+Suppressed): .*$", "", text)
    text = re.sub(r"\b(\w+\.)+\w+Exception: ", "", text)
    text = re.sub(r"-(ours|theirs)\b", "-WHO", text)
    text = re.sub(r"Configs: (\S+)", lambda found: "Configs: " + ",".join(sorted(found[1].split(","))), text)
    # Which of several options is named first follows a hash set of Kafka's.
    text = re.sub(r"\[[\w-]+\](, \[[\w-]+\])+", lambda found: ", ".join(sorted(found[0].split(", "))), text)
    text = re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", text)
    text = re.sub(r"\b1[6-9]\d{11}\b", "TIME", text)
    text = re.sub(r"-?\d+ ms\b", "N ms", text)
    # How long a transaction has gone on: the cell after its start.
    text = re.sub(r"(TIME\s+)\d+(\s*)$", r"\1N\2", text)
    lines = [re.sub(r"[ \t]+", " ", line).rstrip() for line in text.strip().splitlines()]
    return "\n".join(line for at, line in enumerate(lines) if line or (at and lines[at - 1]))


@pytest.mark.needs("kafka")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name[:70])
def test_prints_what_kafkas_own_tool_prints(
    call: Call, running: RunningBroker, kafka_tools: KafkaTools, programs: Programs, tmp_path: Path
) -> None:
    theirs = _theirs(kafka_tools, _words(call, "theirs", running.bootstrap, tmp_path), call.stdin)
    ours = _ours_forked(programs, _words(call, "ours", running.bootstrap, tmp_path), call.stdin)
    if call.code is None:
        assert ours.code == theirs.code, (ours, theirs)
    else:
        assert ours.code == call.code != theirs.code, (ours, theirs)
    expected, found = _masked(theirs.out), _masked(ours.out)
    if ours.code != 0 or call.says is not None:
        # Some of Kafka's tools print a failure on standard output, ours always on standard error.
        expected, found = _masked(theirs.out + theirs.err), _masked(ours.out + ours.err)
    found = found.replace(str(tmp_path), "DIRECTORY")
    if call.says is not None:
        assert found == call.says
        assert found != expected, "no difference any more: compare it like the others"
    elif call.any_order:
        assert sorted(found.splitlines()) == sorted(expected.splitlines())
    else:
        assert found == expected


@pytest.mark.needs("kafka")
@pytest.mark.parametrize(
    "options", ["", "--print-data-log", "--deep-iteration", "--skip-record-metadata --print-data-log"]
)
def test_files_are_dumped_as_kafkas_own_tool_dumps_them(
    options: str, running: RunningBroker, kafka_tools: KafkaTools, programs: Programs
) -> None:
    directory = running.data_dir / "orders-0"
    files = [directory / f"{0:020d}{ending}" for ending in (".log", ".timeindex")]
    words = ["--files", ",".join(map(str, [*files, directory / "leader-epoch-checkpoint"])), *options.split()]
    _same_dump(words, kafka_tools, programs)


@pytest.mark.needs("kafka")
@pytest.mark.parametrize(
    ("topic", "decoder", "formatters"),
    [
        ("__transaction_state", "--transaction-log-decoder", ["TransactionLogMessageFormatter"]),
        ("__consumer_offsets", "--offsets-decoder", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"]),
        ("__share_group_state", "--share-group-state-decoder", ["group.share.ShareGroupStateMessageFormatter"]),
    ],
)
def test_what_coordinators_keep_is_dumped_and_shown_as_kafkas_own_tools_do(
    topic: str,
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
    largest = max(logs, key=lambda log: log.stat().st_size)
    dumped = kafka_tools.run(f"{TOOLS}.DumpLogSegments", "--files", str(largest)).out
    count = sum(int(number) for number in re.findall(r" count: (\d+) ", dumped))
    for name in formatters:
        shown = f"""kafka-console-consumer --bootstrap-server {running.bootstrap} --topic {topic}
            --partition {largest.parent.name.rpartition("-")[2]} --offset earliest --max-messages {count}
            --formatter {TOOLS}.consumer.{name}""".split()
        theirs, ours = _theirs(kafka_tools, shown, ""), _ours_forked(programs, shown, "")
        # Kafka's formatter prints no line ends between the documents.
        assert ours.out.splitlines() == theirs.out.replace("}{", "}\n{").splitlines()
        assert ours.out


@pytest.fixture(scope="module")
def members(running: RunningBroker, kafka_tools: KafkaTools) -> None:
    """A group of each kind that has had a member."""
    for protocol in ("classic", "consumer"):
        settings = {"group.id": f"{protocol}-members", "group.protocol": protocol, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "client.id": "one", **settings})
        consumer.subscribe(["orders"])
        deadline = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.05)
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
    words = ["--reset-offsets", "--group", "queue-members", "--topic", "orders", "--to-latest", "--execute"]
    done = kafka_tools.run(CLASSES["kafka-share-groups"], "--bootstrap-server", running.bootstrap, *words)
    assert done.code == 0, done


def _same_dump(words: list[str], kafka_tools: KafkaTools, programs: Programs) -> None:
    theirs = kafka_tools.run(f"{TOOLS}.DumpLogSegments", *words)
    ours = _ours_forked(programs, ["kafka-dump-log", *words], "")
    assert (ours.code, ours.out) == (theirs.code, theirs.out)


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
