"""DescribeQuorum (key 55, versions 0–2): log end offset of each replica, and when it was last caught up.

v1 times of replicas (KIP-836) · v2 directories and listeners (KIP-853)

Differs from Kafka: there the request is only for the Raft log of metadata. Headrace has none: its cluster state is in
the coordination store, and the controller is its only writer. So the answer names the controller as leader and as the
only voter, its epoch, and the version of the cluster state as the high watermark; the other brokers are observers whose
progress is not known. For an ordinary partition, which Kafka refuses, the leader answers: in-sync replicas are voters,
the others observers. `headrace doctor` uses it to show since when a replica is out of sync. For the leader itself the
time of the last fetch is the begin of its leadership, and the time when it was caught up is now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.core.image import ClusterImage
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import CLUSTER_METADATA_TOPIC
from headrace.replication.core.isr import NEVER_MS, UNKNOWN_END
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
        Node,
        ReplicaState,
        ResponsePartitionData,
        ResponseTopicData,
    )


@dataclass(frozen=True)
class DescribeQuorum(Handler):
    partitions: Partitions
    image: Callable[[], ClusterImage]

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE)

    def serve(self, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
        topics: list[ResponseTopicData] = [
            {
                "topic_name": topic.topic_name,
                "partitions": [self._answer(topic.topic_name, one.partition_index) for one in topic.partitions],
            }
            for topic in request.topics
        ]
        asks_for_state = any(topic.topic_name == CLUSTER_METADATA_TOPIC for topic in request.topics)
        nodes = _nodes(self.image()) if asks_for_state else []
        return {"error_code": 0, "error_message": None, "topics": topics, "nodes": nodes}

    def _answer(self, topic: str, index: int) -> ResponsePartitionData:
        if topic == CLUSTER_METADATA_TOPIC:
            return _cluster_state(self.image(), index)
        try:
            return _described(self.partitions.led(topic, index), self.partitions.wall_ms())
        except Fault as fault:
            return _failed(index, fault.code, fault.message)


def _failed(index: int, code: ErrorCode, message: str) -> ResponsePartitionData:
    return {
        "partition_index": index, "error_code": int(code), "error_message": message,
        "leader_id": -1, "leader_epoch": -1, "high_watermark": -1, "current_voters": [], "observers": [],
    }  # fmt: skip


def _cluster_state(image: ClusterImage, index: int) -> ResponsePartitionData:
    if index != 0:
        return _failed(index, ErrorCode.unknown_topic_or_partition, f"{CLUSTER_METADATA_TOPIC} has only partition 0")
    if image.controller_id not in image.brokers:
        return _failed(index, ErrorCode.leader_not_available, "the cluster has no controller at the moment: ask again")
    others = [broker for broker in sorted(image.brokers) if broker != image.controller_id]
    return {
        "partition_index": index,
        "error_code": 0,
        "error_message": None,
        "leader_id": image.controller_id,
        "leader_epoch": image.controller_epoch,
        "high_watermark": image.version,
        "current_voters": [_replica(image.controller_id, image.version, NEVER_MS, NEVER_MS, 0)],
        "observers": [_replica(broker, UNKNOWN_END, NEVER_MS, NEVER_MS, 0) for broker in others],
    }


def _nodes(image: ClusterImage) -> list[Node]:
    return [
        {
            "node_id": broker.id,
            "listeners": [{"name": one.listener, "host": one.host, "port": one.port} for one in broker.endpoints],
        }
        for broker in image.brokers.values()
    ]


def _described(partition: Partition, wall_ms: int) -> ResponsePartitionData:
    isr = partition.check_leads()
    now_ms = partition.around.monotonic_ms()
    ahead_ms = wall_ms - now_ms
    states = {isr.leader: _replica(isr.leader, isr.log_end, isr.led_since_ms, now_ms, ahead_ms)}
    for broker, seen in isr.followers.items():
        states[broker] = _replica(broker, seen.log_end, seen.fetched_at_ms, seen.last_caught_up_ms, ahead_ms)
    return {
        "partition_index": partition.index,
        "error_code": 0,
        "error_message": None,
        "leader_id": isr.leader,
        "leader_epoch": isr.leader_epoch,
        "high_watermark": isr.high_watermark,
        "current_voters": [state for broker, state in sorted(states.items()) if broker in isr.stored],
        "observers": [state for broker, state in sorted(states.items()) if broker not in isr.stored],
    }


def _replica(broker: int, log_end: int, fetched_at_ms: int, caught_up_at_ms: int, ahead_ms: int) -> ReplicaState:
    """Wall-clock times, -1 for an event that has not happened under this leader."""
    return {
        "replica_id": broker,
        "replica_directory_id": None,
        "log_end_offset": max(log_end, UNKNOWN_END),
        "last_fetch_timestamp": -1 if fetched_at_ms == NEVER_MS else fetched_at_ms + ahead_ms,
        "last_caught_up_timestamp": -1 if caught_up_at_ms == NEVER_MS else caught_up_at_ms + ahead_ms,
    }
