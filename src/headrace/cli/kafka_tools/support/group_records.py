"""Records of consumer, share and streams groups and of share state as JSON, in the format of Kafka's tools.

Tagged fields appear only if they are not the default, as in Kafka's JSON.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headrace.coordinators.codec import consumer_groups, share_groups, share_state, streams_groups
from headrace.coordinators.codec.primitives import Reader, UnreadableRecord, key_words
from headrace.coordinators.codec.streams_topology import TOPOLOGY, InternalTopicInfo, read_topology_value
from headrace.kernel.ids import uuid_to_text

Json = dict[str, object]


def _named_key(*names: str) -> Callable[[bytes], Json]:
    return lambda key: dict(zip(names, key_words(key, len(names)), strict=True))


_GROUP = _named_key("groupId")
_MEMBER = _named_key("groupId", "memberId")


def _topics(partitions: Mapping[uuid.UUID, Iterable[int]]) -> list[Json]:
    return [{"topicId": uuid_to_text(id), "partitions": sorted(indexes)} for id, indexes in partitions.items()]


def _epoched(partitions: Mapping[uuid.UUID, Mapping[int, int]]) -> list[Json]:
    found = []
    for id, epochs in partitions.items():
        topic: Json = {"topicId": uuid_to_text(id), "partitions": list(epochs)}
        if any(epoch >= 0 for epoch in epochs.values()):
            topic["assignmentEpochs"] = list(epochs.values())
        found.append(topic)
    return found


def _consumer_group(value: bytes) -> Json:
    epoch, metadata_hash = consumer_groups.read_group_metadata_value(value)
    return {"epoch": epoch, **({"metadataHash": metadata_hash} if metadata_hash else {})}


def _consumer_member(value: bytes) -> Json:
    found = consumer_groups.read_member_metadata_value(value)
    member: Json = {
        "instanceId": found.instance_id,
        "rackId": found.rack_id,
        "clientId": found.client_id,
        "clientHost": found.client_host,
        "subscribedTopicNames": list(found.topic_names),
        "subscribedTopicRegex": found.topic_regex or "",
        "rebalanceTimeoutMs": found.rebalance_timeout_ms,
        "serverAssignor": found.server_assignor,
        "classicMemberMetadata": None,
    }
    if found.classic is not None:
        member["classicMemberMetadata"] = {
            "sessionTimeoutMs": found.classic.session_timeout_ms,
            "supportedProtocols": [{"name": n, "metadata": _base64(data)} for n, data in found.classic.protocols],
        }
    return member


def _target_metadata(value: bytes) -> Json:
    epoch, timestamp_ms = consumer_groups.read_target_metadata_value(value)
    return {"assignmentEpoch": epoch, **({"assignmentTimestamp": timestamp_ms} if timestamp_ms else {})}


def _target_member(value: bytes) -> Json:
    return {"topicPartitions": _topics(consumer_groups.read_target_member_value(value))}


def _consumer_assignment(value: bytes) -> Json:
    found = consumer_groups.read_current_assignment_value(value)
    return {
        "memberEpoch": found.member_epoch,
        "previousMemberEpoch": found.previous_member_epoch,
        "state": found.state,
        "assignedPartitions": _epoched(found.assigned),
        "partitionsPendingRevocation": _epoched(found.pending_revocation),
    }


def _regular_expression(value: bytes) -> Json:
    topics, version, timestamp_ms = consumer_groups.read_regular_expression_value(value)
    return {"topics": sorted(topics), "version": version, "timestamp": timestamp_ms}


def _share_group(value: bytes) -> Json:
    epoch, metadata_hash = share_groups.read_group_metadata_value(value)
    return {"epoch": epoch, "metadataHash": metadata_hash}


def _share_member(value: bytes) -> Json:
    found = share_groups.read_member_metadata_value(value)
    names = list(found.topic_names)
    client = {"clientId": found.client_id, "clientHost": found.client_host}
    return {"rackId": found.rack_id, **client, "subscribedTopicNames": names}


def _share_assignment(value: bytes) -> Json:
    found = share_groups.read_current_assignment_value(value)
    epochs = {"memberEpoch": found.member_epoch, "previousMemberEpoch": found.previous_member_epoch}
    return {**epochs, "state": found.state, "assignedPartitions": _topics(found.assigned)}


def _share_partitions(value: bytes) -> Json:
    found = share_groups.read_state_partition_metadata_value(value)

    def named(topics: share_groups.NamedPartitions) -> list[Json]:
        return [
            {"topicId": uuid_to_text(id), "topicName": name, "partitions": sorted(indexes)}
            for id, (name, indexes) in topics.items()
        ]

    deleting = [{"topicId": uuid_to_text(id), "topicName": name} for id, name in found.deleting.items()]
    return {
        "initializingTopics": named(found.initializing),
        "initializedTopics": named(found.initialized),
        "deletingTopics": deleting,
    }


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[Json]:
    return [{"key": key, "value": value} for key, value in pairs]


def _streams_group(value: bytes) -> Json:
    found = streams_groups.read_group_metadata_value(value)
    group: Json = {"epoch": found.epoch, "metadataHash": found.metadata_hash}
    if found.validated_topology_epoch != -1:
        group["validatedTopologyEpoch"] = found.validated_topology_epoch
    return {**group, "lastAssignmentConfigs": _pairs(found.assignment_configs)}


def _streams_member(value: bytes) -> Json:
    found = streams_groups.read_member_metadata_value(value)
    endpoint = found.user_endpoint
    return {
        "instanceId": found.instance_id,
        "rackId": found.rack_id,
        "clientId": found.client_id,
        "clientHost": found.client_host,
        "rebalanceTimeoutMs": found.rebalance_timeout_ms,
        "topologyEpoch": found.topology_epoch,
        "processId": found.process_id,
        "userEndpoint": None if endpoint is None else {"host": endpoint.host, "port": endpoint.port},
        "clientTags": _pairs(found.client_tags),
    }


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[Json]:
    return [{"subtopologyId": name, "partitions": sorted(indexes)} for name, indexes in tasks.items()]


def _epoched_tasks(tasks: Mapping[str, Mapping[int, int]]) -> list[Json]:
    return [
        {"subtopologyId": name, "partitions": list(epochs), "assignmentEpochs": list(epochs.values())}
        for name, epochs in tasks.items()
    ]


def _streams_target(value: bytes) -> Json:
    found = streams_groups.read_target_member_value(value)
    active, standby, warmup = map(_tasks, found)
    return {"activeTasks": active, "standbyTasks": standby, "warmupTasks": warmup}


def _streams_assignment(value: bytes) -> Json:
    found = streams_groups.read_current_assignment_value(value)
    has, revokes = found.assigned, found.pending_revocation
    return {
        "memberEpoch": found.member_epoch,
        "previousMemberEpoch": found.previous_member_epoch,
        "state": found.state,
        "activeTasks": _epoched_tasks(has.active),
        "standbyTasks": _tasks(has.standby),
        "warmupTasks": _tasks(has.warmup),
        "activeTasksPendingRevocation": _epoched_tasks(revokes.active),
        "standbyTasksPendingRevocation": _tasks(revokes.standby),
        "warmupTasksPendingRevocation": _tasks(revokes.warmup),
    }


def _internal_topics(topics: Iterable[InternalTopicInfo]) -> list[Json]:
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replicationFactor": topic.replication_factor,
            "topicConfigs": _pairs(topic.configs),
        }
        for topic in topics
    ]


def _streams_topology(value: bytes) -> Json:
    found = read_topology_value(value)
    subtopologies = [
        {
            "subtopologyId": each.id,
            "sourceTopics": list(each.source_topics),
            "sourceTopicRegex": list(each.source_topic_regex),
            "stateChangelogTopics": _internal_topics(each.changelog_topics),
            "repartitionSinkTopics": list(each.repartition_sink_topics),
            "repartitionSourceTopics": _internal_topics(each.repartition_source_topics),
            "copartitionGroups": [
                {
                    "sourceTopics": list(group.source_topics),
                    "sourceTopicRegex": list(group.source_topic_regex),
                    "repartitionSourceTopics": list(group.repartition_source_topics),
                }
                for group in each.copartition_groups
            ],
        }
        for each in found.subtopologies
    ]
    return {"epoch": found.epoch, "subtopologies": subtopologies}


# Record type → decoders of key and value.
GROUP_RECORDS: Final[dict[int, tuple[Callable[[bytes], Json], Callable[[bytes], Json]]]] = {
    consumer_groups.GROUP_METADATA: (_GROUP, _consumer_group),
    consumer_groups.MEMBER_METADATA: (_MEMBER, _consumer_member),
    consumer_groups.TARGET_METADATA: (_GROUP, _target_metadata),
    consumer_groups.TARGET_MEMBER: (_MEMBER, _target_member),
    consumer_groups.CURRENT_ASSIGNMENT: (_MEMBER, _consumer_assignment),
    consumer_groups.REGULAR_EXPRESSION: (_named_key("groupId", "regularExpression"), _regular_expression),
    share_groups.MEMBER_METADATA: (_MEMBER, _share_member),
    share_groups.GROUP_METADATA: (_GROUP, _share_group),
    share_groups.TARGET_METADATA: (_GROUP, _target_metadata),
    share_groups.TARGET_MEMBER: (_MEMBER, _target_member),
    share_groups.CURRENT_ASSIGNMENT: (_MEMBER, _share_assignment),
    share_groups.STATE_PARTITION_METADATA: (_GROUP, _share_partitions),
    streams_groups.GROUP_METADATA: (_GROUP, _streams_group),
    streams_groups.MEMBER_METADATA: (_MEMBER, _streams_member),
    streams_groups.TARGET_METADATA: (_GROUP, _target_metadata),
    streams_groups.TARGET_MEMBER: (_MEMBER, _streams_target),
    streams_groups.CURRENT_ASSIGNMENT: (_MEMBER, _streams_assignment),
    TOPOLOGY: (_GROUP, _streams_topology),
}


def _share_key(key: bytes) -> Json:
    found = share_state.read_share_key(key)
    return {"groupId": found.group_id, "topicId": uuid_to_text(found.topic_id), "partition": found.partition}


def _complete(count: int) -> Json:
    return {} if count < 0 else {"deliveryCompleteCount": count}


def _state_batches(batches: Iterable[share_state.StateBatch]) -> Json:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return {"stateBatches": [dict(zip(names, batch, strict=True)) for batch in batches]}


def _snapshot(value: bytes) -> Json:
    found = share_state.read_share_snapshot_value(value)
    return {
        "snapshotEpoch": found.snapshot_epoch,
        "stateEpoch": found.state_epoch,
        "leaderEpoch": found.leader_epoch,
        "startOffset": found.start_offset,
        **_complete(found.delivery_complete_count),
        "createTimestamp": found.create_timestamp_ms,
        "writeTimestamp": found.write_timestamp_ms,
        **_state_batches(found.batches),
    }


def _update(value: bytes) -> Json:
    found = share_state.read_share_update_value(value)
    return {
        "snapshotEpoch": found.snapshot_epoch,
        "leaderEpoch": found.leader_epoch,
        "startOffset": found.start_offset,
        **_complete(found.delivery_complete_count),
        **_state_batches(found.batches),
    }


SHARE_STATE_RECORDS: Final = {
    share_state.SHARE_SNAPSHOT: (_share_key, _snapshot),
    share_state.SHARE_UPDATE: (_share_key, _update),
}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def subscription(data: bytes) -> Json | str:
    """The subscription of a classic consumer, in any version; base64 if it cannot be decoded."""
    try:
        reader = Reader(data)
        version = reader.int16()
        found: Json = {"topics": [reader.string() for _ in range(reader.array_count())], "userData": _user_data(reader)}
        owned = _partitions(reader) if version >= 1 else []
        generation = reader.int32() if version >= 2 else -1
        rack = reader.nullable_string() if version >= 3 else None
    except UnreadableRecord:
        return _base64(data)
    return found | {"ownedPartitions": owned, "generationId": generation, "rackId": rack}


def assignment(data: bytes) -> Json | str:
    """The assignment of a classic consumer."""
    try:
        reader = Reader(data, 2)
        return {"assignedPartitions": _partitions(reader), "userData": _user_data(reader)}
    except UnreadableRecord:
        return _base64(data)


def _partitions(reader: Reader) -> list[Json]:
    return [
        {"topic": reader.string(), "partitions": [reader.int32() for _ in range(reader.array_count())]}
        for _ in range(reader.array_count())
    ]


def _user_data(reader: Reader) -> str | None:
    length = reader.int32()
    return None if length < 0 else _base64(bytes(reader.int8() & 0xFF for _ in range(length)))
