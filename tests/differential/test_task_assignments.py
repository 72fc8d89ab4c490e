"""The sticky task assignor gives the same assignments as Kafka's, also among equally loaded candidates.

`HEADRACE_ROUNDS=5000` runs that many groups. Each has six generations, between which members come and go.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.coordinators.codec.streams_groups import TaskIds
from headrace.coordinators.group.core.streams.sticky_assignor import (
    AssignedStreamsMember,
    TaskSource,
    assign_sticky,
)
from tests.support.effort import rounds
from tests.support.java_client import JavaProgram

pytestmark = [pytest.mark.needs("kafka"), pytest.mark.needs("javac")]

# One letter each: no two are in the same bucket of Kafka's hash tables, whose order would be that of insertion.
NAMES = "abcdefghijklmnop"
Members = dict[str, AssignedStreamsMember]


@pytest.fixture(scope="module")
def kafkas() -> Iterator[JavaProgram]:
    with JavaProgram("TaskAssignments") as program:
        yield program


def numbers(tasks: TaskIds) -> dict[str, list[int]]:
    return {name: sorted(partitions) for name, partitions in tasks.items()}


def by_kafka(program: JavaProgram, members: Members, sources: Mapping[str, TaskSource], replicas: int) -> Any:
    described = {
        name: {"process": each.process_id, "active": numbers(each.active), "standby": numbers(each.standby)}
        for name, each in members.items()
    }
    group = {"members": described, "sources": {name: list(each) for name, each in sources.items()}}
    return json.loads(program.ask(json.dumps({**group, "replicas": replicas})))


def test_every_assignment_equals_kafkas(kafkas: JavaProgram) -> None:
    for seed in range(rounds(short=30, long=2_000)):
        choice = random.Random(seed)
        processes = choice.choice([1, 3, 6, 20])
        members = {
            name: AssignedStreamsMember(f"p{choice.randrange(processes)}", {}, {})
            for name in choice.sample(NAMES, choice.randint(1, 12))
        }
        sources = {
            str(number): TaskSource(choice.randint(1, 7), choice.random() < 0.6)
            for number in range(choice.randint(1, 4))
        }
        for generation in range(6):
            replicas = choice.choice([0, 0, 1, 1, 2])
            ours = assign_sticky(members, sources, replicas)
            found = {name: [numbers(tasks.active), numbers(tasks.standby)] for name, tasks in ours.items()}
            assert found == by_kafka(kafkas, members, sources, replicas), f"seed {seed}, generation {generation}"
            members = {
                name: AssignedStreamsMember(each.process_id, ours[name].active, ours[name].standby)
                for name, each in members.items()
            }
            if len(members) > 1 and choice.random() < 0.6:
                del members[choice.choice(sorted(members))]
            if len(members) < 12 and choice.random() < 0.6:
                newcomer = choice.choice([name for name in NAMES if name not in members])
                members[newcomer] = AssignedStreamsMember(f"p{choice.randrange(6)}", {}, {})
