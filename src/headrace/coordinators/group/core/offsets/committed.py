"""Committed offsets of the groups of one shard, and transactional offsets until their transaction ends.

An offset that was committed inside a transaction is pending until the transaction's marker arrives: a commit applies
it, an abort drops it. Meanwhile a fetch that requires stable offsets gets UNSTABLE_OFFSET_COMMIT.

Plain and transactional commits of one partition may interleave, and compaction may remove any but the last record of a
key. So the record with the highest position in the log wins, in whatever order markers arrive. Mirrors Kafka's
OffsetMetadataManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from headrace.coordinators.codec.offsets import OffsetValue, offset_key, read_offset_key, read_offset_value
from headrace.coordinators.group.core.effects import Effects
from headrace.wire.offset_commit import PartitionCommit


class Committed(NamedTuple):
    value: OffsetValue
    record_offset: int


Topics = dict[str, dict[int, Committed]]


class Offsets:
    def __init__(self) -> None:
        self._by_group: dict[str, Topics] = {}
        self._pending: dict[int, dict[str, Topics]] = {}
        self._open_by_group: dict[str, set[int]] = {}

    # Questions

    def get(self, group_id: str, topic: str, partition: int) -> OffsetValue | None:
        found = self._by_group.get(group_id, {}).get(topic, {}).get(partition)
        return None if found is None else found.value

    def of_group(self, group_id: str) -> dict[str, dict[int, OffsetValue]]:
        return {
            topic: {index: committed.value for index, committed in partitions.items()}
            for topic, partitions in self._by_group.get(group_id, {}).items()
        }

    def group_ids(self) -> list[str]:
        """The groups that have a committed offset."""
        return list(self._by_group)

    def has_any(self, group_id: str) -> bool:
        return group_id in self._by_group

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change this offset."""
        return any(
            partition in self._pending[producer_id].get(group_id, {}).get(topic, {})
            for producer_id in self._open_by_group.get(group_id, ())
        )

    def has_open_transactions(self, group_id: str) -> bool:
        return group_id in self._open_by_group

    @property
    def is_empty(self) -> bool:
        """Neither committed nor pending offsets."""
        return not self._by_group and not self._pending

    # Tombstones

    def forget_group(self, group_id: str, effects: Effects) -> None:
        for topic, partition in self._known(group_id):
            effects.write(offset_key(group_id, topic, partition), None)

    def forget(self, group_id: str, topic: str, partition: int, effects: Effects) -> bool:
        known = partition in self._by_group.get(group_id, {}).get(topic, {})
        if known or self.is_pending(group_id, topic, partition):
            effects.write(offset_key(group_id, topic, partition), None)
            return True
        return False

    def forget_topics(self, deleted: Mapping[str, uuid.UUID], effects: Effects) -> None:
        """Drops the offsets of deleted topics, so that a new topic of the same name does not get them. Offsets of
        another topic id with that name stay.
        """
        gone = {
            (group_id, topic, partition)
            for by_group in (self._by_group, *self._pending.values())
            for group_id, topics in by_group.items()
            for topic in deleted.keys() & topics.keys()
            for partition, (value, _) in topics[topic].items()
            if value.topic_id is None or value.topic_id == deleted[topic]
        }
        for key in sorted(gone):
            effects.write(offset_key(*key), None)

    def forget_ids(self, gone: Collection[uuid.UUID], effects: Effects) -> None:
        """Drops the offsets of deleted topics that `forget_topics` could not drop."""
        for group_id, topics in self._by_group.items():
            for topic, partitions in topics.items():
                for partition, (value, _) in partitions.items():
                    if value.topic_id in gone:
                        effects.write(offset_key(group_id, topic, partition), None)

    def expire(
        self,
        group_id: str,
        expires_from: Callable[[OffsetValue], int] | None,
        is_subscribed: Callable[[str], bool],
        retention_ms: int,
        now_ms: int,
        effects: Effects,
    ) -> bool:
        """Writes tombstones of expired offsets. True if the group has no offsets left.

        `expires_from` gives the time at which an offset's retention starts; None: no offset expires now.
        """
        topics = self._by_group.get(group_id)
        if topics is None:
            return not self.has_open_transactions(group_id)
        if expires_from is None:
            return False
        all_gone = True
        for topic, partitions in topics.items():
            subscribed = is_subscribed(topic)
            for partition, (value, _) in partitions.items():
                if value.expire_timestamp_ms >= 0:
                    over = now_ms >= value.expire_timestamp_ms
                else:
                    over = now_ms - expires_from(value) >= retention_ms
                if over and not subscribed and not self.is_pending(group_id, topic, partition):
                    effects.write(offset_key(group_id, topic, partition), None)
                else:
                    all_gone = False
        return all_gone and not self.has_open_transactions(group_id)

    def _known(self, group_id: str) -> Iterator[tuple[str, int]]:
        found = {(t, p) for t, partitions in self._by_group.get(group_id, {}).items() for p in partitions}
        for producer_id in self._open_by_group.get(group_id, ()):
            for topic, partitions in self._pending[producer_id].get(group_id, {}).items():
                found.update((topic, partition) for partition in partitions)
        return iter(sorted(found))

    # Replay

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int) -> str | None:
        """Returns the group that now has an offset, or None for a tombstone."""
        group_id, topic, partition = read_offset_key(key)
        if value is None:
            self._remove(group_id, topic, partition)
            return None
        committed = Committed(read_offset_value(value), offset)
        if producer_id < 0:
            try:
                self._by_group[group_id][topic][partition] = committed
            except KeyError:
                self._put(self._by_group, group_id, topic, partition, committed)
        else:
            self._put(self._pending.setdefault(producer_id, {}), group_id, topic, partition, committed)
            self._open_by_group.setdefault(group_id, set()).add(producer_id)
        return group_id

    def replay_end_marker(self, producer_id: int, commit: bool) -> None:
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        for group_id, topics in pending.items():
            self._close(group_id, producer_id)
            if not commit:
                continue
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    known = self._by_group.get(group_id, {}).get(topic, {}).get(partition)
                    if known is None or committed.record_offset > known.record_offset:
                        self._put(self._by_group, group_id, topic, partition, committed)

    def _put(
        self, by_group: dict[str, Topics], group_id: str, topic: str, partition: int, committed: Committed
    ) -> None:
        topics = by_group.get(group_id)
        if topics is None:
            topics = by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = committed

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        _take(self._by_group, group_id, topic, partition)
        for producer_id in list(self._open_by_group.get(group_id, ())):
            pending = self._pending[producer_id]
            _take(pending, group_id, topic, partition)
            if group_id not in pending:
                self._close(group_id, producer_id)
            if not pending:
                del self._pending[producer_id]

    def _close(self, group_id: str, producer_id: int) -> None:
        """Drops the pending offsets of this producer in the group."""
        open_here = self._open_by_group.get(group_id, set())
        open_here.discard(producer_id)
        if not open_here:
            self._open_by_group.pop(group_id, None)


def _take(by_group: dict[str, Topics], group_id: str, topic: str, partition: int) -> None:
    topics = by_group.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None:
        return
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
    if not topics:
        del by_group[group_id]


class TopicCommit(NamedTuple):
    topic: str
    topic_id: uuid.UUID | None
    partitions: list[PartitionCommit]
