"""A random client of the classic group protocol: several members, mostly correct, sometimes stale or wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from headrace.coordinators.group.core.classic.embedded_protocol import (
    Subscription,
    write_assignment,
    write_subscription,
)
from tests.differential.histories import Step, mostly
from tests.support.group_requests import (
    BEAT,
    COMMIT,
    DELETE,
    DESCRIBE,
    FETCH,
    JOIN,
    LEAVE,
    LIST,
    OFFSET_DELETE,
    SYNC,
)

NOBODY = "nobody"
MAX_MEMBERS = 4


@dataclass
class Member:
    name: str
    instance: str | None
    # "asked" (knows its id), "joining" and "syncing" (waits for an answer), "joined", "stable", "stale", "gone"
    state: str
    generation: int = -1
    protocols: int = 0


class Offsets:
    """Offset commits and fetches of a group, by any sender."""

    def __init__(self, choice: random.Random, group: str) -> None:
        self._choice = choice
        self._group = group

    def commit(self, who: str, generation: int, instance: str | None = None, versions: range = range(2, 11)) -> Step:
        choice = self._choice
        partitions = [
            {
                "partition_index": mostly(choice, choice.randrange(2), 5, odds=0.05),
                "committed_offset": choice.randrange(100),
                "committed_leader_epoch": mostly(choice, 0, -1),
                "committed_metadata": mostly(choice, "m", "", None, "x" * 4_096, "x" * 4_097, odds=0.3),
            }
        ]
        topics = [
            {"name": name, "topic_id": f"<id of {name}>", "partitions": partitions}
            for name in sorted({mostly(choice, "t", "u", "missing", odds=0.3) for _ in range(2)})
        ]
        body = {
            "group_id": self._group,
            "generation_id_or_member_epoch": generation,
            "member_id": who,
            "group_instance_id": instance,
            "retention_time": -1,
            "topics": topics,
        }
        return Step(COMMIT, choice.choice(versions), body, who=who)

    def fetch(self, member: str | None = None, epoch: int = -1, versions: range = range(1, 11)) -> Step:
        choice = self._choice
        version = choice.choice(versions)
        names = [["t", "u"], ["t", "missing"], None][choice.randrange(3 if version >= 2 else 2)]
        topics: list[dict[str, Any]] | None = None
        if names is not None:
            topics = [{"name": n, "topic_id": f"<id of {n}>", "partition_indexes": [0, 1]} for n in names]
        asked = {"group_id": self._group, "member_id": member, "member_epoch": epoch, "topics": topics}
        stable = choice.random() < 0.3
        body = {"groups": [asked], "require_stable": stable} if version >= 8 else {**asked, "require_stable": stable}
        return Step(FETCH, version, body, who=member or "")

    def delete(self) -> Step:
        partitions = [{"partition_index": index} for index in (0, 1, 7)]
        topics = [{"name": self._choice.choice(["t", "u", "missing"]), "partitions": partitions}]
        return Step(OFFSET_DELETE, 0, {"group_id": self._group, "topics": topics})


class ClassicModel:
    def __init__(self, choice: random.Random, group: str) -> None:
        self.choice = choice
        self.group = group
        self.offsets = Offsets(choice, group)
        self.members: list[Member] = []
        self.newcomers: dict[str, Member] = {}
        self.leader = ""
        self.generation = 0
        self.made = 0

    # Choose a step

    def next_step(self) -> Step:
        kinds = ["move", "newcomer", "leave", "commit", "fetch", "odd", "look", "delete", "delete_offsets"]
        kind = self.choice.choices(kinds, [45, 12, 5, 9, 4, 12, 5, 2, 2])[0]
        step: Step = getattr(self, f"_{kind}")()
        return step

    def _alive(self) -> list[Member]:
        return [member for member in self.members if member.state != "gone"]

    def _move(self) -> Step:
        idle = [member for member in self._alive() if member.state not in ("joining", "syncing")]
        if not idle:
            return self._newcomer()
        member = self.choice.choice(idle)
        if member.state in ("asked", "stale"):
            return self._join(member)
        if member.state == "joined":
            return self._sync(member, member.generation)
        if self.choice.random() < 0.15:
            member.protocols = mostly(self.choice, member.protocols, 0, 1, 2, odds=0.5)
            return self._join(member)
        return self._beat(member.name, member.generation, member.instance)

    def _newcomer(self) -> Step:
        choice = self.choice
        if len(self._alive()) + len(self.newcomers) >= mostly(choice, MAX_MEMBERS, MAX_MEMBERS + 1):
            return self._look()
        self.made += 1
        instance = choice.choice([None, None, None, "i1", "i2"])
        name = f"<m{self.made}>"
        member = Member(name, instance, "new", protocols=mostly(choice, 0, 1, 2, 3, odds=0.4))
        self.newcomers[name] = member
        return self._join(member, member_id="")

    def _join(self, member: Member, *, member_id: str | None = None, **changes: Any) -> Step:
        choice = self.choice
        if member.name not in self.newcomers:
            member.state = "joining"
        body = {
            "group_id": self.group,
            "session_timeout": 60_000,
            "rebalance_timeout": 60_000,
            "member_id": member.name if member_id is None else member_id,
            "group_instance_id": member.instance,
            "protocol_type": mostly(choice, "consumer", "connect", "", odds=0.03),
            "protocols": _protocols(member.protocols),
            "reason": None,
            **changes,
        }
        versions = range(5, 10) if member.instance else range(10)
        return Step(JOIN, choice.choice(versions), body, newcomer=member.name, who=member.name)

    def _sync(self, member: Member, generation: int, **changes: Any) -> Step:
        choice = self.choice
        member.state = "syncing"
        given = []
        if member.name == self.leader or choice.random() < 0.1:
            given = [
                {"member_id": each.name, "assignment": write_assignment((("t", (at,)),), 1)}
                for at, each in enumerate(self._alive())
            ]
        body = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": member.name,
            "group_instance_id": member.instance,
            "protocol_type": mostly(choice, "consumer", "connect", None, odds=0.03),
            "protocol_name": mostly(choice, self.protocol, "other", None, odds=0.03),
            "assignments": given,
            **changes,
        }
        versions = range(3, 6) if member.instance else range(6)
        return Step(SYNC, choice.choice(versions), body, who=member.name)

    protocol = "range"

    def _beat(self, name: str, generation: int, instance: str | None) -> Step:
        body = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": name,
            "group_instance_id": instance,
        }
        return Step(BEAT, self.choice.choice(range(3, 5) if instance else range(5)), body, who=name)

    def _leave(self) -> Step:
        alive = self._alive()
        named = [
            {"member_id": mostly(self.choice, m.name, ""), "group_instance_id": m.instance, "reason": None}
            for m in self.choice.sample(alive, min(len(alive), self.choice.choice([1, 1, 2])))
        ]
        named += [{"member_id": NOBODY, "group_instance_id": None, "reason": None}] * (self.choice.random() < 0.2)
        named += [{"member_id": "", "group_instance_id": "i9", "reason": None}] * (self.choice.random() < 0.1)
        named = named or [{"member_id": NOBODY, "group_instance_id": "i1", "reason": None}]
        single = len(named) == 1 and named[0]["group_instance_id"] is None and self.choice.random() < 0.5
        version = self.choice.choice(range(3) if single else range(3, 6))
        body = {"group_id": self.group, "member_id": named[0]["member_id"], "members": named}
        return Step(LEAVE, version, body)

    def _commit(self) -> Step:
        alive = self._alive()
        if not alive or self.choice.random() < 0.2:
            return self.offsets.commit("", -1)
        member = self.choice.choice(alive)
        generation = mostly(self.choice, member.generation, member.generation - 1, -1, 99)
        return self.offsets.commit(
            member.name, generation, member.instance, range(7, 11) if member.instance else range(2, 11)
        )

    def _fetch(self) -> Step:
        return self.offsets.fetch()

    def _delete_offsets(self) -> Step:
        return self.offsets.delete()

    def _delete(self) -> Step:
        return Step(DELETE, self.choice.randrange(3), {"groups_names": [self.group]})

    def _look(self) -> Step:
        return Step(
            DESCRIBE,
            self.choice.randrange(7),
            {"groups": [self.group], "include_authorized_operations": False},
        )

    def _odd(self) -> Step:
        """A wrong request: a stale generation, an unknown member id or another member's, another member's
        instance id.
        """
        choice = self.choice
        member = choice.choice(self.members) if self.members else Member(NOBODY, None, "gone")
        instance = choice.choice([member.instance, None, "i1", "i2", "i9"])
        generation = choice.choice([member.generation, self.generation, self.generation - 1, self.generation + 1, -1])
        name = choice.choice([member.name, member.name, NOBODY])
        # Kafka drops a waiting request when the same member sends another one, and never answers the first.
        waits = name == member.name and member.state in ("joining", "syncing")
        kind = choice.choice([0, 3]) if waits else choice.randrange(4)
        if kind == 2 and member.generation < 0:
            instance = None  # a pending member with an instance id makes Kafka throw
        stranger = Member(name, instance, "gone", protocols=member.protocols)
        if kind == 0:
            return self._beat(name, generation, instance)
        if kind == 1:
            return self._sync(stranger, generation)
        if kind == 2:
            return self._join(stranger, **mostly(choice, {}, {"session_timeout": 1}, {"protocols": []}))
        return self.offsets.commit(name, generation, instance, range(7, 11))

    # Handle an answer

    def heard(self, step: Step, answer: Any) -> None:
        if step.api == JOIN:
            self._heard_join(step, answer)
        elif step.api == LEAVE:
            for left in answer.get("members", ()) if step.version >= 3 else ():
                if not left["error_code"]:
                    self._gone(left["member_id"], left["group_instance_id"])
            if step.version < 3 and not answer["error_code"]:
                self._gone(step.body["member_id"], None)
        elif step.api in (BEAT, SYNC, COMMIT):
            member = self._named(step.who)
            error = answer.get("error_code", 0)
            if member is None or (member.state in ("joining", "syncing") and step.api != SYNC):
                return
            if error in (25, 82):
                member.state = "gone"
            elif error in (22, 27):
                member.state = "stale"
            elif step.api == SYNC:
                member.state = "stale" if error else "stable"

    def _heard_join(self, step: Step, answer: Any) -> None:
        error = answer["error_code"]
        member = self.newcomers.pop(step.who, None) or self._named(step.who)
        if member is None or (error and error != 79):
            if member is not None and member in self.members:
                member.state = "gone" if error in (25, 82) else "stale"
            return
        if member not in self.members:
            for other in self.members:
                if member.instance is not None and other.instance == member.instance:
                    other.state = "gone"
            self.members.append(member)
        if error == 79:
            member.state = "asked"
            return
        member.state, member.generation = "joined", answer["generation_id"]
        self.generation, self.leader = answer["generation_id"], answer["leader"]
        self.protocol = answer["protocol_name"] or "range"

    def _named(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def _gone(self, name: str, instance: str | None) -> None:
        for member in self.members:
            if member.name == name or (not name and instance is not None and member.instance == instance):
                member.state = "gone"

    # The end

    def last_steps(self) -> list[Step]:
        named = [{"member_id": m.name, "group_instance_id": m.instance, "reason": None} for m in self.members]
        named += [{"member_id": "", "group_instance_id": name, "reason": None} for name in ("i1", "i2")]
        asked = {"group_id": self.group, "member_id": None, "member_epoch": -1, "topics": None}
        return [
            self._look(),
            Step(LEAVE, 5, {"group_id": self.group, "members": named}),
            Step(FETCH, 9, {"groups": [asked], "require_stable": False}),
            Step(DESCRIBE, 6, {"groups": [self.group], "include_authorized_operations": False}),
            Step(LIST, 5, {"states_filter": [], "types_filter": []}),
        ]


def _protocols(kind: int) -> list[dict[str, Any]]:
    names = [["range"], ["range", "sticky"], ["sticky", "range"], ["other"]][kind]
    subscribed = ("t",) if kind != 1 else ("t", "u")
    return [{"name": name, "metadata": write_subscription(Subscription(1, subscribed, b""))} for name in names]
