"""What answers to ShareFetch and ShareAcknowledge share: who leads a partition now, and where that broker is."""

from __future__ import annotations

import uuid
from typing import Any

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.share.core.share_partition import Acknowledgement
from headrace.handlers.context import RequestContext
from headrace.kernel.errors import ErrorCode, Fault

NOBODY = {"leader_id": -1, "leader_epoch": -1}
_MOVED = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


def current_leader(
    image: ClusterImage, partition: tuple[uuid.UUID, int], errors: tuple[ErrorCode, ...], leaders: set[int]
) -> dict[str, int]:
    """Told only to a client that looks in the wrong place."""
    name = image.topic_names.get(partition[0])
    info = image.partition(name, partition[1]) if name is not None else None
    if info is None or not any(error in _MOVED for error in errors):
        return NOBODY
    leaders.add(info.leader)
    return {"leader_id": info.leader, "leader_epoch": info.leader_epoch}


def node_endpoints(image: ClusterImage, leaders: set[int], context: RequestContext) -> list[dict[str, Any]]:
    found = []
    for broker_id in sorted(leaders):
        broker = image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(context.listener)
        if broker is not None and endpoint is not None:
            node = {"node_id": broker_id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
            found.append(node)
    return found


def refused(fault: Fault) -> dict[str, Any]:
    return {
        "error_code": fault.code,
        "error_message": fault.message,
        "acquisition_lock_timeout": 0,
        "responses": [],
        "node_endpoints": [],
    }


def acknowledgements_of(topics: Any) -> dict[tuple[uuid.UUID, int], list[Acknowledgement]]:
    return {
        (topic.topic_id, partition.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }
