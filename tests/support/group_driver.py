"""Drives a shard of groups without an event loop: replays records, runs timers on virtual time, collects answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable
from typing import Any

from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.coordinators.group.core.classic.embedded_protocol import Subscription, write_subscription
from headrace.coordinators.group.core.classic.messages import JoinRequest, SyncReply, SyncRequest
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, HeartbeatRequest
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.shard import GroupShard
from headrace.coordinators.runtime.result import Result
from headrace.kernel.errors import ErrorCode
from headrace.records.builder import Record


def image_of(version: int = 1, **partition_counts: int) -> ClusterImage:
    """Topics by name. A topic has the same id in every image."""
    partition = PartitionInfo(leader=1, leader_epoch=0, partition_epoch=0, isr=(1,), replicas=(1,))
    topics = {name: TopicInfo(name, topic_id(name), (partition,) * count) for name, count in partition_counts.items()}
    return ClusterImage(version=version, topics=topics, topic_names={t.id: t.name for t in topics.values()})


def topic_id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, name)


class GroupDriver:
    def __init__(self, settings: GroupSettings | None = None, image: ClusterImage | None = None) -> None:
        # Targets follow at once here. Other tests cover delayed ones.
        self.settings = settings or GroupSettings(consumer_assignment_interval_ms=0, share_assignment_interval_ms=0)
        self.image = image or image_of(orders=4)
        self.now_ms = 1_000_000
        self.log: list[tuple[Record, int, int]] = []
        self.answers: dict[Any, Any] = {}
        self.timers: dict[Hashable, tuple[int, Callable[[int], Result]]] = {}
        self._ids = 0
        self.shard = self._fresh()

    def _fresh(self) -> GroupShard:
        return GroupShard(self.settings, self._next_uuid, self.image)

    def _next_uuid(self) -> uuid.UUID:
        self._ids += 1
        return uuid.UUID(int=self._ids << 96)

    def apply(self, result: Result) -> Any:
        producer = result.producer or (-1, -1)
        for record in result.records:
            offset = len(self.log)
            self.log.append((record, *producer))
            if result.replay:
                self.shard.replay(record.key or b"", record.value, offset, *producer)
        for timer in result.timers:
            if timer.fire is None:
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = (self.now_ms + timer.delay_ms, timer.fire)
        self.answers.update(result.answers)
        if result.then is not None:
            following = result.then(ErrorCode.none, self.now_ms)
            if following is not None:
                self.apply(following)
        return result.reply

    def end_transaction(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        self.log.append((Record(b"", b"commit" if commit else b"abort"), producer_id, epoch))
        self.shard.replay_end_marker(producer_id, epoch, commit)

    def advance(self, duration_ms: int) -> None:
        """Advances the time. Timers fire in order."""
        until = self.now_ms + duration_ms
        while True:
            due = sorted((at, repr(key), key) for key, (at, _) in self.timers.items() if at <= until)
            if not due:
                break
            at, _, key = due[0]
            self.now_ms = max(self.now_ms, at)
            self.apply(self.timers.pop(key)[1](self.now_ms))
        self.now_ms = until

    def reload(self) -> None:
        """Another broker takes over. It knows only the log."""
        self.answers.update(self.shard.unloaded())
        self.timers.clear()
        self.shard = self._fresh()
        for offset, (record, producer_id, epoch) in enumerate(self.log):
            if record.key == b"":
                self.shard.replay_end_marker(producer_id, epoch, record.value == b"commit")
            else:
                self.shard.replay(record.key or b"", record.value, offset, producer_id, epoch)
        self.apply(self.shard.loaded(self.now_ms))

    def set_image(self, image: ClusterImage) -> None:
        self.image = image
        self.shard.follow(image)

    # Requests

    def join(self, token: Any, group: str = "g", member: str = "", **changes: Any) -> Any:
        """The answer, if there is one already."""
        values: dict[str, Any] = {
            "group_id": group,
            "member_id": member,
            "instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (("range", subscription("orders")),),
        }
        self.apply(self.shard.join(JoinRequest(**{**values, **changes}), token, self.now_ms))
        return self.answers.get(token)

    def join_twice(self, token: Any, group: str = "g", **changes: Any) -> str:
        """As a modern client: gets the member id, then joins with it. Returns the id."""
        first = self.join(("id", token), group, **changes)
        assert first is not None and first.error is ErrorCode.member_id_required
        self.join(token, group, first.member_id, **changes)
        return first.member_id  # type: ignore[no-any-return]

    def sync(
        self, token: Any, member: str, generation: int, group: str = "g", assignments: Any = (), **changes: Any
    ) -> SyncReply | None:
        request = SyncRequest(
            group,
            generation,
            member,
            changes.get("instance_id"),
            changes.get("protocol_type"),
            changes.get("protocol_name"),
            tuple(assignments),
        )
        self.apply(self.shard.sync(request, token))
        return self.answers.get(token)

    def heartbeat(self, member: str, generation: int, group: str = "g", instance: str | None = None) -> ErrorCode:
        error: ErrorCode = self.apply(self.shard.heartbeat(group, member, instance, generation))
        return error

    def beat(self, member: str, epoch: int, group: str = "g", **changes: Any) -> HeartbeatReply:
        """A heartbeat of the new protocol. The first one contains all required fields."""
        values: dict[str, Any] = {"client_id": "client", "client_host": "/127.0.0.1"}
        if epoch == 0:
            values |= {"rebalance_timeout_ms": 60_000, "topic_names": ("orders",), "owned": {}}
        request = HeartbeatRequest(group, member, epoch, **{**values, **changes})
        reply: HeartbeatReply = self.apply(self.shard.consumer_heartbeat(request, self.now_ms))
        return reply


def subscription(*topics: str, version: int = 3, owned: Any = (), generation: int = -1) -> bytes:
    return write_subscription(Subscription(version, topics, b"", tuple(owned), generation, None))
