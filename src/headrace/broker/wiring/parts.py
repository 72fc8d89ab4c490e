"""Builds everything between the sockets and the logs: the only module that knows all parts."""

from __future__ import annotations

from functools import partial

from headrace.broker.access_control import access_control
from headrace.broker.audit_topic import AuditTopic
from headrace.broker.auto_creation import TopicCreation
from headrace.broker.full_disks import FullDisks
from headrace.broker.listener_certificates import ListenerCertificates
from headrace.broker.live_config import LiveConfig
from headrace.broker.peers import BrokerPeers
from headrace.broker.wiring.context import CoordinatorContext
from headrace.broker.wiring.coordinators import Coordinators
from headrace.broker.wiring.data_handlers import data_handlers
from headrace.broker.wiring.group_handlers import group_handlers
from headrace.broker.wiring.logins import login_to_brokers, logins_of_clients
from headrace.broker.wiring.share_handlers import share_handlers
from headrace.broker.wiring.telemetry_handlers import telemetry_handlers
from headrace.broker.wiring.transaction_handlers import transaction_handlers
from headrace.client.connection import Connection
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig, Listeners
from headrace.config.key import INT_MAX
from headrace.controller.gateway import ControllerGateway
from headrace.controller.member import ClusterMember
from headrace.coordination.fallback_channel import ControllerChannel
from headrace.handlers.cluster.api_versions import ApiVersions
from headrace.handlers.cluster.features import ClusterFeatures
from headrace.handlers.cluster.handlers import control_plane_handlers
from headrace.handlers.dispatch.audit import Audit
from headrace.handlers.dispatch.authorization import Authorization
from headrace.handlers.dispatch.dispatcher import Dispatcher
from headrace.handlers.dispatch.login import Logins
from headrace.handlers.dispatch.metering import Metering
from headrace.handlers.dispatch.replica_only import ReplicaOnly
from headrace.handlers.dispatch.request_metrics import RequestMetrics
from headrace.handlers.dispatch.table import HandlerTable
from headrace.handlers.groups.streams_internal_topics import StreamsInternalTopics
from headrace.kernel.clock import Clock
from headrace.kernel.dataclass import dataclass
from headrace.quota.quotas import Quotas
from headrace.replication.leader_channel import WireChannel
from headrace.replication.lost_logs import LostLogs
from headrace.replication.partitions import Partitions
from headrace.replication.replica_moves import ReplicaMoves
from headrace.replication.service import Replication, topic_log_config
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log
from headrace.telemetry.clients.pushed_metrics import PushedMetrics

# An epoch that no registration has: an unregistered broker does not act on images.
_NOT_REGISTERED = -2


@dataclass
class Parts:
    dispatcher: Dispatcher
    table: HandlerTable
    metrics: RequestMetrics
    metering: Metering
    partitions: Partitions
    replication: Replication
    coordinators: Coordinators
    gateway: ControllerGateway
    peers: BrokerPeers
    full_disks: FullDisks
    logins: Logins
    audit_topic: AuditTopic | None
    replica_moves: ReplicaMoves
    pushed_metrics: PushedMetrics

    def start(self) -> None:
        self.replication.start()
        self.replica_moves.start()

    def replicated_up_to(self, log: Log) -> int:
        """Offset up to which every assigned replica has the log: compaction keeps tombstones that a replica has not
        fetched."""
        partition = self.partitions.get(log.topic, log.partition)
        if partition is None or partition.isr is None:
            return log.log_start_offset if partition is not None else 0
        ends = [progress.log_end for progress in partition.isr.followers.values()]
        return min([log.high_watermark, *ends])

    async def close(self) -> None:
        await self.replica_moves.close()
        if self.audit_topic is not None:
            await self.audit_topic.close()
        await self.coordinators.close()
        await self.replication.close()
        await self.full_disks.close()
        await self.gateway.close()
        await self.peers.close()
        self.logins.close()


