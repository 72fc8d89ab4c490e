"""Everything between the sockets and the logs, put together: the only place that knows everyone."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.broker.auto_creation import TopicCreation
from headrace.broker.control_handlers import control_handlers
from headrace.broker.coordinators import Coordinators
from headrace.broker.data_handlers import data_handlers
from headrace.broker.live_config import LiveConfig
from headrace.broker.peers import BrokerPeers
from headrace.broker.transaction_handlers import transaction_handlers
from headrace.cluster.view import ClusterView
from headrace.controller.gateway import ControllerGateway
from headrace.controller.member import ClusterMember
from headrace.handlers.api_versions import ApiVersions
from headrace.handlers.dispatcher import Dispatcher
from headrace.handlers.features import ClusterFeatures
from headrace.handlers.request_metrics import RequestMetrics
from headrace.handlers.table import HandlerTable
from headrace.replication.partitions import Partitions
from headrace.replication.service import Replication, topic_log_config
from headrace.storage.log_dirs import LogDirs

# An epoch that no registration has: until this broker is registered, no image is acted on.
_NOT_REGISTERED = -2


@dataclass
class Parts:
    dispatcher: Dispatcher
    table: HandlerTable
    metrics: RequestMetrics
    partitions: Partitions
    replication: Replication
    coordinators: Coordinators
    gateway: ControllerGateway
    peers: BrokerPeers

    def start(self) -> None:
        self.replication.start()

    async def close(self) -> None:
        await self.coordinators.close()
        await self.replication.close()
        await self.gateway.close()
        await self.peers.close()


def wire(config: LiveConfig, view: ClusterView, log_dirs: LogDirs, member: ClusterMember, inter_broker: str) -> Parts:
    """Subscribes to the image in the order in which its parts may act on it: settings (already), logs, coordinators."""
    replication = Replication.for_broker(
        config(), log_dirs, view, topic_log_config(config), listener=inter_broker, lease_held=member.lease_held
    )
    partitions = replication.partitions
    partitions.registered_as(_NOT_REGISTERED)
    member.membership.on_registered(partitions.registered_as)
    config.subscribe(lambda _: partitions.broker_config_changed())
    gateway = ControllerGateway(member.controller, view, inter_broker, lambda: (member.broker_id, member.epoch))
    peers = BrokerPeers(view, inter_broker)
    creation = TopicCreation(config, view, gateway)
    coordinators = Coordinators(config(), view, partitions, member.broker_id, gateway, creation, peers)
    view.subscribe(lambda _, new: coordinators.follow(new))
    table = HandlerTable()
    for handler in (
        *data_handlers(config(), view, partitions, log_dirs, creation, coordinators),
        *control_handlers(gateway, config, view, member.broker_id, table),
        *transaction_handlers(coordinators, view),
        ApiVersions(table, ClusterFeatures(table, view)),
    ):
        table.add(handler)
    metrics = RequestMetrics()
    dispatcher = Dispatcher(table, metrics)
    return Parts(dispatcher, table, metrics, partitions, replication, coordinators, gateway, peers)
