"""A random client of the consumer group protocol (KIP-848), and one of both protocols in one group (`MixedModel`)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from headrace.coordinators.group.core.consumer.java_order import java_hash
from tests.differential.classic_history import ClassicModel, Offsets
from tests.differential.histories import Step, mostly
from tests.support.group_requests import CONSUMER_BEAT, CONSUMER_DESCRIBE, DELETE, DESCRIBE, FETCH, LIST

NAMES = ("a", "b", "c", "d", "e")
TOPICS: tuple[list[str], ...] = (["t"], ["t"], ["u"], ["t", "u"], [], ["missing"], ["t", "missing"])


@dataclass
class Member:
    name: str
    instance: str | None = None
    epoch: int = -1
    former_epoch: int = -1
    is_in: bool = False
    # The last assignment, by the name of the topic id. The owned partitions follow one heartbeat later.
    given: dict[str, list[int]] = field(default_factory=dict)


class ConsumerModel:
    def __init__(self, choice: random.Random, group: str) -> None:
        self.choice = choice
        self.group = group
        self.offsets = Offsets(choice, group)
        self.members = {name: Member(name) for name in NAMES}
        self._made = 0

    # Choose a step

    def next_step(self) -> Step:
        kinds = ["beat", "join", "change", "leave", "odd", "commit", "fetch", "look", "delete", "delete_offsets"]
        kind = self.choice.choices(kinds, [40, 14, 8, 6, 12, 6, 4, 8, 1, 1])[0]
        step: Step = getattr(self, f"_{kind}")()
        return step

    def _inside(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_in]

    def _beat(self) -> Step:
        inside = self._inside()
        if not inside:
            return self._join()
        member = self.choice.choice(inside)
        owned = mostly(self.choice, member.given, None, odds=0.3)
        return self._heartbeat(member, member.epoch, owned=owned)

    def _heartbeat(self, member: Member, epoch: int, owned: dict[str, list[int]] | None = None, **changes: Any) -> Step:
        partitions = None if owned is None else [{"topic_id": t, "partitions": p} for t, p in owned.items() if p]
        body = {
            "group_id": self.group,
            "member_id": member.name,
            "member_epoch": epoch,
            "instance_id": member.instance,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": partitions,
            **changes,
        }
        return Step(CONSUMER_BEAT, 1, body, who=member.name)

    def _join(self) -> Step:
        outside = [member for member in self.members.values() if not member.is_in]
        if not outside or len(self._inside()) > len(NAMES):
            return self._beat()
        member = self.choice.choice(outside)
        return self._joining(self._as(member, mostly(self.choice, None, "i1", "i2", odds=0.35)))

    def _as(self, member: Member, instance: str | None) -> Member:
        """A member id belongs to one instance for ever. With another instance it is a new member. Kafka's
        assignors order ids by hash, and ids with equal hashes by the order in which it met them, so such ids are
        not used together.
        """
        if instance == member.instance:
            return member
        taken = {java_hash(each.name) % 16 for each in self.members.values() if each.is_in}
        self._made += 1
        while java_hash(f"{member.name[0]}{self._made}") % 16 in taken:
            self._made += 1
        fresh = Member(f"{member.name[0]}{self._made}", instance)
        self.members[fresh.name] = fresh
        return fresh

    def _joining(self, member: Member) -> Step:
        choice = self.choice
        return self._heartbeat(
            member,
            0,
            owned={},
            rebalance_timeout=60_000,
            # A new member without a subscription makes Kafka assign from outdated metadata, sometimes nothing to any
            # member.
            subscribed_topic_names=choice.choice([names for names in TOPICS if names]),
            server_assignor=mostly(choice, None, "uniform", "range", "mine", odds=0.4),
        )

    def _change(self) -> Step:
        inside = self._inside()
        if not inside:
            return self._join()
        member = self.choice.choice(inside)
        possible: list[dict[str, Any]] = [
            {"subscribed_topic_names": self.choice.choice(TOPICS)},
            {"server_assignor": self.choice.choice(["uniform", "range"])},
            {"rebalance_timeout": 50_000, "subscribed_topic_names": self.choice.choice(TOPICS)},
            {"rack_id": "here"},
        ]
        changes = self.choice.choice(possible)
        return self._heartbeat(member, member.epoch, owned=member.given, **changes)

    def _leave(self) -> Step:
        inside = self._inside()
        if not inside:
            return self._look()
        member = self.choice.choice(inside)
        epoch = -2 if member.instance and self.choice.random() < 0.6 else -1
        return self._heartbeat(member, epoch)

    def _odd(self) -> Step:
        """A wrong request: an old or future epoch, another member's partitions, another member's instance id."""
        choice = self.choice
        member = choice.choice(list(self.members.values()))
        epoch = choice.choice([member.epoch - 1, member.former_epoch, member.former_epoch, member.epoch + 1, 0, -2, -3])
        owned = choice.choice([None, {}, member.given, {"<id of t>": [0]}, {"<id of t>": [0, 1]}])
        instance = choice.choice([member.instance, member.instance, None, "i1", "i2", "i9"])
        if epoch == 0:
            return self._joining(self._as(member, instance))
        return self._heartbeat(Member(member.name, instance), epoch, owned=owned)

    def _commit(self) -> Step:
        member = self.choice.choice(list(self.members.values()))
        epoch = mostly(self.choice, member.epoch, member.former_epoch, member.epoch + 1, -1, odds=0.4)
        return self.offsets.commit(mostly(self.choice, member.name, "", odds=0.1), epoch, None, range(8, 11))

    def _fetch(self) -> Step:
        member = self.choice.choice(list(self.members.values()))
        if self.choice.random() < 0.3:
            return self.offsets.fetch()
        epoch = mostly(self.choice, member.epoch, member.former_epoch, member.epoch + 1, odds=0.4)
        return self.offsets.fetch(member.name, epoch, range(9, 11))

    def _delete_offsets(self) -> Step:
        return self.offsets.delete()

    def _delete(self) -> Step:
        return Step(DELETE, 2, {"groups_names": [self.group]})

    def _look(self) -> Step:
        if self.choice.random() < 0.2:
            body = {"groups": [self.group], "include_authorized_operations": False}
            return Step(DESCRIBE, self.choice.randrange(7), body)
        return self._describe()

    def _describe(self) -> Step:
        body = {"group_ids": [self.group], "include_authorized_operations": False}
        return Step(CONSUMER_DESCRIBE, self.choice.randrange(2), body)

    # Handle an answer

    def heard(self, step: Step, answer: Any) -> None:
        if step.api != CONSUMER_BEAT:
            return
        member = self.members[step.who]
        error = answer["error_code"]
        if error:
            if error in (25, 110) and step.body["member_epoch"] == member.epoch:
                member.is_in = False
            return
        epoch = answer["member_epoch"]
        if epoch < 0:
            member.is_in, member.given = False, {}
            return
        if step.body["member_epoch"] == 0:
            member.given, member.instance = {}, step.body["instance_id"]
            for other in self.members.values():
                if other is not member and member.instance and other.instance == member.instance:
                    other.is_in = False
        member.is_in = True
        if epoch != member.epoch:
            member.former_epoch, member.epoch = member.epoch, epoch
        if answer["assignment"] is not None:
            member.given = {each["topic_id"]: each["partitions"] for each in answer["assignment"]["topic_partitions"]}

    # The end

    def last_steps(self) -> list[Step]:
        asked = {"group_id": self.group, "member_id": None, "member_epoch": -1, "topics": None}
        return [
            self._describe(),
            *(self._heartbeat(member, -1) for member in self._inside()),
            self._describe(),
            Step(FETCH, 9, {"groups": [asked], "require_stable": False}),
            Step(LIST, 5, {"states_filter": [], "types_filter": []}),
        ]


class MixedModel:
    """Members of both protocols in one group, which migrates from one to the other and back."""

    def __init__(self, choice: random.Random, group: str) -> None:
        self._choice = choice
        self._classic = ClassicModel(choice, group)
        self._consumer = ConsumerModel(choice, group)

    def next_step(self) -> Step:
        return self._classic.next_step() if self._choice.random() < 0.5 else self._consumer.next_step()

    def heard(self, step: Step, answer: Any) -> None:
        self._classic.heard(step, answer)
        self._consumer.heard(step, answer)

    def last_steps(self) -> list[Step]:
        return [*self._consumer.last_steps(), *self._classic.last_steps()]