def wire(
    config: LiveConfig,
    view: ClusterView,
    log_dirs: LogDirs,
    lost_logs: LostLogs,
    member: ClusterMember,
    listeners: Listeners,
    certificates: ListenerCertificates,
    table: HandlerTable,
    clock: Clock,
) -> Parts:
    """Fills `table`, which the controller of `member` uses too.

    Subscribes to the image in the order in which its parts may act on it: settings (already), logs, coordinators."""
    inter_broker = listeners.inter_broker
    # Every append checks the lease, so this calls the store directly.
    lease_held = member.membership.lease_held
    security = login_to_brokers(config(), listeners)
    reach = ControllerChannel(member.store, member.broker_id, partial(Connection.open, security=security))
    gateway = ControllerGateway(
        member.controller, view, inter_broker, lambda: (member.broker_id, member.epoch), reach.open
    )
    full_disks = FullDisks(gateway)
    replication = Replication.for_broker(
        config(),
        log_dirs,
        view,
        topic_log_config(config),
        listener=inter_broker,
        to_controller=reach.open,
        when_no_room=full_disks.no_room_for,
        lost_logs=lost_logs,
        lease_held=lease_held,
        connect=partial(WireChannel.open, security=security),
        clock=clock,
    )
    partitions = replication.partitions
    partitions.registered_as(_NOT_REGISTERED)
    member.membership.on_registered(partitions.registered_as)
    config.subscribe(replication.settings_changed)
    replica_moves = ReplicaMoves(log_dirs, partitions, config, clock)
    peers = BrokerPeers(view, inter_broker, security)
    creation = TopicCreation(config, view, gateway)
    context = CoordinatorContext(member.broker_id, config(), view, partitions, peers, clock)
    coordinators = Coordinators(context, gateway, creation, member.catch_up)
    config.subscribe(coordinators.settings_changed)
    view.subscribe(coordinators.follow)
    quotas = Quotas(
        samples=config().quota_window_num,
        window_seconds=config().quota_window_size_seconds,
        controller_samples=config().controller_quota_window_num,
        controller_window_seconds=config().controller_quota_window_size_seconds,
    )
    view.subscribe(lambda old, new: quotas.replace(new.quotas) if old.quotas is not new.quotas else None)
    _limit_connections(quotas, config())
    config.subscribe(lambda changed: _limit_connections(quotas, changed))
    metering = Metering(quotas)
    audit_topic = None
    if config().audit_topic:
        audit_topic = AuditTopic(config().audit_topic, member.broker_id, view, partitions, peers, creation, clock)
    audit = Audit(None if audit_topic is None else audit_topic.add)
    authorization = Authorization(access_control(config(), view), audit)
    pushed_metrics = PushedMetrics()
    for handler in (
        *data_handlers(config(), view, partitions, log_dirs, creation, coordinators.verification, metering, clock),
        *control_plane_handlers(
            gateway,
            table,
            config,
            member.broker_id,
            replica_moves.begin,
            metering,
            authorization,
            partial(certificates.check, config),
        ),
        *transaction_handlers(coordinators.transactions, coordinators.groups, coordinators.marker_writer, view),
        *group_handlers(
            coordinators.groups,
            coordinators.verification,
            coordinators.shares.administration,
            view,
            creation,
            StreamsInternalTopics(gateway, clock),
            partitions,
        ),
        *share_handlers(coordinators.shares, coordinators.groups, view),
        *telemetry_handlers(config, view, pushed_metrics),
        ApiVersions(table, ClusterFeatures(table, view)),
    ):
        table.add(handler)
    metrics = RequestMetrics()
    logins = Logins(table, logins_of_clients(config(), listeners, view, clock), clock)
    dispatcher = Dispatcher(table, metrics, metering, ReplicaOnly(listeners.brokers_own), authorization, logins, clock)
    return Parts(
        dispatcher,
        table,
        metrics,
        metering,
        partitions,
        replication,
        coordinators,
        gateway,
        peers,
        full_disks,
        logins,
        audit_topic,
        replica_moves,
        pushed_metrics,
    )


def _limit_connections(quotas: Quotas, config: BrokerConfig) -> None:
    per_second = config.max_connection_creation_rate
    quotas.limit_all_connections(None if per_second == INT_MAX else per_second)
