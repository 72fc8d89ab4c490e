"""Every metric, declared once: name, kind, labels, meaning.

If Kafka has the metric, the name is the one that Prometheus' JMX exporter gives it, so that dashboards for Kafka work
with Headrace. Other names begin with `headrace_`.
"""

from __future__ import annotations

from enum import Enum

from headrace.kernel.dataclass import dataclass


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


_TOPIC = ("topic",)
_PARTITION = ("topic", "partition")
_GROUP = ("group", "topic")
_FLOW = ("pipeline", "flow")
_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

_METRICS = (
    Metric(
        "headrace_client_metric",
        _G,
        "Last value that a client pushed; counters since the broker first saw the client",
        ("metric", "client_id", "client_instance_id", "attributes"),
    ),
    Metric("headrace_client_metrics_clients", _G, "Clients with pushed metrics"),
    Metric("headrace_client_metrics_pushes_total", _C, "Pushes of metrics by clients"),
    Metric("headrace_client_metrics_dropped_series_total", _C, "Series above a bound, which the broker dropped"),
    Metric("kafka_server_brokertopicmetrics_bytesin_total", _C, "Bytes that producers wrote", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_bytesout_total", _C, "Bytes that consumers fetched", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_messagesin_total", _C, "Records that producers wrote", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_replicationbytesin_total", _C, "Bytes fetched as a follower", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_replicationbytesout_total", _C, "Bytes sent to followers", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_totalproducerequests_total", _C, "Requested writes to partitions", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_totalfetchrequests_total", _C, "Requested reads of partitions", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_failedproducerequests_total", _C, "Rejected writes", _TOPIC),
    Metric("kafka_server_brokertopicmetrics_failedfetchrequests_total", _C, "Rejected reads", _TOPIC),
    Metric("kafka_network_requestmetrics_requests_total", _C, "Requests served", ("request",)),
    Metric(
        "kafka_network_requestmetrics_totaltime_seconds",
        _H,
        "Time from a request's last byte to its answer, waiting included",
        ("request",),
    ),
    Metric("kafka_network_socketserver_bytesin_total", _C, "Bytes read from connections"),
    Metric("kafka_network_socketserver_bytesout_total", _C, "Bytes written to connections"),
    Metric("kafka_server_socketservermetrics_connection_count", _G, "Open connections", ("listener",)),
    Metric("kafka_server_socketservermetrics_connection_creation_total", _C, "Connections accepted"),
    Metric("kafka_server_socketservermetrics_connection_refused_total", _C, "Connections rejected by a limit"),
    Metric(
        "kafka_server_socketservermetrics_failed_authentication_total",
        _C,
        "Connections closed because their TLS handshake or their login failed or took too long",
    ),
    Metric("kafka_server_socketservermetrics_successful_authentication_total", _C, "Logins that succeeded"),
    Metric(
        "kafka_server_socketservermetrics_successful_reauthentication_total",
        _C,
        "Sessions that clients renewed on the same connection",
    ),
    Metric(
        "kafka_server_socketservermetrics_expired_connections_killed_total",
        _C,
        "Connections closed because their client used a session after its end",
    ),
    Metric(
        "headrace_certificate_expiry_seconds",
        _G,
        "Seconds until the certificate of a listener expires; below 0 after that",
        ("listener",),
    ),
    Metric("kafka_log_log_size", _G, "Bytes of a partition's log on this broker", _PARTITION),
    Metric("kafka_log_log_logstartoffset", _G, "First offset of a partition's log", _PARTITION),
    Metric("kafka_log_log_logendoffset", _G, "Offset of the next record", _PARTITION),
    Metric("kafka_log_log_numlogsegments", _G, "Segments of a partition's log", _PARTITION),
    Metric("kafka_log_logmanager_offlinelogdirectorycount", _G, "Log directories that failed"),
    Metric("headrace_log_directory_total_bytes", _G, "Size of the disk of a log directory", ("directory",)),
    Metric("headrace_log_directory_free_bytes", _G, "Free bytes on the disk of a log directory", ("directory",)),
    Metric("headrace_stray_logs", _G, "Logs, and parts of logs, that belong to no topic: see `headrace log strays`"),
    Metric("headrace_stray_bytes", _G, "Bytes of stray logs on disk"),
    Metric("kafka_server_replicamanager_partitioncount", _G, "Replicas on this broker"),
    Metric("kafka_server_replicamanager_leadercount", _G, "Partitions that this broker leads"),
    Metric(
        "kafka_server_replicamanager_underreplicatedpartitions",
        _G,
        "Partitions led here with fewer in-sync replicas than replicas; above 0 for long: a broker is down or slow",
    ),
    Metric(
        "kafka_server_replicamanager_underminisrpartitioncount",
        _G,
        "Partitions led here below min.insync.replicas: the leader rejects writes with acks=all",
    ),
    Metric(
        "kafka_server_replicamanager_atminisrpartitioncount", _G, "Partitions led here with exactly min.insync.replicas"
    ),
    Metric("kafka_server_replicamanager_offlinereplicacount", _G, "Replicas here whose log directory failed"),
    Metric("kafka_server_replicamanager_isrshrinks_total", _C, "Times a follower left the in-sync replicas"),
    Metric("kafka_server_replicamanager_isrexpands_total", _C, "Times a follower joined the in-sync replicas"),
    Metric("kafka_controller_kafkacontroller_activecontrollercount", _G, "1 on the controller, else 0"),
    Metric("kafka_controller_kafkacontroller_offlinepartitionscount", _G, "Partitions without a leader"),
    Metric("kafka_controller_kafkacontroller_activebrokercount", _G, "Brokers in the cluster"),
    Metric("kafka_controller_kafkacontroller_globaltopiccount", _G, "Topics in the cluster"),
    Metric("kafka_controller_kafkacontroller_globalpartitioncount", _G, "Partitions in the cluster"),
    Metric("kafka_controller_controllerstats_uncleanleaderelections_total", _C, "Elections that may have lost records"),
    Metric("kafka_coordinator_group_groupmetadatamanager_numgroups", _G, "Groups that this broker coordinates"),
    Metric(
        "headrace_group_lag_records",
        _G,
        "Records of a topic that a group has not read. The coordinator of the group measures it every few seconds",
        _GROUP,
    ),
    Metric(
        "headrace_group_lag_seconds",
        _G,
        "Age of the oldest record of a topic that a group has not read, by the timestamp of its batch",
        _GROUP,
    ),
    Metric("headrace_pipeline_running", _G, "1 while a Spark flow runs and reports, else 0", _FLOW),
    Metric(
        "headrace_pipeline_failing", _G, "1 if a Spark flow failed, restarts or has stopped reporting, else 0", _FLOW
    ),
    Metric("headrace_pipeline_lag_records", _G, "Records that a Spark flow had not read after its last batch", _FLOW),
    Metric("headrace_pipeline_lag_seconds", _G, "For how long a Spark flow has been behind", _FLOW),
    Metric("headrace_pipeline_batch_seconds", _G, "Duration of the last batch of a Spark flow", _FLOW),
    Metric("headrace_pipeline_input_rows_per_second", _G, "Rows that arrived for a Spark flow in a second", _FLOW),
    Metric("headrace_pipeline_processed_rows_per_second", _G, "Rows that a Spark flow processed in a second", _FLOW),
    Metric("headrace_pipeline_restarts_total", _C, "Restarts of a Spark flow by its driver", _FLOW),
    Metric("headrace_pipeline_dead_letters_total", _C, "Rows that a Spark flow wrote to a dead letter topic", _FLOW),
    Metric("headrace_pipeline_state_rows", _G, "Rows in the state of a Spark flow", _FLOW),
    Metric("headrace_pipeline_report_age_seconds", _G, "Seconds since the last report of a Spark flow", _FLOW),
    Metric("kafka_server_throttled_requests_total", _C, "Answers with a throttle time", ("quota",)),
    Metric("headrace_event_loop_lag_seconds", _H, "Delay of due work in the event loop"),
    Metric("headrace_waiting_requests", _G, "Requests that wait for records, replicas or members", ("request",)),
    Metric("headrace_coordination_session_up", _G, "1 while the session with the coordination store is alive"),
    Metric("headrace_build_info", _G, "Always 1; the version is a label", ("version",)),
)
CATALOGUE = {metric.name: metric for metric in _METRICS}
assert len(CATALOGUE) == len(_METRICS), "a metric is declared twice"
