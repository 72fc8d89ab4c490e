"""Alert rules in Prometheus' format. Each has a sentence that says what is wrong and one that says what to do.

`critical` wakes a person: data cannot be read or written, or may be lost. `warning` waits for working hours.
"""

from __future__ import annotations

from typing import Final

from headrace.kernel.dataclass import dataclass

CRITICAL, WARNING = "critical", "warning"


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    expression: str
    lasts: str
    """How long the expression must hold before the alert fires."""
    severity: str
    summary: str
    advice: str


ALERTS: Final = (
    Alert(
        "HeadraceBrokerDown", 'up{job="headrace"} == 0', "1m", CRITICAL,
        "Broker {{ $labels.instance }} does not answer",
        "Start it again. If it runs, look at its log for the reason.",
    ),
    Alert(
        "HeadraceOfflinePartitions", "max(kafka_controller_kafkacontroller_offlinepartitionscount) > 0", "30s",
        CRITICAL,
        "{{ $value }} partitions have no leader",
        "Nothing can read or write them. Start the brokers that hold their replicas: headrace cluster status",
    ),
    Alert(
        "HeadraceNoController", "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1", "2m", CRITICAL,
        "The cluster has {{ $value }} controllers instead of one",
        "Without a controller no leader is elected. Check the coordination store: headrace doctor",
    ),
    Alert(
        "HeadraceIsrShrunk", "sum by (instance) (kafka_server_replicamanager_underreplicatedpartitions) > 0", "5m",
        WARNING, "{{ $value }} partitions of {{ $labels.instance }} have fewer in-sync replicas than replicas",
        "A broker is down or slow. If one more fails, writes with acks=all may stop: headrace cluster status",
    ),
    Alert(
        "HeadraceWritesRefused", "sum by (instance) (kafka_server_replicamanager_underminisrpartitioncount) > 0", "1m",
        CRITICAL, "{{ $value }} partitions of {{ $labels.instance }} are below min.insync.replicas",
        "Their leader rejects writes with acks=all. Start the missing brokers.",
    ),
    Alert(
        "HeadraceUncleanElection", "increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m]) > 0",
        "0m", CRITICAL, "A replica that was not in sync became leader",
        "Acknowledged records may be lost. Compare the topics with their sources.",
    ),
    Alert(
        "HeadraceDiskFailed", "kafka_log_logmanager_offlinelogdirectorycount > 0", "0m", CRITICAL,
        "{{ $value }} log directories of {{ $labels.instance }} have failed",
        "Replace the disk. Its replicas are copied again from their leaders.",
    ),
    Alert(
        "HeadraceDiskFilling",
        "headrace_log_directory_free_bytes / headrace_log_directory_total_bytes < 0.15", "5m", WARNING,
        "The disk of {{ $labels.directory }} on {{ $labels.instance }} has {{ $value | humanizePercentage }} left",
        "Shorten retention.ms or retention.bytes of the largest topics, or add space.",
    ),
    Alert(
        "HeadraceDiskFullSoon",
        "predict_linear(headrace_log_directory_free_bytes[1h], 4 * 3600) < 0", "15m", CRITICAL,
        "The disk of {{ $labels.directory }} on {{ $labels.instance }} is full in less than four hours",
        "Shorten retention.ms or retention.bytes of the largest topics, or add space.",
    ),
    Alert(
        "HeadraceCertificateExpires", "headrace_certificate_expiry_seconds < 14 * 86400", "1h", WARNING,
        "The certificate of {{ $labels.listener }} on {{ $labels.instance }} expires in "
        "{{ $value | humanizeDuration }}",
        "Replace its files. The broker reads them again without a restart.",
    ),
    Alert(
        "HeadraceLagGrowing",
        "sum by (group, topic) (headrace_group_lag_records) > 1000 "
        "and sum by (group, topic) (deriv(headrace_group_lag_records[10m])) > 0", "10m", WARNING,
        "Group {{ $labels.group }} is {{ $value }} records behind in {{ $labels.topic }}, and falls further behind",
        "Look for members that stopped or are slow: headrace groups lag {{ $labels.group }} --watch",
    ),
    Alert(
        "HeadraceLagOld", "max by (group, topic) (headrace_group_lag_seconds) > 900", "10m", WARNING,
        "Group {{ $labels.group }} has not read records of {{ $labels.topic }} for {{ $value | humanizeDuration }}",
        "Start its members, or delete the group if it is not used any more.",
    ),
    Alert(
        "HeadracePipelineFailing", "max by (pipeline, flow) (headrace_pipeline_failing) == 1", "2m", CRITICAL,
        "Spark flow {{ $labels.pipeline }}.{{ $labels.flow }} has failed, restarts or has stopped reporting",
        "Its error is in: headrace pipeline status {{ $labels.pipeline }}",
    ),
    Alert(
        "HeadracePipelineBehind", "max by (pipeline, flow) (headrace_pipeline_lag_seconds) > 600", "10m", WARNING,
        "Spark flow {{ $labels.pipeline }}.{{ $labels.flow }} has been behind for {{ $value | humanizeDuration }}",
        "Give it more cores, or raise maxOffsetsPerTrigger if its batches are short.",
    ),
    Alert(
        "HeadracePipelineDeadLetters",
        "sum by (pipeline, flow) (increase(headrace_pipeline_dead_letters_total[15m])) > 0", "0m", WARNING,
        "Spark flow {{ $labels.pipeline }}.{{ $labels.flow }} wrote {{ $value }} rows to its dead letter topic",
        "Look at them, correct them and send them again: headrace pipeline dlq ls {{ $labels.pipeline }}",
    ),
    Alert(
        "HeadraceEventLoopSlow",
        "histogram_quantile(0.99, sum by (instance, le) (rate(headrace_event_loop_lag_seconds_bucket[5m]))) > 0.25",
        "10m", WARNING, "Work of {{ $labels.instance }} waits {{ $value | humanizeDuration }} for its turn",
        "The broker is overloaded: move leaders to other brokers, or start more.",
    ),
)  # fmt: skip


def rules() -> str:
    """The file of alert rules, in YAML."""
    import yaml

    found = [
        {
            "alert": alert.name, "expr": alert.expression, "for": alert.lasts, "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, "description": alert.advice},
        }
        for alert in ALERTS
    ]  # fmt: skip
    return str(yaml.safe_dump({"groups": [{"name": "headrace", "rules": found}]}, sort_keys=False, width=120))
