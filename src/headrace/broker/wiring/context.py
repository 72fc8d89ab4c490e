"""The interface of a broker for its coordinators."""

from __future__ import annotations

from headrace.broker.peers import BrokerPeers
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig
from headrace.kernel.clock import Clock
from headrace.kernel.dataclass import dataclass
from headrace.replication.partitions import Partitions


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """`config`: the configuration at the start of the broker."""

    broker_id: int
    config: BrokerConfig
    view: ClusterView
    partitions: Partitions
    peers: BrokerPeers
    clock: Clock
