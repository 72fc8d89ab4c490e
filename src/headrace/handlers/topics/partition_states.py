"""One partition in the answers of Metadata and DescribeTopicPartitions, for a client of a listener. The latter has no
error for a partition without a leader: only its leader is -1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.cluster.core.image import NO_LEADER, ClusterImage, PartitionInfo
from headrace.kernel.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponsePartition


_NO_LEADER_CODE: Final = int(ErrorCode.leader_not_available)
_NO_LISTENER_CODE: Final = int(ErrorCode.listener_not_found)


def partition_state(
    image: ClusterImage, index: int, info: PartitionInfo, listener: str | None
) -> DescribeTopicPartitionsResponsePartition:
    error_code, leader = 0, info.leader
    broker = image.brokers.get(leader)
    if leader == NO_LEADER or broker is None or broker.fenced:
        error_code, leader = _NO_LEADER_CODE, NO_LEADER
    elif listener is not None and broker.endpoint(listener) is None:
        error_code, leader = _NO_LISTENER_CODE, NO_LEADER
    return {
        "error_code": error_code,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": info.leader_epoch,
        "replica_nodes": info.replicas,
        "isr_nodes": info.isr,
        "eligible_leader_replicas": info.eligible,
        "last_known_elr": info.last_known_eligible,
        "offline_replicas": tuple(replica for replica in info.replicas if not image.is_alive(replica)),
    }
