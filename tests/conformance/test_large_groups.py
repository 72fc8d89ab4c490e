"""A group of 200 members, 50 more join at once, 50 leave in one request: each change causes one new generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headrace.testing import RunningBroker, broker
from tests.support.group_requests import BEAT, JOIN, SYNC, Client, leave, patient_find

JOIN_VERSION, SYNC_VERSION, BEAT_VERSION = 9, 5, 4
REBALANCE, MEMBER_ID_REQUIRED = 27, 79


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"group.initial.rebalance.delay.ms": "300"}) as started:
        yield started


class Member:
    def __init__(self, bootstrap: str, group: str) -> None:
        self.client = Client(bootstrap)
        self.group = group
        self.id = ""
        self.generation = -1
        self.assignment = b""

    def join_body(self) -> dict[str, Any]:
        # As large as the metadata of a cooperative consumer, and a little more.
        return {
            "group_id": self.group,
            "session_timeout": 45_000,
            "rebalance_timeout": 60_000,
            "member_id": self.id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": b"m" * 200} for name in ("range", "cooperative-sticky")],
            "reason": None,
        }

    def body(self, **more: Any) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": None,
            **more,
        }


def all_ask(members: Sequence[Member], api: int, version: int, bodies: Sequence[dict[str, Any]]) -> list[Any]:
    """Sends all requests before it reads the first answer."""
    for member, body in zip(members, bodies, strict=True):
        member.client.send(api, version, body)
    return [member.client.receive(api, version) for member in members]


def get_ids(members: Sequence[Member]) -> None:
    for member, answer in zip(
        members, all_ask(members, JOIN, JOIN_VERSION, [m.join_body() for m in members]), strict=True
    ):
        assert answer.error_code == MEMBER_ID_REQUIRED
        member.id = answer.member_id


def make_generation(members: Sequence[Member]) -> int:
    """All members join, and the leader gives each its own assignment. Returns the generation of all members."""
    joined = all_ask(members, JOIN, JOIN_VERSION, [m.join_body() for m in members])
    assert {int(answer.error_code) for answer in joined} == {0}
    (generation,) = {answer.generation_id for answer in joined}
    (leader,) = {answer.leader for answer in joined}
    (known,) = [{m.member_id for m in answer.members} for answer in joined if answer.members]
    assert known == {m.id for m in members}
    given = [{"member_id": m.id, "assignment": f"for {m.id}".encode()} for m in members]
    bodies = []
    for member in members:
        member.generation = generation
        said = {"protocol_type": "consumer", "protocol_name": joined[0].protocol_name}
        bodies.append(member.body(**said, assignments=given if member.id == leader else []))
    synced = all_ask(members, SYNC, SYNC_VERSION, bodies)
    assert [bytes(a.assignment).decode() for a in synced] == [f"for {m.id}" for m in members]
    return int(generation)


def beats(members: Sequence[Member]) -> set[int]:
    return {int(a.error_code) for a in all_ask(members, BEAT, BEAT_VERSION, [m.body() for m in members])}


def test_each_change_of_a_group_of_two_hundred_causes_one_generation(bootstrap: str) -> None:
    members = [Member(bootstrap, "large") for _ in range(200)]
    patient_find(members[0].client, "large")
    get_ids(members)
    assert make_generation(members) == 1, "they came within the delay of the first rebalance"
    assert beats(members) == {0}
    more = [Member(bootstrap, "large") for _ in range(50)]
    get_ids(more)
    for member in more:
        member.client.send(JOIN, JOIN_VERSION, member.join_body())
    while beats(members) != {REBALANCE}:
        pass  # the JoinGroup requests of the new members are on their way
    joined = all_ask(members, JOIN, JOIN_VERSION, [m.join_body() for m in members])
    joined += [member.client.receive(JOIN, JOIN_VERSION) for member in more]
    assert {(int(a.error_code), a.generation_id) for a in joined} == {(0, 2)}
    gone, members = members[:50], members[50:] + more
    left = leave(members[0].client, "large", *((m.id, None) for m in gone))
    assert [int(m.error_code) for m in left.members] == [0] * 50
    assert make_generation(members) == 3
    assert beats(members) == {0}
    for member in [*gone, *members]:
        member.client.close()
