"""A share-group member that changes its subscription: the answer to each heartbeat, on one broker."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from tests.differential.histories import Side
from tests.support.clock import wait_for
from tests.support.group_requests import SHARE_BEAT

ALTER_CONFIGS, GROUP = 44, 32
Assignment = dict[str, list[int]]
# Content of a heartbeat answer: the increase of the member epoch, and the assignment, if it has one.
Answer = tuple[int, Assignment | None]


class ShareMember:
    """The only member of its group."""

    def __init__(self, side: Side, group: str, topics: dict[str, int]) -> None:
        self._side = side
        self._group = group
        self._id = str(uuid.UUID(int=1))
        self._topics = topics
        self._epoch = 0
        self.assigned: Assignment = {}

    def subscribe(self, names: Sequence[str]) -> Answer:
        before = self._epoch
        answer = self._beat(names)
        return self._epoch - before, answer

    def settle(self, names: Sequence[str]) -> Assignment:
        """Sends heartbeats until the member has all partitions of the existing topics."""
        wanted = {name: list(range(self._topics[name])) for name in names if name in self._topics}

        def has_all() -> bool:
            if self.assigned != wanted:
                self._beat(None)
            return self.assigned == wanted

        wait_for(has_all, lambda: f"{wanted} on {self._side.name} and not {self.assigned}", poll=0.02)
        return self.assigned

    def unsubscribe_within_interval(self, before: Sequence[str]) -> None:
        """Unsubscribes from everything. Kafka applies a changed interval after its answer: until then epochs
        still increase.
        """

        def epoch_stays() -> bool:
            if self.subscribe(())[0] == 0:
                return True
            self.subscribe(before)
            return False

        wait_for(epoch_stays, f"the assignment interval to take effect on {self._side.name}")

    def leave(self) -> None:
        self._epoch = -1
        self._beat(None)

    def _beat(self, names: Sequence[str] | None) -> Assignment | None:
        body = {
            "group_id": self._group,
            "member_id": self._id,
            "member_epoch": self._epoch,
            "rack_id": None,
            "subscribed_topic_names": None if names is None else list(names),
        }
        answer = self._side.ask(SHARE_BEAT, 1, body)
        assert not answer.error_code, answer
        self._epoch = int(answer.member_epoch)
        if answer.assignment is None:
            return None
        self.assigned = {
            self._name(topic.topic_id): sorted(map(int, topic.partitions))
            for topic in answer.assignment.topic_partitions
        }
        return self.assigned

    def _name(self, topic_id: uuid.UUID) -> str:
        return self._side.names[topic_id].removeprefix("<id of ").removesuffix(">")


def set_assignment_interval(side: Side, group: str, interval_ms: int) -> None:
    configs = [{"name": "share.assignment.interval.ms", "config_operation": 0, "value": str(interval_ms)}]
    resource: dict[str, Any] = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    answer = side.ask(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    assert not answer.responses[0].error_code, answer
