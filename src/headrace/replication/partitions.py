"""All replicas of this broker: creates, changes and drops them according to the cluster image.

It applies the delta between images. A partition that has this broker as a replica gets a log (through LogDirs) and a
role; a partition that no longer has it is closed and its log deleted. Coordinators and fetchers subscribe to changes of
roles.

A broker applies an image only if the image has its present broker epoch: an older image may name it as leader of
partitions whose last records it lost in a crash. When it registers again, it gives up every leadership at once and
waits for an image that names it as leader in a higher leader epoch.

The broker deletes a log if the image contains the deletion of its topic or the replica moved to other brokers. If the
image only does not contain the log (unknown topic, or another topic id), the broker sets the log aside as a stray: the
image may be wrong, because ZooKeeper was emptied or restored. It never applies an image of another cluster. Owned by
the event loop.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from headrace.cluster.core.delta import ImageDelta, diff
from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.core.losses import Loss
from headrace.cluster.view import ClusterView
from headrace.kernel.clock import SYSTEM_CLOCK
from headrace.kernel.errors import ErrorCode, Fault, StorageFault, UnknownPartition, UnknownTopicId
from headrace.kernel.ids import TopicPartition, uuid_to_text
from headrace.replication.core.isr import UNKNOWN_BROKER_EPOCH, IsrProposal
from headrace.replication.core.leader import ReadableReplica, not_led_here, preferred_read_replica
from headrace.replication.lost_logs import LostLogs
from headrace.replication.partition import Partition
from headrace.replication.replica import Replica
from headrace.replication.throttles import Throttles
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig

logger = logging.getLogger(__name__)

LogConfigFor = Callable[[str, ClusterImage], LogConfig]
_VANISHED: Final = "the cluster's image no longer has its topic, and no deletion of the topic was seen"
# How often the broker tries to create a log that it could not create, for example because the disk was full.
_RETRY_MS: Final = 10_000


class IsrChanges(Protocol):
    """Sends ISR proposals to the controller; answers arrive through `Partition.update` and `.isr_refused`."""

    def ask(self, partition: Partition, proposal: IsrProposal) -> None: ...


class Logs(Protocol):
    """The methods of LogDirs that `Partitions` uses."""

    def log(self, topic: str, partition: int) -> Log | None: ...
    def logs(self) -> Collection[Log]: ...
    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        *,
        why_incomplete: str | None = None,
        now_ms: int = 0,
    ) -> Log: ...
    def has_all_records(self, log: Log) -> None: ...
    def delete(self, topic: str, partition: int, *, now_ms: int = 0) -> object: ...
    def set_aside(self, topic: str, partition: int, reason: str, *, now_ms: int = 0) -> Path | None: ...


class _NoController:
    """For a standalone broker, which has no followers and never proposes a change of the ISR."""

    def ask(self, partition: Partition, proposal: IsrProposal) -> None:
        raise AssertionError(f"{partition}: a proposal without a controller to take it")


def _ignore(replica: Replica) -> None:
    """Default handler of a full disk, for tests."""


RoleSubscriber = Callable[[Partition], None]


class Partitions:
    """All replicas of this broker. Also the `ReplicaContext` of each partition: broker id, lease, live brokers and the
    connection to the controller.
    """

    def __init__(
        self,
        broker_id: int,
        logs: Logs,
        view: ClusterView,
        log_config_for: LogConfigFor,
        *,
        isr_changes: IsrChanges | None = None,
        when_no_room: Callable[[Replica], None] = _ignore,
        lost_logs: LostLogs | None = None,
        lease_held: Callable[[], bool] = lambda: True,
        serves_consumers_from_followers: bool = False,
        monotonic_ms: Callable[[], int] = SYSTEM_CLOCK.monotonic_ms,
        wall_ms: Callable[[], int] = SYSTEM_CLOCK.wall_ms,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH  # no image is applied before this broker is registered
        self.serves_consumers_from_followers = serves_consumers_from_followers
        self.live_brokers: Mapping[int, int] = {}
        self.heard_at_ms: dict[int, int] = {}  # by id of the following broker
        self.monotonic_ms = monotonic_ms
        self.wall_ms = wall_ms
        self.lease_held = lease_held
        self.throttles = Throttles(broker_id, lambda: self._applied, monotonic_ms)
        self._isr_changes: IsrChanges = isr_changes or _NoController()
        self._when_no_room = when_no_room
        self._logs = logs
        self._view = view
        self._log_config_for = log_config_for
        self._applied = ClusterImage()
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self.lost_logs = LostLogs() if lost_logs is None else lost_logs
        # Partitions whose log could not be created, with the reason.
        self._offline: dict[tuple[str, int], str] = {}
        self._retry_at_ms = 0
        self._subscribers: list[RoleSubscriber] = []
        self._unsubscribe = view.subscribe(lambda _, new: self.apply(new))

    # Lookup

    def get(self, topic: str, index: int) -> Partition | None:
        return self._by_name.get((topic, index))

    def led(self, topic: str, index: int) -> Partition:
        """The partition, if this broker leads it. Raises UnknownPartition, NotLeader, StorageFault."""
        found = self._by_name.get((topic, index))
        if found is not None and found.isr is not None:
            return found
        raise self._why_not(topic, index)

    def held(self, topic: str, index: int) -> Partition:
        """The partition in any role. Raises UnknownPartition, NotLeader, StorageFault."""
        found = self._by_name.get((topic, index))
        if found is not None:
            return found
        raise self._why_not(topic, index)

    def by_id(self, topic_id: bytes, index: int) -> Partition:
        """By the sixteen bytes of the topic id in a request: creating a UUID would cost more than the lookup.
        Raises UnknownTopicId, UnknownPartition, NotLeader, StorageFault."""
        found = self._by_id.get((topic_id, index))
        if found is not None:
            return found
        name = self._view.current.topic_names.get(uuid.UUID(bytes=topic_id))
        if name is None:
            raise UnknownTopicId(f"no topic has the id {uuid.UUID(bytes=topic_id)}")
        raise self._why_not(name, index)

    def all(self) -> Iterator[Partition]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def offline_count(self) -> int:
        """The replicas of this broker without a log, because a disk is missing, failed or full."""
        return len(self._offline)

    def _why_not(self, topic: str, index: int) -> Fault:
        if self._view.current.partition(topic, index) is None:
            return UnknownPartition(f"{topic}-{index} does not exist")
        problem = self._offline.get((topic, index))
        if problem is not None:
            return StorageFault(f"{topic}-{index} is offline here: {problem}")
        found = self._by_name.get((topic, index))
        leader = found.leader_id if found is not None else self._view.current.topics[topic].partitions[index].leader
        return not_led_here(topic, index, leader)

    def subscribe(self, callback: RoleSubscriber) -> Callable[[], None]:
        """Calls back after a partition got, changed or lost its role (then it is `closed`). Returns a function that
        unsubscribes.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback) if callback in self._subscribers else None

    def no_room_for(self, replica: Replica) -> None:
        self._when_no_room(replica)

    # Following the image

    def registered_as(self, broker_epoch: int) -> None:
        """This broker has a new registration. It gives up every leadership of the old one."""
        if broker_epoch == self.broker_epoch:
            return
        self.broker_epoch = broker_epoch
        for partition in self.all():
            if partition.is_leader:
                partition.step_down()
                self._notify_subscribers(partition)
        self.apply(self._view.current)

    def apply(self, image: ClusterImage) -> None:
        """Applies the changes between the last applied image and this one."""
        if not self._is_registered_in(image):
            return
        if image.version <= self._applied.version:
            return
        first = self._applied.version < 0
        if not first and image.cluster_id != self._applied.cluster_id:
            logger.error(
                "the coordination store now belongs to cluster %s, this broker to %s: its image is not followed; stop "
                "the broker and check zookeeper.connect",
                image.cluster_id,
                self._applied.cluster_id,
            )
            return
        delta = diff(self._applied, image)
        self._applied = image
        if delta.brokers_joined or delta.brokers_left:
            self.live_brokers = {b.id: b.epoch for b in image.brokers.values() if not b.fenced and not b.shutting_down}
        for topic in delta.deleted:
            for index in range(len(topic.partitions)):
                self._drop(topic, index, None if topic.id in image.deleted_topics else _VANISHED)
        # A replaced leader must not commit because of a lower min.insync.replicas, and a new leader must not commit
        # with an ISR too small for a higher one. So apply ended leaderships first, then settings, then the rest.
        self._step_down_where_others_lead(delta)
        self._configure({name for kind, name in delta.configs_changed if kind == "topic"}, image)
        configs: dict[str, LogConfig] = {}  # created once per topic: a large topic has thousands of partitions
        for topic, index, _, info in delta.changed:
            self._assign(topic, index, info, image, configs)
        if delta.brokers_joined or delta.brokers_left:
            for partition in self.all():
                partition.brokers_changed(self.live_brokers)
        if first:
            self._set_strays_aside(image)

    def _is_registered_in(self, image: ClusterImage) -> bool:
        known = image.brokers.get(self.broker_id)
        return known is not None and known.epoch == self.broker_epoch

    def _step_down_where_others_lead(self, delta: ImageDelta) -> None:
        for topic, index, _, info in delta.changed:
            partition = self._by_name.get((topic.name, index))
            if partition is None or not partition.is_leader or info.leader == self.broker_id:
                continue
            if info.leader_epoch > partition.leader_epoch:
                partition.step_down()

    def broker_config_changed(self) -> None:
        """The broker's settings changed, from which every topic inherits. The next image has the change."""
        self._step_down_where_others_lead(diff(self._applied, self._view.current))
        self._configure({topic for topic, _ in self._by_name}, self._applied)

    def _configure(self, topics: Collection[str], image: ClusterImage) -> None:
        for topic in topics:
            if topic not in image.topics:
                continue
            config = self._log_config_for(topic, image)
            for index in range(len(image.topics[topic].partitions)):
                partition = self._by_name.get((topic, index))
                if partition is not None and partition.log.config != config:
                    partition.log.update_config(config)
                    partition.config_changed()

    def _assign(
        self, topic: TopicInfo, index: int, info: PartitionInfo, image: ClusterImage, configs: dict[str, LogConfig]
    ) -> None:
        key, replica = TopicPartition(topic.name, index), (topic.id, index)
        if self.broker_id not in info.replicas:
            self._drop(topic, index)
            return
        partition = self._by_name.get(key)
        if partition is None:
            is_known = image.brokers[self.broker_id].losses.of(*replica) is not Loss.NONE
            if self.lost_logs.must_wait(replica, info, self.broker_id, is_known=is_known):
                self._offline[key] = self.lost_logs.why_missing(replica) or ""
                with contextlib.suppress(Fault, OSError):
                    self._set_older_topic_aside(topic, index)
                return
            config = configs.get(topic.name)
            if config is None:
                config = configs[topic.name] = self._log_config_for(topic.name, image)
            try:
                log = self._open_log(topic, index, config, self.lost_logs.why_missing(replica))
            except (Fault, OSError) as fault:
                self._not_created(key, str(fault))
                return
            self._offline.pop(key, None)
            self.lost_logs.has_log(replica)
            partition = Partition(topic.name, index, topic.id, log, self)
            self._by_name[key] = partition
            self._by_id[topic.id.bytes, index] = partition
        if self.broker_id in info.isr and self.lost_logs.has_all_records(replica):
            self._logs.has_all_records(partition.log)
        if partition.update(info):
            self._notify_subscribers(partition)

    def _not_created(self, key: TopicPartition, problem: str) -> None:
        if self._offline.get(key) != problem:
            logger.error("%s cannot be held here: %s", key, problem)
        self._offline[key] = problem
        self._retry_at_ms = self.monotonic_ms() + _RETRY_MS

    def _retry_offline(self) -> None:
        """The disk may have space again."""
        if not self._offline or self.monotonic_ms() < self._retry_at_ms:
            return
        if not self._is_registered_in(self._applied):
            return
        self._retry_at_ms = self.monotonic_ms() + _RETRY_MS
        for topic, index in tuple(self._offline):
            info = self._applied.partition(topic, index)
            if info is not None:
                self._assign(self._applied.topics[topic], index, info, self._applied, {})

    def _open_log(self, topic: TopicInfo, index: int, config: LogConfig, why_missing: str | None) -> Log:
        self._set_older_topic_aside(topic, index)
        log = self._logs.log(topic.name, index)
        if log is None or log.topic_id is None:
            return self._logs.create(
                topic.name, index, topic.id, config, why_incomplete=why_missing, now_ms=self.wall_ms()
            )
        if log.config != config:
            log.update_config(config)
        return log

    def _set_older_topic_aside(self, topic: TopicInfo, index: int) -> None:
        log = self._logs.log(topic.name, index)
        if log is not None and log.topic_id is not None and log.topic_id != topic.id:
            newer = uuid_to_text(topic.id)
            self._delete_or_set_aside(
                log, f"it belongs to an older topic: the cluster's {topic.name} has the id {newer}"
            )

    def _drop(self, topic: TopicInfo, index: int, reason_to_keep: str | None = None) -> None:
        """Drops a replica with its log."""
        self._offline.pop(TopicPartition(topic.name, index), None)
        partition = self._by_name.pop((topic.name, index), None)
        if partition is not None:
            if partition.topic_id is not None:
                self._by_id.pop((partition.topic_id.bytes, index), None)
            partition.close()
            self._notify_subscribers(partition)
            self._remove_log(partition.log, reason_to_keep)
        self.lost_logs.forget((topic.id, index))

    def _remove_log(self, log: Log, reason_to_keep: str | None) -> None:
        """Deletes a log, or sets it aside if there is a reason to keep it. If the disk refuses that, the log stays, and
        the next start finds it without a topic."""
        try:
            if reason_to_keep is None:
                self._logs.delete(log.topic, log.partition, now_ms=self.wall_ms())
            else:
                self._delete_or_set_aside(log, reason_to_keep)
        except (Fault, OSError) as fault:
            # The rest of the image must still be applied.
            logger.error("the log of %s-%d stays on the disk: %s", log.topic, log.partition, fault)

    def _delete_or_set_aside(self, log: Log, reason: str) -> None:
        """Deletes the log if its topic was deleted, otherwise sets it aside. Raises StorageFault, and OSError
        if the log cannot be closed."""
        if log.topic_id is not None and log.topic_id in self._applied.deleted_topics:
            self._logs.delete(log.topic, log.partition, now_ms=self.wall_ms())
            return
        place = self._logs.set_aside(log.topic, log.partition, reason, now_ms=self.wall_ms())
        if place is not None:
            what = f"{log.topic}-{log.partition} (offsets {log.log_start_offset} to {log.log_end_offset - 1})"
            look = f"headrace log strays ls {place.parent}"
            logger.warning("%s is set aside as %s, its records are kept: %s; see %s", what, place.name, reason, look)

    def _notify_subscribers(self, partition: Partition) -> None:
        for callback in tuple(self._subscribers):
            try:
                callback(partition)
            except Exception:  # the boundary of a subscriber: the others must still be called
                logger.exception("a subscriber failed on the new role of %r", partition)

    def _set_strays_aside(self, image: ClusterImage) -> None:
        for log in tuple(self._logs.logs()):
            if (log.topic, log.partition) in self._by_name or log.offline_reason is not None:
                continue
            info = image.partition(log.topic, log.partition)
            if info is None:
                reason = f"the cluster has no topic {log.topic} with a partition {log.partition}"
            else:
                reason = (
                    f"this broker has no replica of the partition: its replicas are on brokers {list(info.replicas)}"
                )
            try:
                self._delete_or_set_aside(log, reason)
            except (Fault, OSError) as fault:
                logger.error("%s-%d cannot be set aside: %s", log.topic, log.partition, fault)

    def tick(self) -> None:
        """Called every few hundred milliseconds: removes slow followers from the ISRs, and tries again to create logs
        that could not be created."""
        self._retry_offline()
        for partition in self.all():
            partition.tick()

    def close(self) -> None:
        self._unsubscribe()
        for partition in self.all():
            partition.close(ErrorCode.not_leader_or_follower)

    def heard_from(self, broker: int) -> None:
        """The broker fetches some partition from this broker."""
        self.heard_at_ms[broker] = self.monotonic_ms()

    # Context of the partitions

    def ask_for_isr(self, partition: Partition, proposal: IsrProposal) -> None:
        self._isr_changes.ask(partition, proposal)

    def preferred_replica(self, partition: Partition, offset: int, client_rack: str) -> int:
        """The replica that a consumer should read from (KIP-392) if `replica.selector.class` is set; otherwise the
        leader.
        """
        isr = partition.isr
        if not self.serves_consumers_from_followers or isr is None:
            return self.broker_id
        brokers = self._applied.brokers
        own = brokers.get(self.broker_id)
        replicas = {
            self.broker_id: ReadableReplica(
                self.broker_id,
                own.rack if own is not None else None,
                partition.log_start_offset,
                partition.log_end_offset,
                self.monotonic_ms(),
            )
        }
        for broker, progress in isr.followers.items():
            info = brokers.get(broker)
            if broker in isr.stored and info is not None and broker in self.live_brokers:
                replicas[broker] = ReadableReplica(
                    broker, info.rack, progress.log_start, progress.log_end, progress.caught_up_at_ms
                )
        return preferred_read_replica(self.broker_id, client_rack, offset, replicas)
