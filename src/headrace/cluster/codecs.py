"""Cluster state as bytes: the JSON of the nodes (Kafka's field names where Kafka has the field) and of the change list.

People read nodes with zookeeper-shell, so nodes are plain JSON. Only brokers read change lists: these have the same
values as positional arrays, and large lists are compressed (a ZooKeeper node holds at most a megabyte).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

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
from headrace.cluster.core.image import BrokerInfo, Endpoint, PartitionInfo, QuotaEntity, TopicInfo
from headrace.cluster.core.losses import NO_LOSSES, ReplicaKey, ReplicaLosses
from headrace.coordination import paths
from headrace.kernel.ids import INTERNAL_TOPICS, uuid_from_text, uuid_to_text
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.security.acl.model import Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType

_DEFLATE_ABOVE_BYTES: Final = 4096


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def from_json(data: bytes) -> JsonValue:
    return json.loads(data)


# Nodes


def encode_registration(broker: BrokerInfo, *, clean_start: bool, timestamp_ms: int, version: str) -> bytes:
    first = broker.endpoints[0]
    return to_json(
        {
            "version": 5,
            "host": first.host,
            "port": first.port,
            "jmx_port": -1,
            "timestamp": str(timestamp_ms),
            "endpoints": [f"{e.listener}://{_host(e.host)}:{e.port}" for e in broker.endpoints],
            "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
            "rack": broker.rack,
            "features": {name: {"min_version": low, "max_version": high} for name, low, high in broker.features},
            "log_dirs": broker.log_dirs,
            "cordoned_log_dirs": broker.cordoned_log_dirs,
            "directories": broker.directories,
            **_losses_row(broker),
            "clean_start": clean_start,
            "headrace": version,
        }
    )


def decode_registration(broker_id: int, data: bytes, epoch: int) -> tuple[BrokerInfo, bool]:
    """The broker, and whether it started cleanly, so that its logs are complete."""
    value = from_json(data)
    protocols = value["listener_security_protocol_map"]
    endpoints = []
    for text in value["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(listener, host.strip("[]"), int(port), protocols[listener]))
    features = tuple(
        (name, int(levels["min_version"]), int(levels["max_version"]))
        for name, levels in (value.get("features") or {}).items()
    )
    rack = value.get("rack")
    broker = BrokerInfo(
        broker_id, epoch, tuple(endpoints), rack, False, False, features, *_directories(value), *_losses(value)
    )
    return broker, bool(value.get("clean_start", False))


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def encode_accepted(broker: BrokerInfo) -> bytes:
    return to_json(_broker_row(broker))


def decode_accepted(data: bytes) -> BrokerInfo:
    return _broker(from_json(data))


def encode_topic(topic: TopicInfo) -> bytes:
    rows = list(enumerate(topic.partitions))
    return to_json(
        {
            "version": 3,
            "topic_id": uuid_to_text(topic.id),
            "partitions": {str(index): info.replicas for index, info in rows},
            "adding_replicas": {str(index): info.adding for index, info in rows if info.adding},
            "removing_replicas": {str(index): info.removing for index, info in rows if info.removing},
        }
    )


# Content of a topic's node until all its partitions are written (only for topics too large for one multi).
TOPIC_UNFINISHED: Final = b'{"version":3,"creating":true}'


def decode_topic(data: bytes) -> tuple[UUID, JsonObject] | None:
    """The topic id and the raw value, or None if the creation of the topic did not finish."""
    value = from_json(data)
    if value.get("creating"):
        return None
    return uuid_from_text(value["topic_id"]), value


def encode_partition_state(info: PartitionInfo, controller_epoch: int) -> bytes:
    value: dict[str, object] = {
        "version": 1,
        "controller_epoch": controller_epoch,
        "leader": info.leader,
        "leader_epoch": info.leader_epoch,
        "partition_epoch": info.partition_epoch,
        "isr": info.isr,
    }
    if info.eligible:
        value["eligible"] = info.eligible
    if info.last_known_eligible:
        value["last_known_eligible"] = info.last_known_eligible
    return to_json(value)


def decode_partition(index: int, topic: JsonObject, state: bytes) -> PartitionInfo:
    value, key = from_json(state), str(index)
    return PartitionInfo(
        leader=value["leader"],
        leader_epoch=value["leader_epoch"],
        partition_epoch=value["partition_epoch"],
        isr=tuple(value["isr"]),
        replicas=tuple(topic["partitions"][key]),
        adding=tuple(topic["adding_replicas"].get(key, ())),
        removing=tuple(topic["removing_replicas"].get(key, ())),
        eligible=tuple(value.get("eligible", ())),
        last_known_eligible=tuple(value.get("last_known_eligible", ())),
    )


def encode_config(values: Mapping[str, object]) -> bytes:
    return to_json({"version": 1, "config": values})


def decode_config(data: bytes) -> JsonObject:
    found: JsonObject = from_json(data)["config"]
    return found


def encode_quota(change: QuotaSet) -> bytes:
    return to_json({"version": 1, "entity": change.entity, "config": dict(change.values)})


def decode_quota(data: bytes) -> QuotaSet:
    value = from_json(data)
    return QuotaSet(_entity(value["entity"]), value["config"])


def quota_path(entity: QuotaEntity) -> str:
    parts = (f"{kind}={paths.DEFAULT_NAME if name is None else paths.escape(name)}" for kind, name in entity)
    return f"{paths.QUOTAS}/{','.join(parts)}"


def encode_producer_ids(change: ProducerIdsAllocated) -> bytes:
    first, last = str(change.first), str(change.next_id - 1)
    return to_json({"version": 1, "broker": change.broker, "block_start": first, "block_end": last})


def decode_next_producer_id(data: bytes) -> int:
    return int(from_json(data)["block_end"]) + 1


def _entity(rows: list[list[str | None]]) -> QuotaEntity:
    return tuple((str(kind), name) for kind, name in rows)


# Change lists


def _partition_row(info: PartitionInfo) -> list[object]:
    row: list[object] = [info.leader, info.leader_epoch, info.partition_epoch, info.isr, info.replicas]
    if info.adding or info.removing or info.eligible or info.last_known_eligible:
        row += [info.adding, info.removing, info.eligible, info.last_known_eligible]
    return row


def _partition(row: list[JsonValue]) -> PartitionInfo:
    return PartitionInfo(row[0], row[1], row[2], *(tuple(part) for part in row[3:]))


def _broker_row(broker: BrokerInfo) -> dict[str, object]:
    return {
        "id": broker.id,
        "epoch": broker.epoch,
        "endpoints": [[e.listener, e.host, e.port, e.security_protocol] for e in broker.endpoints],
        "rack": broker.rack,
        "fenced": broker.fenced,
        "shutting_down": broker.shutting_down,
        "features": broker.features,
        "log_dirs": broker.log_dirs,
        "cordoned_log_dirs": broker.cordoned_log_dirs,
        "directories": broker.directories,
        **_losses_row(broker),
    }


def _broker(row: JsonObject) -> BrokerInfo:
    endpoints = tuple(Endpoint(*fields) for fields in row["endpoints"])
    features = tuple((name, low, high) for name, low, high in row.get("features", ()))
    return BrokerInfo(
        row["id"],
        row["epoch"],
        endpoints,
        row["rack"],
        row["fenced"],
        row["shutting_down"],
        features,
        *_directories(row),
        *_losses(row),
    )


def _directories(row: JsonObject) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Log directories, the cordoned ones, and the directories with their ids. A broker of an earlier version does not
    name all of them."""
    named = tuple(tuple(names) for names in row.get("log_dirs", ()))
    known = tuple((directory_id, path) for directory_id, path in row.get("directories", ()))
    return named, tuple(row.get("cordoned_log_dirs", ())), known


