"""Changes of the image as operations on the store: the nodes that each kind of change writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.cluster import codecs
from headrace.cluster.core.changes import (
    AclsSet,
    BrokerRegistered,
    BrokerRemoved,
    Change,
    ConfigSet,
    ControllerElected,
    FeatureSet,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    QuotaSet,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.controller.core.acls import size_bytes
from headrace.coordination import paths
from headrace.coordination.store import Check, Create, Delete, Op, Set
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl import store_format

# Number of kept change lists. A broker that is further behind reads the whole image instead.
CHANGES_KEPT: Final = 256
# Operations in one multi, those on topics with long names counting for more (`name_weight`). ZooKeeper accepts a
# megabyte per request by default and closes the connection after more. An operation is about 200 bytes and its path.
OPS_PER_MULTI: Final = 2000
# The files of the embedded store, and the messages of a unit, have two bytes for the length of a path.
LONGEST_PATH: Final = 65_535
# Bytes of settings, which are written as a node and in the change list.
_BYTES_PER_OP: Final = 100


def check_paths(changes: Sequence[Change]) -> None:
    """Raises Refused for a name whose node no store can hold. Escaped names are up to three times as long."""
    for change in changes:
        match change:
            case ConfigSet(resource_type, name, _):
                path = paths.config(resource_type, name)
            case QuotaSet(entity, _):
                path = codecs.quota_path(entity)
            case AclsSet(pattern, _, is_stored=False):
                path = store_format.path(pattern)
            case _:
                continue
        if len(path.encode()) > LONGEST_PATH:
            why = f"a name is too long: its node in the coordination store would have a path of {len(path)} characters"
            raise Refused(ErrorCode.invalid_request, why)


def ops_for(changes: Sequence[Change], before: ClusterImage, after: ClusterImage) -> list[Op]:
    """The operations that change the nodes from `before` to `after`."""
    ops: list[Op] = []
    rewritten: set[str] = set()
    there: dict[str, bool] = {}  # nodes that an earlier change of this list has created or deleted

    def put(path: str, data: bytes | None, existed: bool) -> None:
        exists = there.get(path, existed)
        if data is not None:
            ops.append(Set(path, data) if exists else Create(path, data))
        elif exists:
            ops.append(Delete(path))
        there[path] = data is not None

    for change in changes:
        match change:
            case PartitionChanged(name, index, info):
                state = codecs.encode_partition_state(info, after.controller_epoch)
                ops.append(Set(paths.partition_state(name, index), state))
                old = before.partition(name, index)
                moved = old is None or (old.replicas, old.adding, old.removing) != (
                    info.replicas,
                    info.adding,
                    info.removing,
                )
                if moved and name not in rewritten:
                    rewritten.add(name)
                    ops.append(Set(paths.topic(name), codecs.encode_topic(after.topics[name])))
            case TopicCreated(topic):
                ops.append(Create(paths.topic(topic.name), codecs.encode_topic(topic)))
                ops.append(Create(paths.topic_partitions(topic.name), b""))
                ops += partition_nodes(topic.name, 0, topic.partitions, after.controller_epoch)
            case PartitionsAdded(name, first_index, infos):
                ops.append(Set(paths.topic(name), codecs.encode_topic(after.topics[name])))
                ops += partition_nodes(name, first_index, infos, after.controller_epoch)
            case TopicDeleted(name, _):
                ops.append(Create(paths.delete_topic(name), b""))
            case BrokerRegistered(broker):
                known = before.registered(broker.id) is not None
                put(paths.accepted_broker(broker.id), codecs.encode_accepted(broker), known)
            case BrokerRemoved(broker_id):
                put(paths.accepted_broker(broker_id), None, before.registered(broker_id) is not None)
            case ConfigSet(resource_type, name, values):
                data = codecs.encode_config(dict(values)) if values else None
                put(paths.config(resource_type, name), data, (resource_type, name) in before.configs)
            case QuotaSet(entity, quotas):
                put(codecs.quota_path(entity), codecs.encode_quota(change) if quotas else None, entity in before.quotas)
            case AclsSet(_, _, is_stored=True):
                pass
            case AclsSet(pattern, entries):
                data = store_format.encode_entries(entries) if entries else None
                put(store_format.path(pattern), data, pattern in before.acls)
            case FeatureSet(name, level):
                put(paths.feature(name), codecs.to_json({"level": level}) if level else None, name in before.features)
            case ProducerIdsAllocated():
                put(paths.PRODUCER_IDS, codecs.encode_producer_ids(change), before.next_producer_id > 0)
            case ControllerElected():
                pass  # is in the version node
    return ops


def partition_nodes(name: str, first_index: int, infos: Sequence[PartitionInfo], controller_epoch: int) -> list[Op]:
    ops: list[Op] = []
    for at, info in enumerate(infos):
        index = first_index + at
        ops.append(Create(paths.partition(name, index), b""))
        state = codecs.encode_partition_state(info, controller_epoch)
        ops.append(Create(paths.partition_state(name, index), state))
    return ops


def large_topic_steps(topic: TopicInfo, controller_epoch: int) -> list[list[Op]]:
    """A topic too large for one multi, written under a mark for an unfinished topic."""
    steps: list[list[Op]] = [
        [Create(paths.topic(topic.name), codecs.TOPIC_UNFINISHED), Create(paths.topic_partitions(topic.name), b"")]
    ]
    step = max(1, OPS_PER_MULTI // (2 * name_weight(topic.name)))
    for first in range(0, len(topic.partitions), step):
        infos = topic.partitions[first : first + step]
        steps.append(partition_nodes(topic.name, first, infos, controller_epoch))
    return steps


def finish_large_topic(topic: TopicInfo) -> Op:
    return Set(paths.topic(topic.name), codecs.encode_topic(topic))


def version_ops(changes: Sequence[Change], after: ClusterImage) -> list[Op]:
    """Last operations of every multi that changes the image: the new version and its change list."""
    head = {
        "version": after.version,
        "controller": after.controller_id,
        "controller_epoch": after.controller_epoch,
    }
    ops: list[Op] = [
        Set(paths.IMAGE, codecs.to_json(head)),
        Create(paths.change(after.version), codecs.encode_changes(changes, after.controller_epoch)),
    ]
    if after.version > CHANGES_KEPT:
        ops.append(Delete(paths.change(after.version - CHANGES_KEPT)))
    return ops


def fence(epoch_version: int) -> Op:
    """First operation of every multi of a controller: fails once another controller has been elected."""
    return Check(paths.CONTROLLER_EPOCH, epoch_version)


def name_weight(topic: str) -> int:
    """Weight of an operation on this topic, in operations with a short path."""
    return 1 + len(topic) // 100


def weight(change: Change) -> int:
    """Approximate number of operations of a change."""
    match change:
        case TopicCreated(topic):
            return (2 + 2 * len(topic.partitions)) * name_weight(topic.name)
        case PartitionsAdded(name, _, infos):
            return (1 + 2 * len(infos)) * name_weight(name)
        case PartitionChanged(name, _, _):
            return 2 * name_weight(name)
        case ConfigSet(_, _, values):
            # Lists of throttled replicas may be long. One resource always fits one multi: values
            # are bounded (`config_changes`), and few are lists.
            size = sum(len(key) + len(value) for key, value in values.items())
            return min(OPS_PER_MULTI, 2 + size // _BYTES_PER_OP)
        case AclsSet(pattern, entries):
            return min(OPS_PER_MULTI, 2 + 2 * (len(pattern.name) + size_bytes(entries)) // _BYTES_PER_OP)
        case _:
            return 2
