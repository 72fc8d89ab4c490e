"""Rebuilds the topics of logs whose coordination store was lost, for the store of a standalone broker.

The logs contain topic names and ids, partitions and the last leader epoch, but not the settings of a topic. So a topic
that is rebuilt from its logs keeps all records (no retention, no compaction) until an administrator sets it again: a
guess would delete records. If the store still has the topic, its settings stay, and only two things change: more
partitions, and a leader epoch above every epoch on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from headrace.cluster.core.changes import Change, ConfigSet, PartitionChanged, PartitionsAdded, TopicCreated
from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import INTERNAL_TOPICS

KEEP_EVERYTHING: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "retention.disk.percent": "0",
}


@dataclass(frozen=True, slots=True)
class LogOnDisk:
    topic: str
    index: int
    topic_id: UUID | None
    leader_epoch: int  # the newest in the log; -1 for none


@dataclass(frozen=True, slots=True)
class Findings:
    """`made`: topics rebuilt from logs. `left`: logs that fit no topic, with the reason."""

    changes: tuple[Change, ...]
    made: tuple[str, ...]
    left: tuple[str, ...]


def topics_from_logs(
    image: ClusterImage,
    logs: Iterable[LogOnDisk],
    broker_id: int,
    *,
    new_id: Callable[[], UUID],
    internal_settings: Mapping[str, Mapping[str, str]],
) -> Findings:
    by_topic: dict[str, list[LogOnDisk]] = {}
    for log in logs:
        by_topic.setdefault(log.topic, []).append(log)
    changes: list[Change] = []
    made: list[str] = []
    left: list[str] = []
    for name, found in sorted(by_topic.items()):
        known = image.topics.get(name)
        ids = {log.topic_id for log in found if log.topic_id is not None}
        if known is not None:
            own = [log for log in found if log.topic_id in (None, known.id)]
            left += [f"{name}-{log.index} is of another topic of that name" for log in found if log not in own]
            changes += _known_topic(known, own, broker_id)
        elif len(ids) > 1:
            left += [f"{name}-{log.index}: the logs of {name} are of {len(ids)} different topics" for log in found]
        else:
            topic_id = ids.pop() if ids else new_id()
            infos = _partitions({log.index: log.leader_epoch for log in found}, 0, broker_id)
            changes.append(TopicCreated(TopicInfo(name, topic_id, infos, name in INTERNAL_TOPICS)))
            changes.append(ConfigSet("topic", name, dict(internal_settings.get(name, KEEP_EVERYTHING))))
            made.append(name)
    return Findings(tuple(changes), tuple(made), tuple(left))


def _known_topic(topic: TopicInfo, logs: Iterable[LogOnDisk], broker_id: int) -> Iterable[Change]:
    epochs = {log.index: log.leader_epoch for log in logs}
    for index, info in enumerate(topic.partitions):
        if epochs.get(index, -1) >= info.leader_epoch or info.replicas != (broker_id,):
            led = _led(max(epochs.get(index, -1), info.leader_epoch) + 1, broker_id)
            yield PartitionChanged(topic.name, index, replace(led, partition_epoch=info.partition_epoch + 1))
    if epochs and max(epochs) >= len(topic.partitions):
        first = len(topic.partitions)
        yield PartitionsAdded(topic.name, first, _partitions(epochs, first, broker_id))


def _partitions(epochs: Mapping[int, int], first: int, broker_id: int) -> tuple[PartitionInfo, ...]:
    """From `first` to the last partition with a log; one without a log is empty."""
    return tuple(_led(epochs.get(index, -1) + 1, broker_id) for index in range(first, max(epochs) + 1))


def _led(leader_epoch: int, broker_id: int) -> PartitionInfo:
    return PartitionInfo(broker_id, leader_epoch, 0, (broker_id,), (broker_id,))
