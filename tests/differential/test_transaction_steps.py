"""Random lives of a transactional id, step by step on Apache Kafka and on Headrace: every answer must be the same.

A step names producer ids and epochs by their place in the history of that id, so that the same step can be taken on
both brokers, whose ids differ. Kafka writes markers after it has answered, so a step that is told to try again is
tried again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.records.builder import Record, build_batch
from headrace.testing import broker
from tests.differential.conftest import HISTORY_SETTINGS
from tests.differential.servers import Server
from tests.reference.kafka import ReferenceKafka
from tests.support.effort import rounds

pytestmark = pytest.mark.needs("kafka")

PRODUCE, LIST_OFFSETS, FIND_COORDINATOR, CREATE_TOPICS = 0, 2, 10, 19
INIT, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSET_COMMIT, LIST = 22, 24, 25, 26, 28, 66
PARTITIONS = 3
STEPS = 25
# Unknown partition, not leader (a topic just created), load in progress, not available, not coordinator, not enough
# replicas (a transaction that cannot be verified yet), concurrent transactions: a client comes again.
TRY_AGAIN = {3, 6, 14, 15, 16, 19, 51}


@pytest.fixture(scope="module")
def servers(kafka_of_histories: ReferenceKafka) -> Iterator[tuple[Server, Server]]:
    with broker(HISTORY_SETTINGS) as running:
        both = Server("kafka", kafka_of_histories.port), Server("headrace", running.port)
        for server in both:
            for key_type in (0, 1):
                find(server, key_type)
        yield both


def find(server: Server, key_type: int) -> None:
    deadline = time.monotonic() + 60
    while server.ask(FIND_COORDINATOR, 2, {"key": "any", "key_type": key_type})["error_code"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def create_topic(server: Server, name: str) -> None:
    topic = {"name": name, "num_partitions": PARTITIONS, "replication_factor": 1, "assignments": [], "configs": []}
    answer = server.ask(CREATE_TOPICS, 5, {"topics": [topic], "timeout": 30_000, "validate_only": False})
    assert not answer["topics"][0]["error_code"], answer


@dataclass
class Life:
    """One transactional id on one broker: the producer ids it has met, in order."""

    server: Server
    name: str
    producers: list[int] = field(default_factory=list)
    sequences: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def identity(self, place: int) -> int:
        return self.producers[place] if place < len(self.producers) else 999_999_999

    def place_of(self, producer_id: int) -> int:
        """Its place in the history, which it enters if it is new; -1 for none."""
        if producer_id < 0:
            return -1
        if producer_id not in self.producers:
            self.producers.append(producer_id)
        return self.producers.index(producer_id)

    def take(self, step: Step) -> Any:
        deadline = time.monotonic() + 20
        while True:
            answer = getattr(self, step.kind)(step)
            if answer[0] not in TRY_AGAIN or time.monotonic() > deadline:
                return answer
            time.sleep(0.01)

    def init(self, step: Step) -> tuple[int, int, int]:
        known = step.producer >= 0 and step.version >= 3
        body = {
            "transactional_id": self.name,
            "transaction_timeout": 60_000,
            "producer_id": self.identity(step.producer) if known else -1,
            "producer_epoch": step.epoch if known else -1,
        }
        answer = self.server.ask(INIT, step.version, body)
        return answer["error_code"], self.place_of(answer["producer_id"]), answer["producer_epoch"]

    def add(self, step: Step) -> tuple[int, ...]:
        body = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self.identity(step.producer),
            "v3_and_below_producer_epoch": step.epoch,
            "v3_and_below_topics": [{"name": self.name, "partitions": [step.partition]}],
        }
        answer = self.server.ask(ADD_PARTITIONS, step.version, body)
        (topic,) = answer["results_by_topic_v3_and_below"]
        return (topic["results_by_partition"][0]["partition_error_code"],)

    def add_offsets(self, step: Step) -> tuple[int, ...]:
        body = {
            "transactional_id": self.name,
            "producer_id": self.identity(step.producer),
            "producer_epoch": step.epoch,
            "group_id": self.name,
        }
        return (self.server.ask(ADD_OFFSETS, step.version, body)["error_code"],)

    def commit_offsets(self, step: Step) -> tuple[int, ...]:
        partition = {
            "partition_index": step.partition,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        body = {
            "transactional_id": self.name,
            "group_id": self.name,
            "producer_id": self.identity(step.producer),
            "producer_epoch": step.epoch,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": self.name, "partitions": [partition]}],
        }
        answer = self.server.ask(OFFSET_COMMIT, step.version, body)
        return (answer["topics"][0]["partitions"][0]["error_code"],)

    def end(self, step: Step) -> tuple[int, ...]:
        body = {
            "transactional_id": self.name,
            "producer_id": self.identity(step.producer),
            "producer_epoch": step.epoch,
            "committed": step.commit,
        }
        answer = self.server.ask(END, step.version, body)
        if step.version < 5:
            return (answer["error_code"],)
        return answer["error_code"], self.place_of(answer["producer_id"]), answer["producer_epoch"]

    def produce(self, step: Step) -> tuple[int, ...]:
        producer_id = self.identity(step.producer)
        key = (producer_id, step.epoch, step.partition)
        sequence = self.sequences.get(key, 0)
        batch = build_batch(
            [Record(None, b"x", timestamp_ms=time.time_ns() // 1_000_000)],
            producer_id=producer_id,
            producer_epoch=step.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        partition = {"index": step.partition, "records": batch}
        body = {
            "transactional_id": self.name,
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [{"name": self.name, "partition_data": [partition]}],
        }
        answer = self.server.ask(PRODUCE, step.version, body)
        result = answer["responses"][0]["partition_responses"][0]
        if not result["error_code"]:
            self.sequences[key] = sequence + 1
        return result["error_code"], result["base_offset"]

    def state(self, step: Step) -> tuple[Any, ...]:
        """What ListTransactions says, once the markers are written."""
        body = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": None}
        deadline = time.monotonic() + 20
        while True:
            listed = self.server.ask(LIST, 1, body)
            states = [t for t in listed["transaction_states"] if t["transactional_id"] == self.name]
            under_way = any(t["transaction_state"].startswith("Prepare") for t in states)
            if not under_way or time.monotonic() > deadline:
                return (0, *((t["transaction_state"], self.place_of(t["producer_id"])) for t in states))
            time.sleep(0.01)

    def ends(self) -> list[tuple[int, int]]:
        """High watermark and last stable offset of every partition."""
        found = []
        for partition in range(PARTITIONS):
            asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
            offsets = []
            for isolation in (0, 1):
                body = {
                    "replica_id": -1,
                    "isolation_level": isolation,
                    "topics": [{"name": self.name, "partitions": [asked]}],
                }
                answer = self.server.ask(LIST_OFFSETS, 5, body)
                offsets.append(answer["topics"][0]["partitions"][0]["offset"])
            found.append((offsets[0], offsets[1]))
        return found


@dataclass(frozen=True)
class Step:
    kind: str
    version: int
    producer: int = -1
    epoch: int = -1
    partition: int = 0
    commit: bool = True


# Which versions of each request a client of that protocol sends.
VERSIONS: dict[str, dict[str, list[int]]] = {
    "any": {"init": [*range(6)], "add": [*range(4)], "add_offsets": [*range(5)], "state": [0]},
    "classic": {"commit_offsets": [3, 4], "end": [*range(5)], "produce": [9, 10, 11]},
    "version 2": {"commit_offsets": [5], "end": [5], "produce": [12]},
    "mixed": {"commit_offsets": [3, 4, 5], "end": [*range(6)], "produce": [9, 10, 11, 12]},
}


def random_step(choice: random.Random, present: tuple[int, int], protocol: str) -> Step:
    """Mostly what the present producer would do; sometimes with a stale or a future identity."""
    place, epoch = present
    if choice.random() < 0.15:
        place = max(0, place - choice.randrange(2))
        epoch = max(0, epoch + choice.choice((-2, -1, -1, 1)))
    partition = choice.randrange(PARTITIONS)
    kind = choice.choices(
        ["init", "add", "add_offsets", "commit_offsets", "end", "produce", "state"], [2, 4, 1, 2, 5, 6, 1]
    )[0]
    version = choice.choice(VERSIONS[protocol].get(kind) or VERSIONS["any"][kind])
    expected = place if kind != "init" or choice.random() < 0.4 else -1
    return Step(kind, version, expected, epoch, partition, choice.random() < 0.6)


@pytest.mark.parametrize("protocol", ["classic", "version 2", "mixed"])
def test_every_step_is_answered_as_kafka_answers_it(servers: tuple[Server, Server], protocol: str) -> None:
    for seed in range(rounds(short=12, long=200)):
        choice = random.Random(f"{seed}-{protocol}")
        name = f"{protocol[0]}{seed}x{random.randrange(10**9)}"
        for server in servers:
            create_topic(server, name)
        kafka, ours = (Life(server, name) for server in servers)
        history: list[str] = []
        present = (0, 0)
        for number in range(STEPS):
            step = Step("init", 5) if number == 0 else random_step(choice, present, protocol)
            answers = kafka.take(step), ours.take(step)
            if step.kind == "end":
                # Kafka answers before the markers are written: what comes next must not race with them.
                kafka.state(step)
                ours.state(step)
            history.append(f"{step} -> {answers[0]}")
            assert answers[0] == answers[1], f"Kafka {answers[0]}, Headrace {answers[1]} after\n" + "\n".join(history)
            if len(answers[0]) == 3 and answers[0][0] == 0:
                present = answers[0][1], answers[0][2]
        last = Step("state", 0)
        assert kafka.state(last) == ours.state(last), "\n".join(history)
        assert kafka.ends() == ours.ends(), "\n".join(history)


def test_whether_partitions_are_verified_can_be_changed_while_brokers_run(servers: tuple[Server, Server]) -> None:
    def refusal(server: Server) -> int:
        """How a batch is answered whose partition nobody has added to the transaction."""
        life = Life(server, f"v{random.randrange(10**9)}")
        create_topic(server, life.name)
        life.take(Step("init", 5))
        return int(life.take(Step("produce", 9, 0, 0))[0])

    for server in servers:
        for value, expected in (("true", 48), ("false", 0), ("true", 48)):
            config = {"name": "transaction.partition.verification.enable", "value": value, "config_operation": 0}
            resource = {"resource_type": 4, "resource_name": "", "configs": [config]}
            answer = server.ask(44, 1, {"resources": [resource], "validate_only": False})
            assert not answer["responses"][0]["error_code"], answer
            deadline = time.monotonic() + 20
            while (found := refusal(server)) != expected:  # a broker hears of it after the controller has answered
                assert time.monotonic() < deadline, f"{server.name} answers {found} with {value}"
