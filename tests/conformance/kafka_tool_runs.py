"""Runs one command line with our command and with Kafka's tool, and masks the output before the comparison."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.kafka_tool_calls import Call
from tests.reference.tools import Done, KafkaTools
from tests.support.clock import wait_for
from tests.support.programs import Programs

ROOT = Path(__file__).resolve().parents[2]
TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "kafka-topics": f"{TOOLS}.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-groups": f"{TOOLS}.GroupsCommand",
    "kafka-share-groups": f"{TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": f"{TOOLS}.streams.StreamsGroupCommand",
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


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("orders", 2),
        NewTopic("payments", 1, config={"retention.ms": "86400000"}),
        NewTopic("counts", 1),
    ]
    topics += [NewTopic(f"{name}-{who}", 1) for name in ("cfg", "trim", "written") for who in ("ours", "theirs")]
    for future in admin.create_topics(topics).values():
        future.result(60)
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
    assert producer.flush(60) == 0
    sender = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till-1"})
    sender.init_transactions(30)
    sender.begin_transaction()
    sender.produce("orders", "paid", partition=1)
    sender.commit_transaction(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})
    positions = [TopicPartition("orders", 0, 2), TopicPartition("orders", 1, 0)]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:
            # Apache Kafka has not created the offsets topic yet.
            if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return False
        return True

    wait_for(is_committed, "the commit to succeed", poll=0.1)
    consumer.close()


def words_of(call: Call, who: str, bootstrap: str, directory: Path) -> list[str]:
    files = {}
    for name, text in call.files.items():
        path = directory / f"{name}-{who}.json"
        path.write_text(text.replace("{who}", who))
        files[name] = str(path)
    tool, *rest = call.words.split(" ")
    words = [word.replace("{who}", who).format(**files) if "{" in word else word for word in rest]
    # The subcommand comes first, except in the two tools whose own options come before it.
    options_first = tool in ("kafka-transactions", "kafka-features")
    head = 1 if words and not words[0].startswith("--") and not options_first else 0
    return [tool, *words[:head], "--bootstrap-server", bootstrap, *words[head:]]


def ours_started(words: list[str], stdin: str) -> Done:
    done = subprocess.run(
        [ROOT / "bin" / f"{words[0]}.sh", *words[1:]], input=stdin, capture_output=True, text=True, timeout=60
    )
    return Done(done.returncode, done.stdout, done.stderr)


def ours_forked(programs: Programs, words: list[str], stdin: str) -> Done:
    """Runs the module that the script of this name starts, in a process forked from one that has loaded it."""
    [module] = re.findall(r'/headrace-tool" (\w+) "\$@"', (ROOT / "bin" / f"{words[0]}.sh").read_text())
    done = programs.run(
        f"headrace.cli.kafka_tools.{module}", words[1:], stdin=stdin.encode(), env=os.environ, cwd=ROOT, timeout=60
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def kafkas(kafka_tools: KafkaTools, words: list[str], stdin: str) -> Done:
    return kafka_tools.run(CLASSES[words[0]], *words[1:], stdin=stdin)


def masked(text: str) -> str:
    """Masks ids, times and the names that each tool created, blanks, the order of a topic's settings, the option
    table after a wrong call and the stack trace after a failure."""
    text = re.sub(r"(?ms)^Option( \(\* = required\))? +Description\s*$.*", "", text)
    text = re.sub(r"(?m)^[\w.]+(Exception|Error)\b.*$|^\s+at [\w.$/<>]+\(.*$|^\s+\.\.\. \d+ more$", "", text)
    text = re.sub(r"(?m)^(Caused by|\s+Suppressed): .*$", "", text)
    text = re.sub(r"\b(\w+\.)+\w+Exception: ", "", text)
    text = re.sub(r"-(ours|theirs)\b", "-WHO", text)
    text = re.sub(r"Configs: (\S+)", lambda found: "Configs: " + ",".join(sorted(found[1].split(","))), text)
    # A hash set of Kafka's decides which of several options it names first.
    text = re.sub(r"\[[\w-]+\](, \[[\w-]+\])+", lambda found: ", ".join(sorted(found[0].split(", "))), text)
    text = re.sub(r'"logDir":"[^"]+"', '"logDir":"DIR"', text)
    text = re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", text)
    text = re.sub(r"\b1[6-9]\d{11}\b", "TIME", text)
    text = re.sub(r"-?\d+ ms\b", "N ms", text)
    # The epoch of the features: Apache Kafka counts the records of its metadata log, which grows by itself.
    text = re.sub(r"Epoch: \d+", "Epoch: N", text)
    # Duration of a transaction: the cell after its start time.
    text = re.sub(r"(TIME\s+)\d+(\s*)$", r"\1N\2", text)
    lines = [re.sub(r"[ \t]+", " ", line).rstrip() for line in text.strip().splitlines()]
    return "\n".join(line for at, line in enumerate(lines) if line or (at and lines[at - 1]))


def check(call: Call, bootstrap: str, kafka_tools: KafkaTools, programs: Programs, directory: Path) -> None:
    """Kafka's tool and ours exit and print alike against the same broker, or as the call declares."""
    theirs = kafkas(kafka_tools, words_of(call, "theirs", bootstrap, directory), call.stdin)
    ours = ours_forked(programs, words_of(call, "ours", bootstrap, directory), call.stdin)
    if call.code is None:
        assert ours.code == theirs.code, (ours, theirs)
    else:
        assert ours.code == call.code != theirs.code, (ours, theirs)
    expected, found = masked(theirs.out), masked(ours.out)
    if ours.code != 0 or call.says is not None:
        # Some of Kafka's tools print a failure on standard output. Ours always use standard error.
        expected, found = masked(theirs.out + theirs.err), masked(ours.out + ours.err)
    found = found.replace(str(directory), "DIRECTORY")
    if call.says is not None:
        assert found == call.says, found
        assert found != expected, "the outputs are equal now: remove `meant` and `says`"
    elif call.any_order:
        assert sorted(found.splitlines()) == sorted(expected.splitlines()), f"{found}\n--- Kafka's:\n{expected}"
    else:
        assert found == expected, f"{found}\n--- Kafka's:\n{expected}"
