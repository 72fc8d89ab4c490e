"""The current leader of a partition, for answers that redirect a client (KIP-951)."""

from __future__ import annotations

from headrace.cluster.view import ClusterView
from headrace.kernel.dataclass import dataclass
from headrace.wire.node_endpoints import NodeEndpoint


@dataclass(frozen=True)
class Leaders:
    view: ClusterView

    def of(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, epoch) in the image, or None for an unknown partition."""
        info = self.view.current.partition(topic, partition)
        return None if info is None else (info.leader, info.leader_epoch)

    def endpoints(self, brokers: set[int], listener: str) -> tuple[NodeEndpoint, ...]:
        """The addresses of those brokers on the client's listener."""
        found = []
        for broker_id in sorted(brokers):
            broker = self.view.current.brokers.get(broker_id)
            endpoint = broker.endpoint(listener) if broker is not None else None
            if broker is not None and endpoint is not None:
                found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port, broker.rack))
        return tuple(found)