def _losses_row(broker: BrokerInfo) -> dict[str, object]:
    """Empty for a broker that lacks nothing."""
    losses, row = broker.losses, dict[str, object]()
    if losses:
        missing, incomplete = _replicas_row(losses.missing), _replicas_row(losses.incomplete)
        row["losses"] = {"missing": missing, "incomplete": incomplete, "offline": losses.is_offline}
    if broker.missing_since:
        row["missing_since"] = broker.missing_since
    return row


def _losses(row: JsonObject) -> tuple[ReplicaLosses, tuple[tuple[str, int], ...]]:
    missing_since = tuple((directory_id, epoch) for directory_id, epoch in row.get("missing_since", ()))
    found = row.get("losses")
    if found is None:
        return NO_LOSSES, missing_since
    losses = ReplicaLosses(_replicas(found["missing"]), _replicas(found["incomplete"]), bool(found["offline"]))
    return losses, missing_since


def _replicas_row(replicas: frozenset[ReplicaKey]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic_id, index in sorted(replicas):
        topics.setdefault(uuid_to_text(topic_id), []).append(index)
    return topics


def _replicas(topics: Mapping[str, Sequence[int]]) -> frozenset[ReplicaKey]:
    return frozenset((uuid_from_text(text), index) for text, indexes in topics.items() for index in indexes)


def _change_row(change: Change) -> list[object]:
    match change:
        case PartitionChanged(topic, index, info):
            return ["partition", topic, index, _partition_row(info)]
        case PartitionsAdded(topic, first_index, infos):
            return ["partitions", topic, first_index, [_partition_row(info) for info in infos]]
        case TopicCreated(created):
            return ["topic", created.name, created.id.hex, [_partition_row(info) for info in created.partitions]]
        case TopicDeleted(name, topic_id):
            return ["topic-", name, topic_id.hex]
        case BrokerRegistered(broker):
            return ["broker", _broker_row(broker)]
        case BrokerRemoved(broker_id):
            return ["broker-", broker_id]
        case ControllerElected(broker_id, epoch):
            return ["controller", broker_id, epoch]
        case ConfigSet(resource_type, name, values):
            return ["config", resource_type, name, dict(values)]
        case QuotaSet(entity, quotas):
            return ["quota", entity, dict(quotas)]
        case AclsSet(pattern, entries):
            rows = [[e.principal, e.host, int(e.operation), int(e.permission)] for e in entries]
            return ["acls", int(pattern.resource_type), int(pattern.pattern_type), pattern.name, rows]
        case FeatureSet(name, level):
            return ["feature", name, level]
        case ProducerIdsAllocated(broker_id, first, next_id):
            return ["producer-ids", broker_id, first, next_id]


def _change(row: list[JsonValue]) -> Change:
    match row:
        case ["partition", topic, index, info]:
            return PartitionChanged(topic, index, _partition(info))
        case ["partitions", topic, first_index, infos]:
            return PartitionsAdded(topic, first_index, tuple(map(_partition, infos)))
        case ["topic", name, topic_id, infos]:
            created = TopicInfo(name, UUID(hex=topic_id), tuple(map(_partition, infos)), name in INTERNAL_TOPICS)
            return TopicCreated(created)
        case ["topic-", name, topic_id]:
            return TopicDeleted(name, UUID(hex=topic_id))
        case ["broker", broker]:
            return BrokerRegistered(_broker(broker))
        case ["broker-", broker_id]:
            return BrokerRemoved(broker_id)
        case ["controller", broker_id, epoch]:
            return ControllerElected(broker_id, epoch)
        case ["config", resource_type, name, values]:
            return ConfigSet(resource_type, name, values)
        case ["quota", entity, values]:
            return QuotaSet(_entity(entity), values)
        case ["acls", resource_type, pattern_type, name, entries]:
            pattern = ResourcePattern(ResourceType(resource_type), name, PatternType(pattern_type))
            return AclsSet(pattern, tuple(Entry(who, host, Operation(o), Permission(p)) for who, host, o, p in entries))
        case ["feature", name, level]:
            return FeatureSet(name, level)
        case ["producer-ids", broker_id, first, next_id]:
            return ProducerIdsAllocated(broker_id, first, next_id)
    raise ValueError(f"a change of unknown kind {row[:1]}: was it written by a newer version?")


def encode_changes(changes: Sequence[Change], controller_epoch: int) -> bytes:
    """The controller epoch is included, so that a controller recognises its own entry after a lost connection."""
    data = to_json([controller_epoch, [_change_row(change) for change in changes]])
    return b"z" + zlib.compress(data, 1) if len(data) > _DEFLATE_ABOVE_BYTES else data


def decode_changes(data: bytes) -> list[Change]:
    value = from_json(zlib.decompress(data[1:]) if data[:1] == b"z" else data)
    return [_change(row) for row in value[1]]
