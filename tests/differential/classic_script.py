"""A scenario of one classic group, step by step on Apache Kafka and on Headrace at once: every answer is compared.

    def scenario(s: Script) -> None:
        s.stable("<a>", "<b>")              # two members in one generation, each with an assignment
        s.beat("<a>")                       # → {"error_code": 0, …}, the same from both or the test fails
        s.join("<a>")                       # → None: both brokers let it wait
        s.until_answered()                  # waits until every request is answered, or the test fails

Members have names. The script learns each broker's member id for a name from its answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.coordinators.group.core.classic.embedded_protocol import (
    Subscription,
    write_assignment,
    write_subscription,
)
from tests.differential.histories import History, Side, Step
from tests.support.clock import Stopwatch, wait_for
from tests.support.group_requests import (
    BEAT,
    COMMIT,
    DELETE,
    DESCRIBE,
    FETCH,
    FIND,
    JOIN,
    LEAVE,
    LIST,
    OFFSET_DELETE,
    SYNC,
)

SESSION_MS = 60_000
INIT_PRODUCER, ADD_OFFSETS = 22, 25


def protocols(*names: str, topics: Sequence[str] = ("t",)) -> list[dict[str, Any]]:
    return [{"name": name, "metadata": write_subscription(Subscription(1, tuple(topics), b""))} for name in names]


class Script:
    def __init__(self, history: History, group: str) -> None:
        self.history = history
        self.group = group
        self.generation = 0
        self.instances: dict[str, str] = {}
        self.answers: dict[str, Any] = {}
        self.leader = ""

    # Sending

    def ask(self, api: int, version: int, body: dict[str, Any], name: str = "") -> Any:
        """The answer, or None while both brokers let the request wait."""
        step = Step(api, version, body, newcomer=name, who=str(len(self.history.lines)))
        self.history.take(step, self._heard)
        return self.answers.get(step.who)

    def _heard(self, step: Step, answer: Any) -> None:
        self.answers[step.who] = answer
        if step.api == JOIN and not answer["error_code"]:
            self.generation, self.leader = answer["generation_id"], answer["leader"]

    def until_answered(self) -> None:
        """Waits for every waiting request."""

        def none_waits() -> bool:
            if self.history.waiting:
                self.history.wait_on(self._heard)
            return not self.history.waiting

        wait_for(none_waits, lambda: f"answers after\n{self.history}", poll=0)

    def pass_time(self, milliseconds: int) -> None:
        """Waits for changes of a group without requests. Only time causes them."""
        watch = Stopwatch()
        while not watch.has_run(milliseconds / 1000):
            self.history.wait_on(self._heard) if self.history.waiting else time.sleep(0.01)

    def is_known(self, name: str) -> bool:
        return all(name in side.values for side in self.history.sides)

    # The requests

    def join(self, name: str, version: int = 5, *, instance: str | None = None, **changes: Any) -> Any:
        if instance is not None:
            self.instances[name] = instance
        body = {
            "group_id": self.group,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": SESSION_MS,
            "member_id": name if self.is_known(name) else "",
            "group_instance_id": self.instances.get(name),
            "protocol_type": "consumer",
            "protocols": protocols("range"),
            "reason": None,
        }
        return self.ask(JOIN, version, {**body, **changes}, name)

    def known(self, name: str, **changes: Any) -> None:
        """A dynamic member gets its id."""
        answer = self.join(name, 4, **changes)
        assert answer["error_code"] == 79, answer

    def sync(
        self,
        name: str,
        given: dict[str, bytes] | None = None,
        version: int = 5,
        generation: int | None = None,
        **changes: Any,
    ) -> Any:
        body = {
            "group_id": self.group,
            "generation_id": self.generation if generation is None else generation,
            "member_id": name,
            "group_instance_id": self.instances.get(name),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": who, "assignment": what} for who, what in (given or {}).items()],
        }
        return self.ask(SYNC, version, {**body, **changes}, name)

    def beat(self, name: str, generation: int | None = None, version: int = 4, **changes: Any) -> Any:
        body = {
            "group_id": self.group,
            "generation_id": self.generation if generation is None else generation,
            "member_id": name,
            "group_instance_id": self.instances.get(name),
        }
        return self.ask(BEAT, version, {**body, **changes})

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> Any:
        named = [{"member_id": m, "group_instance_id": i, "reason": None} for m, i in members]
        return self.ask(LEAVE, version, {"group_id": self.group, "member_id": members[0][0], "members": named})

    def commit(
        self, name: str = "", generation: int | None = None, version: int = 9, offset: int = 7, **changes: Any
    ) -> Any:
        partition = {
            "partition_index": 0,
            "committed_offset": 7,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        body = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation if generation is None else generation,
            "member_id": name,
            "group_instance_id": self.instances.get(name),
            "retention_time": -1,
            "topics": [{"name": n, "topic_id": f"<id of {n}>", "partitions": [partition]} for n in ("t", "u")],
        }
        return self.ask(COMMIT, version, {**body, **changes})

    def committed(self) -> Any:
        asked = {"group_id": self.group, "member_id": None, "member_epoch": -1, "topics": None}
        return self.ask(FETCH, 9, {"groups": [asked], "require_stable": False})

    def describe(self, version: int = 6, *, operations: bool = False) -> Any:
        answer = self.ask(DESCRIBE, version, {"groups": [self.group], "include_authorized_operations": operations})
        return answer["groups"][0]

    def list(self, states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5) -> Any:
        return self.ask(LIST, version, {"states_filter": list(states), "types_filter": list(types)})

    def delete(self, version: int = 2) -> Any:
        return self.ask(DELETE, version, {"groups_names": [self.group]})

    def delete_offsets(self, *topics: str, partitions: Sequence[int] = (0, 1, 7)) -> Any:
        rows = [{"name": n, "partitions": [{"partition_index": index} for index in partitions]} for n in topics]
        return self.ask(OFFSET_DELETE, 0, {"group_id": self.group, "topics": rows})

    def coordinators_are_there(self, *keys: str) -> None:
        """Kafka answers the first FindCoordinator with a retriable error and creates the coordinator's topic."""
        for side in self.history.sides:
            for kind in range(3):
                for key in keys if kind < 2 else keys[-1:]:
                    _patiently(side, FIND, 6, {"key_type": kind, "coordinator_keys": [key]})

    def producer(self, transactional_id: str) -> str:
        """A transactional producer whose transaction contains this group's offsets. Returns the name of its id."""
        for side in self.history.sides:
            begin = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
            made = _patiently(side, INIT_PRODUCER, 3, {**begin, "producer_id": -1, "producer_epoch": -1})
            side.know(f"<{transactional_id}>", int(made.producer_id))
            body = {"transactional_id": transactional_id, "producer_id": made.producer_id, "producer_epoch": 0}
            _patiently(side, ADD_OFFSETS, 3, {**body, "group_id": self.group})
        return f"<{transactional_id}>"

    # Sequences

    def stable(self, *names: str, **changes: Any) -> None:
        """Brings these members into one generation with the first as leader, each with its own assignment."""
        self.joined(*names, **changes)
        given = {name: write_assignment((("t", (at,)),), 1) for at, name in enumerate(names)}
        for name in [n for n in names if n != self.leader]:
            self.sync(name, version=4)
        self.sync(self.leader, given, version=4)
        self.until_answered()

    def joined(self, *names: str, **changes: Any) -> None:
        """Brings these members into one generation that waits for its assignment, with the first as leader."""
        for name in names:
            if not self.is_known(name) and not self.instances.get(name):
                self.known(name, **changes)
        self.join(names[0], **changes)
        self.until_answered()
        for name in names[1:]:
            self.join(name, **changes)
        if len(names) > 1:
            self.join(names[0], **changes)
        self.until_answered()


def _patiently(side: Side, api: int, version: int, body: dict[str, Any]) -> Any:
    """Retries while the coordinator is being created."""

    def taken() -> Any:
        answer = side.ask(api, version, body)
        told = answer.coordinators[0] if api == FIND else answer
        return answer if not int(told.error_code) else None

    return wait_for(taken, f"{side.name} to take {body}")
