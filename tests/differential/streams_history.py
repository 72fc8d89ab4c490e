"""A random client of the streams protocol (KIP-1071): members of several processes, of applications of every shape."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.differential.classic_history import Offsets
from tests.differential.histories import Step, mostly
from tests.support.group_requests import DELETE, DESCRIBE, FETCH, LIST, STREAMS_BEAT, STREAMS_DESCRIBE

NAMES = ("a", "b", "c", "d", "e")
INCREMENTAL_ALTER_CONFIGS, GROUP = 44, 32
MISSING_INTERNAL_TOPICS = 3
Tasks = dict[str, list[int]]


def internal(name: str, partitions: int = 0, policy: str = "") -> dict[str, Any]:
    pairs = [{"key": "cleanup.policy", "value": policy}] if policy else []
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": pairs}


def subtopology(name: str, *sources: str, **more: Any) -> dict[str, Any]:
    return {
        "subtopology_id": name,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
        **more,
    }


def copartitioned(sources: list[int], repartitions: list[int]) -> list[dict[str, Any]]:
    return [{"source_topics": sources, "source_topic_regex": [], "repartition_source_topics": repartitions}]


def applications(group: str) -> dict[str, list[dict[str, Any]]]:
    """`t` has 2 partitions, `u` has 3."""
    store, other, repartition = f"{group}-store-changelog", f"{group}-other-changelog", f"{group}-key-repartition"
    return {
        "stateless": [subtopology("0", "t")],
        "stateful": [subtopology("0", "u", state_changelog_topics=[internal(store, policy="compact")])],
        "several inputs": [subtopology("0", "t", "u"), subtopology("1", "q")],
        "word count": [
            subtopology("0", "u", repartition_sink_topics=[repartition]),
            subtopology(
                "1",
                repartition_source_topics=[internal(repartition, policy="delete")],
                state_changelog_topics=[internal(store)],
            ),
        ],
        "two stores": [
            subtopology("0", "t", state_changelog_topics=[internal(store)]),
            subtopology("1", "u", state_changelog_topics=[internal(other)]),
        ],
        "fixed count": [
            subtopology("0", "t", repartition_sink_topics=[repartition]),
            subtopology("1", repartition_source_topics=[internal(repartition, 4)]),
        ],
        "joined": [
            subtopology("0", "u", repartition_sink_topics=[repartition]),
            subtopology(
                "1",
                "t",
                repartition_source_topics=[internal(repartition)],
                state_changelog_topics=[internal(store), internal(other)],
                copartition_groups=copartitioned([0], [0]),
            ),
        ],
        "not copartitioned": [subtopology("0", "t", "u", copartition_groups=copartitioned([0, 1], []))],
        "wrong fixed count": [
            subtopology("0", "u", repartition_sink_topics=[repartition]),
            subtopology(
                "1",
                "t",
                repartition_source_topics=[internal(repartition, 5)],
                copartition_groups=copartitioned([0], [0]),
            ),
        ],
        "without sources": [subtopology("0", "t", "missing", "absent")],
        "a loop": [
            subtopology("0", repartition_sink_topics=[repartition], repartition_source_topics=[internal(repartition)])
        ],
        "no sink": [subtopology("0", "t", repartition_source_topics=[internal(repartition)])],
        "an internal topic": [subtopology("0", "__consumer_offsets")],
        "a wrong name": [subtopology("0", "t", "not/valid")],
        "a counted changelog": [subtopology("0", "t", state_changelog_topics=[internal(store, 3)])],
        "a pattern": [subtopology("0", "t", source_topic_regex=["a.*"])],
        "no input": [subtopology("0", "t"), subtopology("1")],
    }


RUNNING = ("stateless", "stateful", "several inputs", "word count", "two stores", "fixed count", "joined")


@dataclass
class Member:
    name: str
    process: str
    epoch: int = -1
    former_epoch: int = -1
    is_in: bool = False
    endpoint_epoch: int = -1
    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)


class StreamsModel:
    def __init__(
        self, choice: random.Random, group: str, settle: Callable[[list[str]], None] = lambda topics: None
    ) -> None:
        """`settle` waits until both brokers have created these internal topics."""
        self.choice = choice
        self.group = group
        self.settle = settle
        self.offsets = Offsets(choice, group)
        processes = choice.choice([("p1", "p2", "p3", "p4", "p5"), ("p1", "p1", "p2", "p2", "p2"), ("p1", "p2") * 3])
        self.members = {name: Member(name, process) for name, process in zip(NAMES, processes, strict=False)}
        self.applications = applications(group)
        self.usual = choice.choice([*RUNNING] * 4 + [*self.applications])
        self.subtopologies: list[dict[str, Any]] = self.applications[self.usual]

    # Choose a step

    def next_step(self) -> Step:
        kinds = ["beat", "join", "change", "leave", "odd", "commit", "fetch", "look", "delete", "configure", "end"]
        kind = self.choice.choices(kinds, [46, 14, 5, 5, 12, 5, 4, 8, 1, 2, 1])[0]
        step: Step = getattr(self, f"_{kind}")()
        return step

    def _inside(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_in]

    def _beat(self) -> Step:
        inside = self._inside()
        if not inside:
            return self._join()
        member = self.choice.choice(inside)
        return self._heartbeat(member, member.epoch, owned=self.choice.random() < 0.75)

    def _heartbeat(self, member: Member, epoch: int, *, owned: bool = False, **changes: Any) -> Step:
        body = {
            "group_id": self.group,
            "member_id": member.name,
            "member_epoch": epoch,
            "endpoint_information_epoch": member.endpoint_epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": -1,
            "topology": None,
            "active_tasks": task_ids(member.active) if owned else None,
            "standby_tasks": task_ids(member.standby) if owned else None,
            "warmup_tasks": [] if owned else None,
            "process_id": None,
            "user_endpoint": None,
            "client_tags": None,
            "task_offsets": None,
            "task_end_offsets": None,
            "shutdown_application": False,
            **changes,
        }
        return Step(STREAMS_BEAT, 0, body, who=member.name)

    def _join(self) -> Step:
        outside = [member for member in self.members.values() if not member.is_in]
        return self._joining(self.choice.choice(outside)) if outside else self._beat()

    def _joining(self, member: Member, **changes: Any) -> Step:
        other = self.choice.choice([*self.applications.values()])
        topology = {
            "epoch": mostly(self.choice, 1, 0, 2, -1, odds=0.1),
            "subtopologies": mostly(self.choice, self.subtopologies, other, self.subtopologies[::-1], odds=0.1),
        }
        # Kafka fails with an unknown error for a member with an endpoint while topics of the application are missing.
        is_ready = self.usual in RUNNING and topology["subtopologies"] is self.subtopologies
        has_endpoint = is_ready and member.name in "ab"
        endpoint = {"host": f"{member.name}.example", "port": 40_000} if has_endpoint else None
        tags = [{"key": "zone", "value": "1"}, {"key": "cluster", "value": "x"}]
        joining = {
            "rebalance_timeout": 60_000,
            "topology": topology,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": member.process,
            "user_endpoint": endpoint,
            "client_tags": mostly(self.choice, [], tags, odds=0.3),
        }
        return self._heartbeat(member, 0, **{**joining, **changes})

    def _change(self) -> Step:
        inside = self._inside()
        if not inside:
            return self._join()
        member = self.choice.choice(inside)
        possible: list[dict[str, Any]] = [
            {"rack_id": self.choice.choice(["here", "there"])},
            {"rebalance_timeout": 50_000},
            {"client_tags": [{"key": "zone", "value": self.choice.choice("12")}]},
            {"shutdown_application": True},
        ]
        if self.usual in RUNNING:
            possible.append({"user_endpoint": {"host": "new.example", "port": 65_535}})
        return self._heartbeat(member, member.epoch, owned=True, **self.choice.choice(possible))

    def _leave(self) -> Step:
        inside = self._inside()
        return self._heartbeat(self.choice.choice(inside), -1) if inside else self._look()

    def _odd(self) -> Step:
        """A wrong request: an old or future epoch, tasks of another member, fields that do not belong together."""
        choice = self.choice
        member = choice.choice(list(self.members.values()))
        epoch = choice.choice([member.epoch - 1, member.former_epoch, member.former_epoch, member.epoch + 1, 0, -2, -3])
        if epoch == 0:
            wrong: list[dict[str, Any]] = [
                {"topology": None},
                {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
                {"standby_tasks": None},
                {"rebalance_timeout": -1},
                {"member_id": ""},
                {"instance_id": "i"},
                {"rack_id": ""},
                {"group_id": ""},
                {},
            ]
            return self._joining(member, **choice.choice(wrong))
        tasks = choice.choice([{}, {"0": [0]}, {"0": [0, 1, 2]}, {"0": [9]}, {"7": [0]}, member.active])
        changes: dict[str, Any] = choice.choice(
            [
                {},
                {"active_tasks": task_ids(tasks), "standby_tasks": [], "warmup_tasks": []},
                {"active_tasks": [], "standby_tasks": task_ids(tasks), "warmup_tasks": []},
                {"active_tasks": [], "standby_tasks": None, "warmup_tasks": []},
                {"warmup_tasks": task_ids({"0": [0]})},
                {"task_offsets": []},
                {"instance_id": "i"},
                {"topology": {"epoch": 1, "subtopologies": self.subtopologies}},
            ]
        )
        return self._heartbeat(member, mostly(choice, epoch, member.epoch, odds=0.4), owned=True, **changes)

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

    def _delete(self) -> Step:
        return self.offsets.delete() if self.choice.random() < 0.5 else Step(DELETE, 2, {"groups_names": [self.group]})

    def _configure(self) -> Step:
        config = {"name": "streams.num.standby.replicas", "config_operation": 0, "value": self.choice.choice("0122")}
        resource = {"resource_type": GROUP, "resource_name": self.group, "configs": [config]}
        return Step(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})

    def _end(self) -> Step:
        """All members leave, one after the other, before a new application starts under the same id."""
        inside = self._inside()
        return self._heartbeat(inside[0], -1) if inside else self._join()

    def _look(self) -> Step:
        if self.choice.random() < 0.2:
            body = {"groups": [self.group], "include_authorized_operations": False}
            return Step(DESCRIBE, self.choice.randrange(7), body)
        if self.choice.random() < 0.3:
            states = self.choice.choice([[], ["Stable"], ["NotReady"], ["not_ready"], ["Reconciling", "Assigning"]])
            return Step(LIST, 5, {"states_filter": states, "types_filter": self.choice.choice([[], ["streams"]])})
        return self._describe()

    def _describe(self) -> Step:
        return Step(STREAMS_DESCRIBE, 0, {"group_ids": [self.group, ""], "include_authorized_operations": False})

    # Handle an answer

    def heard(self, step: Step, answer: Any) -> None:
        if step.api != STREAMS_BEAT:
            return
        missing = [s for s in answer["status"] or () if s["status_code"] == MISSING_INTERNAL_TOPICS]
        if missing:
            self.settle(missing[0]["status_detail"].partition(": ")[2].split(", "))
        member = self.members[step.who]
        if answer["error_code"]:
            if answer["error_code"] in (25, 110) and step.body["member_epoch"] == member.epoch:
                member.is_in = False
            return
        epoch = answer["member_epoch"]
        if epoch < 0:
            member.is_in, member.active, member.standby = False, {}, {}
            return
        if step.body["member_epoch"] == 0:
            member.active, member.standby = {}, {}
        member.is_in = True
        member.endpoint_epoch = answer["endpoint_information_epoch"]
        if epoch != member.epoch:
            member.former_epoch, member.epoch = member.epoch, epoch
        if answer["active_tasks"] is not None:
            member.active = {each["subtopology_id"]: each["partitions"] for each in answer["active_tasks"]}
            member.standby = {each["subtopology_id"]: each["partitions"] for each in answer["standby_tasks"]}

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


def task_ids(tasks: Tasks) -> list[dict[str, Any]]:
    return [{"subtopology_id": name, "partitions": numbers} for name, numbers in tasks.items()]
