"""DescribeQuorum (key 55, versions 0–2): log end offset of each replica, and when it was last caught up.

v1 times of replicas (KIP-836) · v2 directories and listeners (KIP-853)

Differs from Kafka: there the request is only for the Raft log of metadata. Headrace has none (its cluster state is in
the coordination store) and refuses it as a Kafka broker in ZooKeeper mode does. For an ordinary partition, which Kafka
refuses, the leader answers: in-sync replicas are voters, the others observers. `headrace doctor` uses it to show since
when a replica is out of sync. For the leader itself the time of the last fetch is the begin of its leadership, and the
time when it was caught up is now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
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
        ReplicaState,
        ResponsePartitionData,
        ResponseTopicData,
    )


_RAFT_LOG: Final = CLUSTER_METADATA_TOPIC


@dataclass(frozen=True)
class DescribeQuorum(Handler):
    partitions: Partitions

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE)

    def serve(self, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
        if not request.topics or any(topic.topic_name == _RAFT_LOG for topic in request.topics):
            why = "there is no Raft quorum here: cluster state lives in the coordination store"
            raise Refused(ErrorCode.unsupported_version, why)
        topics: list[ResponseTopicData] = [
            {
                "topic_name": topic.topic_name,
                "partitions": [self._answer(topic.topic_name, one.partition_index) for one in topic.partitions],
            }
            for topic in request.topics
        ]
        return {"error_code": 0, "error_message": None, "topics": topics, "nodes": []}

    def _answer(self, topic: str, index: int) -> ResponsePartitionData:
        try:
            return _described(self.partitions.led(topic, index), self.partitions.wall_ms())
        except Fault as fault:
            return {
                "partition_index": index, "error_code": int(fault.code), "error_message": fault.message,
                "leader_id": -1, "leader_epoch": -1, "high_watermark": -1, "current_voters": [], "observers": [],
            }  # fmt: skip


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
