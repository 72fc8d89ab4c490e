"""Changes of the cluster image: absolute values, so that applying one twice is harmless.

`apply` is the only way from one image to the next: the controller decides changes, stores them, and every broker
replays the same list under the same version. (Kafka's metadata records and replay; here one list per version.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import UUID

from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, QuotaEntity, TopicInfo
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Entry, ResourcePattern

# A broker acts on a deletion when it applies the image, moments after it was replayed. What is forgotten before that is
# set aside and not deleted.
DELETIONS_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class ControllerElected:
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker was accepted, or its accepted registration changed: with `fenced` set, it is away."""

    broker: BrokerInfo


@dataclass(frozen=True, slots=True)
class BrokerRemoved:
    """A broker that is away was unregistered: nobody expects it back."""

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
    """All overrides of one resource; empty means none are left."""

    resource_type: str
    name: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QuotaSet:
    entity: QuotaEntity
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AclsSet:
    """All ACLs of one resource pattern; empty means none are left."""

    pattern: ResourcePattern
    entries: tuple[Entry, ...]
    is_stored: bool = False
    """Another program wrote the node: the controller only brings the image up to it. Not part of the change list."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """A finalized feature level; 0 takes the feature away."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """The block [first, next_id) went to a broker; nobody gets it again."""

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
    """The next image while it is being made: a part is copied on its first write, untouched parts stay shared."""

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
            # A topic of the same name made after this deletion has another id and stays.
            if known is not None and known.id == topic_id:
                del draft.table("topics")[name]
                draft.partitions.pop(name, None)
                draft.table("configs").pop(("topic", name), None)
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
        return  # read after the topic had gone: the deletion follows in the same list or already happened
    infos = draft.partitions_of(topic)
    if isinstance(change, PartitionChanged):
        if change.index < len(infos):
            infos[change.index] = change.info
    else:
        del infos[change.first_index :]
        infos.extend(change.infos)
