"""A member of a consumer group: heartbeats, and the partitions that the group assigns to it (KIP-848).

The coordinator computes the assignment. A heartbeat reports what the member owns and returns what it should own. The
member gives up a partition at once, because it hands records out only inside `owned()` calls of its instance.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

_log = logging.getLogger(__name__)
_REBALANCE_MS: Final = 60_000
_PAUSE_S: Final = 0.2
_UNNAMED_PAUSE_S: Final = 1.0
_LEAVES: Final = -1
_FENCED: Final = frozenset({ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id})
_TRANSIENT: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
        ErrorCode.unreleased_instance_id,
    }
)


class GroupMember:
    """Owned by the event loop. `give_up` runs before partitions are given up, to commit them; `take` when partitions
    are new to the member, or are its own again after it was fenced."""

    def __init__(
        self,
        client: ClusterClient,
        group: str,
        topics: Sequence[str],
        pattern: str | None,
        give_up: Callable[[set[TopicPartition]], Awaitable[None]],
        take: Callable[[set[TopicPartition]], None],
    ) -> None:
        self._client = client
        self._group = group
        self._topics = list(topics)
        self._pattern = pattern
        self._give_up = give_up
        self._take = take
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: set[TopicPartition] = set()
        self.fault: Fault | None = None
        self._names: dict[uuid.UUID, str] = {}
        # The last assignment, if it has topics whose names are not known yet. The coordinator sends it only once.
        self._unnamed: Sequence[JsonValue] | None = None
        self._is_reported = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """The first heartbeat. Raises Fault if the caller may not join or read the topics."""
        await self._beat()
        self._task = asyncio.create_task(self._run(), name=f"member of {self._group}")

    async def assigned(self, timeout_s: float) -> set[TopicPartition]:
        """What the member owns; waits for a first assignment. Raises the fault that ended the membership."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.owned and self.fault is None:
                    self._changed.clear()
                    await self._changed.wait()
        if self.fault is not None:
            raise self.fault
        return self.owned

    async def _run(self) -> None:
        pause_s = 0.0
        while True:
            await asyncio.sleep(pause_s)
            try:
                pause_s = await self._beat()
            except Fault as fault:
                if fault.code in _FENCED:
                    self.epoch, self._is_reported = 0, False
                    self.owned, self._unnamed = set(), None
                elif fault.code not in _TRANSIENT:
                    self.fault = fault
                    self._changed.set()
                    return
                pause_s = _PAUSE_S

    async def _beat(self) -> float:
        """Returns the time until the next heartbeat. Raises Fault."""
        is_new = self.epoch == 0
        owned = None if self._is_reported and not is_new else await self._owned_by_id()
        answer = await self._ask(self.epoch, owned, is_new)
        self.epoch = int(answer.member_epoch)
        self._is_reported = True
        pause_s = millis(answer.heartbeat_interval) / 1000
        assigned = self._unnamed if answer.assignment is None else answer.assignment.topic_partitions
        if assigned is not None:
            wanted = await self._named(assigned)
            # A broker may learn of a new topic later than the coordinator.
            self._unnamed = assigned if any(one.topic_id not in self._names for one in assigned) else None
            if wanted != self.owned or is_new:
                lost = self.owned - wanted
                if lost:
                    await self._give_up(lost)
                self._take(wanted - self.owned)
                self.owned = wanted
                self._is_reported = False
                self._changed.set()
                return 0.0
        return pause_s if self._unnamed is None else min(pause_s, _UNNAMED_PAUSE_S)

    async def _ask(self, epoch: int, owned: list[JsonObject] | None, is_new: bool) -> JsonValue:
        body = {
            "group_id": self._group,
            "member_id": self.id,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": _REBALANCE_MS if is_new else -1,
            "subscribed_topic_names": self._topics if is_new else None,
            "subscribed_topic_regex": self._pattern if is_new else None,
            "server_assignor": None,
            "topic_partitions": owned,
        }
        answer = await self._client.to_coordinator(self._group, ApiKey.CONSUMER_GROUP_HEARTBEAT, body)
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.none:
            raise Refused(code, answer.error_message or f"group {self._group!r}: {code.name}")
        return answer

    async def _owned_by_id(self) -> list[JsonObject]:
        ids = {name: id_ for id_, name in self._names.items()}
        by_topic: dict[uuid.UUID, list[int]] = {}
        for one in sorted(self.owned):
            by_topic.setdefault(ids[one.topic], []).append(one.partition)
        return [{"topic_id": id_, "partitions": numbers} for id_, numbers in by_topic.items()]

    async def _named(self, assigned: Sequence[JsonValue]) -> set[TopicPartition]:
        if any(one.topic_id not in self._names for one in assigned):
            await self._client.refresh(None)
            self._names = {topic.topic_id: name for name, topic in self._client.metadata.topics.items()}
        return {
            TopicPartition(self._names[one.topic_id], int(number))
            for one in assigned
            if one.topic_id in self._names
            for number in one.partitions
        }

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(Fault, TimeoutError):
            async with asyncio.timeout(5):
                await self._ask(_LEAVES, [], False)
