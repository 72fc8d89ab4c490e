"""Random histories of two transactional ids on one topic, step by step on Apache Kafka and on Headrace.

Every answer must be the same, and also the state that consumers and administrators see in between.
`HEADRACE_ROUNDS=500` runs that many of each protocol. `HEADRACE_SEED=107` begins with that seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.testing import broker
from tests.differential.conftest import HISTORY_SETTINGS
from tests.differential.histories import mostly
from tests.differential.servers import Server
from tests.differential.transaction_history import (
    CREATE_TOPICS,
    FIND_COORDINATOR,
    PARTITIONS,
    StaysPrepared,
    Step,
    TransactionHistory,
)
from tests.reference.kafka import ReferenceKafka
from tests.support.clock import wait_for
from tests.support.effort import rounds
from tests.support.names import unique

pytestmark = pytest.mark.needs("kafka")

STEPS = 40


@pytest.fixture(scope="module")
def servers(history_kafka: ReferenceKafka) -> Iterator[tuple[Server, Server]]:
    with broker(HISTORY_SETTINGS) as running:
        both = Server("kafka", history_kafka.port), Server("headrace", running.port)
        for server in both:
            for key_type in (0, 1):
                find(server, key_type)
        yield both


def find(server: Server, key_type: int) -> None:
    wait_for(
        lambda: not server.ask(FIND_COORDINATOR, 2, {"key": "any", "key_type": key_type})["error_code"],
        f"the coordinators of {server.name}",
    )


def create_topic(server: Server, name: str) -> None:
    topic = {"name": name, "num_partitions": PARTITIONS, "replication_factor": 1, "assignments": [], "configs": []}
    answer = server.ask(CREATE_TOPICS, 5, {"topics": [topic], "timeout": 30_000, "validate_only": False})
    assert not answer["topics"][0]["error_code"], answer


# Versions of each request that a client of that protocol sends.
VERSIONS: dict[str, dict[str, list[int]]] = {
    "any": {
        "init": [*range(6)],
        "add": [*range(4)],
        "add_offsets": [*range(5)],
        "state": [0, 1, 2],
        "describe": [0],
        "describe_producers": [0],
        "delete_records": [0, 1, 2],
        "fetch": [5, 7, 11, 12, 13, 15, 17, 18],
        "committed_offsets": [8],
        "write_markers": [1, 2],
    },
    "classic": {"commit_offsets": [*range(5)], "end": [*range(5)], "produce": [3, 7, 9, 10, 11]},
    "version 2": {"commit_offsets": [5], "end": [5], "produce": [12, 13]},
    "mixed": {
        "add": [*range(6)],
        "commit_offsets": [*range(6)],
        "end": [*range(6)],
        "produce": [3, 8, 9, 10, 11, 12, 13],
    },
}
ODDS = {
    "init": 3,
    "add": 4,
    "add_offsets": 1,
    "commit_offsets": 3,
    "end": 6,
    "produce": 10,
    "state": 1,
    "describe": 2,
    "describe_producers": 2,
    "delete_records": 1,
    "fetch": 4,
    "committed_offsets": 2,
    "write_markers": 1,
}
STATES = ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead", "Bogus"]
# Out of range, and unknown partition. (Not because the topic is still being created: the first step has waited for it.)
FINAL = (1, 3)


def random_step(choice: random.Random, present: dict[str, tuple[int, int]], protocol: str) -> Step:
    """Mostly requests of the current producer, sometimes with a stale, a future or another producer's identity."""
    who = choice.choice(["", "", "-other"])
    place, epoch = present[mostly(choice, who, "", "-other", odds=0.03)]
    if choice.random() < 0.15:
        place = max(0, place - choice.randrange(2))
        epoch = max(0, epoch + choice.choice((-2, -1, -1, 1)))
    kind = choice.choices([*ODDS], [*ODDS.values()])[0]
    version = choice.choice(VERSIONS[protocol].get(kind) or VERSIONS["any"][kind])
    if kind == "write_markers":
        # Not with an epoch above the producer's: Kafka's coordinator then gives up the end of its transaction.
        place, epoch = present[who]
    partition = choice.randrange(PARTITIONS)
    expected = place if kind != "init" or choice.random() < 0.4 else -1
    more = MORE[kind](choice, version, partition, place) if kind in MORE else {}
    return Step(kind, version, expected, epoch, partition, choice.random() < 0.6, who, more)


def more_of_init(choice: random.Random, version: int, partition: int, place: int) -> dict[str, Any]:
    return {"timeout_ms": mostly(choice, 60_000, 0, -1, 900_001, 900_000, odds=0.06)}


def more_of_produce(choice: random.Random, version: int, partition: int, place: int) -> dict[str, Any]:
    numbers = mostly(
        choice, {}, *({"repeats": n} for n in (1, 1, 2, 3, 5, 6, 7)), *({"off": n} for n in (-1, 1, 2, 5)), odds=0.25
    )
    kind = mostly(choice, {}, {"transactional": False}, {"unnamed": True}, odds=0.07)
    return {"count": choice.choice([1, 1, 2, 3]), **numbers, **kind}


def more_of_add(choice: random.Random, version: int, partition: int, place: int) -> dict[str, Any]:
    more: dict[str, Any] = {"final": FINAL}
    if choice.random() < 0.4:
        more["also"] = [mostly(choice, (partition + 1) % PARTITIONS, 7)]
    more["unknown_topic"] = choice.random() < 0.05
    more["verify_only"] = version >= 4 and choice.random() < 0.5
    return more


def more_of_offsets(choice: random.Random, version: int, partition: int, place: int) -> dict[str, Any]:
    odd = [{"generation": 0}, {"generation": 3}, {"member": "somebody"}, {"generation": 1, "member": "x"}]
    odd += [{"instance": "i1"}, {"metadata_bytes": 5_000}]
    return {"offset": choice.randrange(100), **mostly(choice, {}, *odd, odds=0.2)}


def more_of_state(choice: random.Random, version: int, partition: int, place: int) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        {"states": choice.sample(STATES, 2)},
        {"producers": [place]},
        {"longer_than_ms": choice.choice([0, 10**7])},
    ]
    patterns = [".*", "[a-z][0-9]+x.*", "zzz", "", ".*other", "c.*x", "[0-9"]
    if version == 2:
        found += [{"pattern": each} for each in patterns]
    return choice.choice(found) if choice.random() < 0.8 else {}


def more_of_fetch(choice: random.Random, version: int, partition: int, place: int) -> dict[str, Any]:
    more: dict[str, Any] = {
        "isolation": choice.choice([1, 1, 0]),
        "offset": choice.choice([0, 0, 0, 1, 2, 4]),
        "final": FINAL,
    }
    return more | {"max_bytes": mostly(choice, 1 << 20, 1, 100, 300, odds=0.3)}


MORE: dict[str, Callable[[random.Random, int, int, int], dict[str, Any]]] = {
    "init": more_of_init,
    "produce": more_of_produce,
    "add": more_of_add,
    "commit_offsets": more_of_offsets,
    "state": more_of_state,
    "fetch": more_of_fetch,
    "committed_offsets": lambda choice, *_: {"stable": choice.random() < 0.5},
    "delete_records": lambda choice, *_: {"offset": choice.choice([-1, 0, 1, 2, 3]), "final": FINAL},
    "write_markers": lambda choice, *_: {
        "coordinator_epoch": choice.choice([-1, 0, 0, 0]),
        "transaction_version": choice.choice([0, 1, 2]),
    },
}


@pytest.mark.parametrize("protocol", ["classic", "version 2", "mixed"])
def test_every_step_is_answered_as_in_kafka(servers: tuple[Server, Server], protocol: str) -> None:
    first, given_up = int(os.environ.get("HEADRACE_SEED", "0")), 0
    count = rounds(short=8, long=200)
    for seed in range(first, first + count):
        try:
            run_history(servers, seed, protocol)
        except StaysPrepared as stays:
            assert "kafka" in str(stays), f"seed {seed}: {stays}"
            given_up += 1
    assert given_up <= count // 20


def run_history(servers: tuple[Server, Server], seed: int, protocol: str) -> None:
    choice = random.Random(f"{seed}-{protocol}")
    name = unique(f"{protocol[0]}{seed}x")
    for server in servers:
        create_topic(server, name)
    kafka, ours = sides = [TransactionHistory(server, name) for server in servers]
    for side in sides:
        side.wait_for_leaders()
    history: list[str] = []
    present = {"": (0, 0), "-other": (0, 0)}
    for number in range(STEPS):
        step = random_step(choice, present, protocol)
        if number < len(present):
            step = Step("init", 5, who=[*present][number])
        answers = kafka.take(step), ours.take(step)
        history.append(f"{step} -> {answers[0]}")
        said = f"seed {seed}: Kafka {answers[0]}, Headrace {answers[1]} after\n"
        assert answers[0] == answers[1], said + "\n".join(history)
        if step.kind in ("init", "end") and len(answers[0]) == 3 and answers[0][0] == 0:
            present[step.who] = answers[0][1], answers[0][2]
    for last in (Step("state", 0), Step("committed_offsets", 8)):
        assert kafka.take(last) == ours.take(last), "\n".join(history)
    assert kafka.ends() == ours.ends(), "\n".join(history)


def test_partition_verification_can_be_switched_at_run_time(servers: tuple[Server, Server]) -> None:
    def refusal(server: Server) -> int:
        """The answer to a batch whose partition was not added to the transaction."""
        side = TransactionHistory(server, unique("v"))
        create_topic(server, side.name)
        side.take(Step("init", 5))
        return int(side.take(Step("produce", 9, 0, 0))[0])

    for server in servers:
        for value, expected in (("true", 48), ("false", 0), ("true", 48)):
            config = {"name": "transaction.partition.verification.enable", "value": value, "config_operation": 0}
            resource = {"resource_type": 4, "resource_name": "", "configs": [config]}
            answer = server.ask(44, 1, {"resources": [resource], "validate_only": False})
            assert not answer["responses"][0]["error_code"], answer
            assert refusal(server) == expected, f"{server.name} with {value}"
