"""Changes of the cluster image. A change has absolute values, so applying it twice is harmless.

Only `apply` creates a new image from an old one. The controller decides and stores changes, and every broker replays
the same list under the same version. (In Kafka these are metadata records; here each version has one list.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import UUID

from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, QuotaEntity, TopicInfo
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Entry, ResourcePattern

# A broker deletes logs when it applies the image, moments after the replay. If a deletion drops out of this list before
# that, the broker sets the log aside as a stray.
DELETIONS_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class ControllerElected:
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """The controller accepted a broker, or its registration changed. With `fenced` the broker is not alive."""

    broker: BrokerInfo


@dataclass(frozen=True, slots=True)
class BrokerRemoved:
    """A fenced broker was unregistered."""

    id: int


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: TopicInfo


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    topic: str
    first_index: int
    infos: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    topic: str
    index: int
    info: PartitionInfo


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    name: str
    id: UUID


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """All overrides of one resource; empty removes them."""

    resource_type: str
    name: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QuotaSet:
    entity: QuotaEntity
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AclsSet:
    """All ACLs of one resource pattern; empty removes them."""

    pattern: ResourcePattern
    entries: tuple[Entry, ...]
    is_stored: bool = False
    """Another program wrote the node, and the controller only updates the image. Not part of the change list."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """A finalized feature level; 0 removes the feature."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """A broker got the block [first, next_id) of producer ids. No block is given twice."""

    broker: int
    first: int
    next_id: int


Change = (
    ControllerElected
    | BrokerRegistered
    | BrokerRemoved
    | TopicCreated
    | PartitionsAdded
    | PartitionChanged
    | TopicDeleted
    | ConfigSet
    | QuotaSet
    | AclsSet
    | FeatureSet
    | ProducerIdsAllocated
)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Draft:
    """The next image under construction. A part is copied at its first write; other parts are shared."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.fields: dict[str, Any] = {}
        self.partitions: dict[str, list[PartitionInfo]] = {}

    def table(self, name: str) -> dict[Any, Any]:
        if name not in self.fields:
            self.fields[name] = dict(getattr(self.image, name))
        found: dict[Any, Any] = self.fields[name]
        return found

    def topic(self, name: str) -> TopicInfo | None:
        topics: Mapping[str, TopicInfo] = self.fields.get("topics", self.image.topics)
        return topics.get(name)

    def partitions_of(self, topic: TopicInfo) -> list[PartitionInfo]:
        if topic.name not in self.partitions:
            self.partitions[topic.name] = list(topic.partitions)
        return self.partitions[topic.name]

    def finish(self, version: int) -> ClusterImage:
        if self.partitions:
            topics = self.table("topics")
            for name, infos in self.partitions.items():
                topics[name] = replace(topics[name], partitions=tuple(infos))
        return replace(self.image, version=version, **self.fields)


def apply(image: ClusterImage, changes: Iterable[Change], version: int) -> ClusterImage:
    """The image after `changes`, numbered `version`."""
    draft = _Draft(image)
    for change in changes:
        _replay(draft, change)
    return draft.finish(version)


def _replay(draft: _Draft, change: Change) -> None:
    match change:
        case PartitionChanged() | PartitionsAdded():
            _replay_partitions(draft, change)
        case TopicCreated(topic):
            old = draft.topic(topic.name)
            if old is not None and old.id != topic.id:
                draft.table("topic_names").pop(old.id, None)
            draft.table("topics")[topic.name] = topic
            draft.table("topic_names")[topic.id] = topic.name
            draft.partitions.pop(topic.name, None)
        case TopicDeleted(name, topic_id):
            known = draft.topic(name)
            draft.table("topic_names").pop(topic_id, None)
            _remember(draft.table("deleted_topics"), topic_id, name)
            # An image that was read meanwhile may lack the topic, or have a later one of that name, whose overrides
            # follow in a later change.
            draft.table("configs").pop(("topic", name), None)
            # A topic of the same name that was created after this deletion has another id and stays.
            if known is not None and known.id == topic_id:
                del draft.table("topics")[name]
                draft.partitions.pop(name, None)
        case BrokerRegistered(broker):
            for table in ("brokers", "fenced_brokers"):
                draft.table(table).pop(broker.id, None)
            draft.table("fenced_brokers" if broker.fenced else "brokers")[broker.id] = broker
        case BrokerRemoved(broker_id):
            for table in ("brokers", "fenced_brokers"):
                draft.table(table).pop(broker_id, None)
        case ControllerElected(broker_id, epoch):
            draft.fields["controller_id"] = broker_id
            draft.fields["controller_epoch"] = epoch
        case ConfigSet(resource_type, name, values):
            _put(draft.table("configs"), (resource_type, name), dict(values))
        case QuotaSet(entity, values):
            _put(draft.table("quotas"), entity, dict(values))
        case AclsSet(pattern, entries):
            _put(draft.table("acls"), pattern, entries)
        case ProducerIdsAllocated(_, _, next_id):
            draft.fields["next_producer_id"] = next_id
        case FeatureSet(name, level):
            _put(draft.table("features"), name, level)


def _remember(deleted: dict[UUID, str], topic_id: UUID, name: str) -> None:
    deleted[topic_id] = name
    while len(deleted) > DELETIONS_REMEMBERED:
        del deleted[next(iter(deleted))]


def _put(table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if value:
        table[key] = value
    else:
        table.pop(key, None)


def _replay_partitions(draft: _Draft, change: PartitionChanged | PartitionsAdded) -> None:
    topic = draft.topic(change.topic)
    if topic is None:
        return  # the topic is already deleted, or its deletion follows in the same list
    infos = draft.partitions_of(topic)
    if isinstance(change, PartitionChanged):
        if change.index < len(infos):
            infos[change.index] = change.info
    else:
        del infos[change.first_index :]
        infos.extend(change.infos)
