"""The metrics of a broker: every metric of the catalogue, read from its parts, and their HTTP endpoint.

The endpoint exists only with `metrics.listen`. A scrape reads the numbers that each part has anyway. Only changes of
in-sync sets are counted as they happen, because they cannot be derived later.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator

from headrace import __version__
from headrace.broker.lag.flow_reports import FlowReports
from headrace.broker.lag.group_lag import GroupLag
from headrace.broker.listener_certificates import ListenerCertificates
from headrace.broker.wiring.parts import Parts
from headrace.cluster.core.image import ClusterImage, PartitionInfo
from headrace.cluster.view import ClusterView
from headrace.controller.member import ClusterMember
from headrace.kernel.clock import Clock
from headrace.net.listener import Listeners
from headrace.replication.partition import Partition
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.telemetry import LoopLag, Metrics, MetricsEndpoint
from headrace.telemetry.clients.pushed_metrics import PushedMetrics
from headrace.telemetry.counters import LoginCounts
from headrace.wire.apis import api_name

Rows = Iterator[tuple[tuple[str, ...], float]]


def kafkas_name(api_key: int) -> str:
    """`ListOffsets` for 2, as Kafka's metrics write it."""
    return "".join(word.capitalize() for word in api_name(api_key).split("_"))


class BrokerMetrics:
    def __init__(
        self,
        parts: Parts,
        connections: Listeners,
        log_dirs: LogDirs,
        view: ClusterView,
        member: ClusterMember,
        certificates: ListenerCertificates,
        clock: Clock,
    ) -> None:
        self.metrics = Metrics(parts.metering.traffic)
        self.endpoint = MetricsEndpoint(self.metrics)
        self._lag = LoopLag()
        self._broker_id = member.broker_id
        self._changes: Counter[str] = Counter()
        view.subscribe(self._follow)
        self._provide_requests(parts)
        self._provide_connections(connections, parts.logins.counts)
        self.metrics.provide("headrace_certificate_expiry_seconds", certificates.seconds_left)
        self._provide_logs(parts, log_dirs)
        self._provide_replicas(parts)
        self._provide_cluster(view, member, parts)
        self._group_lag = GroupLag(
            parts.coordinators.groups, parts.partitions, view, parts.peers, member.broker_id, clock
        )
        self._flow_reports = FlowReports(parts.partitions, clock)
        self._provide_lag(self._group_lag, self._flow_reports)
        self._provide_pushed(parts.pushed_metrics, clock)

    async def start(self, listen: str) -> None:
        """Raises ConfigError if `metrics.listen` cannot be bound."""
        if listen:
            self._lag.start(asyncio.get_running_loop())
            await self.endpoint.start(listen)
            self._group_lag.start()
            self._flow_reports.start()

    async def stop(self) -> None:
        self._lag.stop()
        await self._group_lag.stop()
        await self._flow_reports.stop()
        await self.endpoint.stop()

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        for name in old.topics.keys() - new.topics.keys():
            self.metrics.traffic.pop(name, None)
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is None or before is topic:
                continue
            for was, now in zip(before.partitions, topic.partitions, strict=False):
                if was is not now:
                    self._note(was, now)

    def _note(self, was: PartitionInfo, now: PartitionInfo) -> None:
        if now.leader == self._broker_id:
            self._changes["shrinks"] += bool(set(was.isr) - set(now.isr))
            self._changes["expands"] += bool(set(now.isr) - set(was.isr))

    # Where each number comes from

    def _provide_pushed(self, pushed: PushedMetrics, clock: Clock) -> None:
        provide = self.metrics.provide
        provide("headrace_client_metric", lambda: pushed.rows(clock.wall_ms()))
        provide("headrace_client_metrics_clients", lambda: pushed.clients(clock.wall_ms()))
        provide("headrace_client_metrics_pushes_total", lambda: pushed.pushes)
        provide("headrace_client_metrics_dropped_series_total", lambda: pushed.dropped_series)

    def _provide_requests(self, parts: Parts) -> None:
        served, provide = parts.metrics, self.metrics.provide
        provide(
            "kafka_network_requestmetrics_totaltime_seconds",
            lambda: [((kafkas_name(key),), latency) for key, latency in served.by_api.items()],
        )
        provide(
            "kafka_network_requestmetrics_requests_total",
            lambda: [((kafkas_name(key),), latency.count) for key, latency in served.by_api.items()],
        )
        provide(
            "headrace_waiting_requests",
            lambda: [((kafkas_name(key),), count) for key, count in served.waiting.items()],
        )
        provide(
            "kafka_server_throttled_requests_total",
            lambda: [((quota,), count) for quota, count in parts.metering.throttled.items()],
        )
        provide("headrace_event_loop_lag_seconds", lambda: self._lag.histogram)
        provide("headrace_build_info", lambda: [((__version__,), 1)])

    def _provide_connections(self, connections: Listeners, logins: LoginCounts) -> None:
        provide, traffic = self.metrics.provide, connections.traffic

        def by_listener() -> Rows:
            open_now = Counter(connection.listener for connection in connections.connections)
            return (((name,), count) for name, count in open_now.items())

        provide("kafka_server_socketservermetrics_connection_count", by_listener)
        provide("kafka_server_socketservermetrics_connection_creation_total", lambda: traffic.accepted)
        provide("kafka_server_socketservermetrics_connection_refused_total", lambda: traffic.refused)
        provide(
            "kafka_server_socketservermetrics_failed_authentication_total",
            lambda: traffic.failed_handshakes + connections.handshakes.dropped + logins.failures,
        )
        provide("kafka_server_socketservermetrics_successful_authentication_total", lambda: logins.successes)
        provide("kafka_server_socketservermetrics_successful_reauthentication_total", lambda: logins.renewals)
        provide("kafka_server_socketservermetrics_expired_connections_killed_total", lambda: logins.expired)
        provide("kafka_network_socketserver_bytesin_total", lambda: traffic.bytes_in)
        provide("kafka_network_socketserver_bytesout_total", lambda: traffic.bytes_out)

    def _provide_logs(self, parts: Parts, log_dirs: LogDirs) -> None:
        def provide(name: str, field: str) -> None:
            self.metrics.provide(
                name,
                lambda: [((p.topic, str(p.index)), getattr(p.log, field)) for p in parts.partitions.all()],
            )

        provide("kafka_log_log_size", "size_bytes")
        provide("kafka_log_log_logstartoffset", "log_start_offset")
        provide("kafka_log_log_logendoffset", "log_end_offset")
        self.metrics.provide(
            "kafka_log_log_numlogsegments",
            lambda: [((p.topic, str(p.index)), len(p.log.segments.all)) for p in parts.partitions.all()],
        )
        self.metrics.provide("kafka_log_logmanager_offlinelogdirectorycount", lambda: len(log_dirs.offline))
        self.metrics.provide("headrace_log_directory_total_bytes", lambda: _space(log_dirs, free=False))
        self.metrics.provide("headrace_log_directory_free_bytes", lambda: _space(log_dirs, free=True))
        self.metrics.provide("headrace_stray_logs", lambda: len(log_dirs.strays()))
        self.metrics.provide("headrace_stray_bytes", lambda: sum(stray.size_bytes() for stray in log_dirs.strays()))

    def _provide_replicas(self, parts: Parts) -> None:
        provide, partitions, changes = self.metrics.provide, parts.partitions, self._changes

        def led() -> Iterator[tuple[Partition, PartitionInfo]]:
            return ((p, p.info) for p in partitions.all() if p.is_leader and p.info is not None)

        def spare(partition: Partition, info: PartitionInfo) -> int:
            """In-sync replicas beyond min.insync.replicas, which counts at most as the number of replicas, as in
            Kafka."""
            return len(info.isr) - min(partition.log.config.min_insync_replicas, len(info.replicas))

        def replicated() -> Rows:
            taken: Counter[str] = Counter()
            for partition in partitions.all():
                taken[partition.topic] += partition.bytes_replicated
            return (((topic,), size) for topic, size in taken.items())

        provide("kafka_server_brokertopicmetrics_replicationbytesin_total", replicated)
        provide("kafka_server_replicamanager_partitioncount", lambda: len(partitions))
        provide("kafka_server_replicamanager_leadercount", lambda: sum(1 for _ in led()))
        provide(
            "kafka_server_replicamanager_underreplicatedpartitions",
            lambda: sum(len(info.isr) < len(info.replicas) for _, info in led()),
        )
        provide(
            "kafka_server_replicamanager_underminisrpartitioncount",
            lambda: sum(spare(partition, info) < 0 for partition, info in led()),
        )
        provide(
            "kafka_server_replicamanager_atminisrpartitioncount",
            lambda: sum(spare(partition, info) == 0 for partition, info in led()),
        )
        provide(
            "kafka_server_replicamanager_offlinereplicacount",
            lambda: (
                sum(partition.log.offline_reason is not None for partition in partitions.all())
                + partitions.offline_count
            ),
        )
        provide("kafka_server_replicamanager_isrshrinks_total", lambda: changes["shrinks"])
        provide("kafka_server_replicamanager_isrexpands_total", lambda: changes["expands"])

    def _provide_cluster(self, view: ClusterView, member: ClusterMember, parts: Parts) -> None:
        provide, controller = self.metrics.provide, member.controller
        rules = controller.election_policy
        provide("kafka_controller_kafkacontroller_activecontrollercount", lambda: int(controller.is_active))
        provide(
            "kafka_controller_kafkacontroller_offlinepartitionscount",
            lambda: sum(info.leader < 0 for _, _, info in view.current.partitions()),
        )
        provide(
            "kafka_controller_kafkacontroller_activebrokercount",
            lambda: sum(not broker.fenced for broker in view.current.brokers.values()),
        )
        provide("kafka_controller_kafkacontroller_globaltopiccount", lambda: len(view.current.topics))
        provide(
            "kafka_controller_kafkacontroller_globalpartitioncount",
            lambda: sum(len(topic.partitions) for topic in view.current.topics.values()),
        )
        provide(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            lambda: rules.unclean_elections + rules.elections_from_last_known,
        )
        provide(
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
            lambda: sum(len(hosted.shard.groups) for _, hosted in parts.coordinators.groups.runtime.active_shards()),
        )
        provide("headrace_coordination_session_up", lambda: int(member.lease_held()))

    def _provide_lag(self, groups: GroupLag, flows: FlowReports) -> None:
        provide = self.metrics.provide
        provide("headrace_group_lag_records", groups.records)
        provide("headrace_group_lag_seconds", groups.seconds)
        provide("headrace_pipeline_running", lambda: flows.rows(lambda report, now_ms: report.is_running(now_ms)))
        provide("headrace_pipeline_failing", lambda: flows.rows(lambda report, now_ms: report.is_failing(now_ms)))
        provide("headrace_pipeline_lag_records", lambda: flows.rows(lambda report, _: report.lag))
        provide(
            "headrace_pipeline_lag_seconds",
            lambda: flows.rows(lambda report, _: None if report.lag is None else report.lag_seconds),
        )
        provide("headrace_pipeline_batch_seconds", lambda: flows.rows(lambda report, _: report.batch_s))
        provide("headrace_pipeline_input_rows_per_second", lambda: flows.rows(lambda report, _: report.input_rate))
        provide(
            "headrace_pipeline_processed_rows_per_second", lambda: flows.rows(lambda report, _: report.processed_rate)
        )
        provide("headrace_pipeline_restarts_total", lambda: flows.rows(lambda report, _: report.restarts))
        provide("headrace_pipeline_dead_letters_total", lambda: flows.rows(lambda report, _: report.dead_letters))
        provide("headrace_pipeline_state_rows", lambda: flows.rows(lambda report, _: report.state_rows))
        provide(
            "headrace_pipeline_report_age_seconds",
            lambda: flows.rows(lambda report, now_ms: max(0, now_ms - report.at_ms) / 1000),
        )


def _space(log_dirs: LogDirs, *, free: bool) -> Rows:
    """Bytes of the file system of each log directory that works: all of them, or what the broker may still
    use."""
    for directory in log_dirs.directories:
        if directory.is_online:
            disk = os.statvfs(directory.path)
            yield (str(directory.path),), float(disk.f_frsize * (disk.f_bavail if free else disk.f_blocks))
