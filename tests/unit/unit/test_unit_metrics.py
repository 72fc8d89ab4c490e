"""The metrics of a unit are those of its processes, added up where that makes sense."""

from __future__ import annotations

from headrace.unit.metrics import PROCESSES, RESTARTS, summed

ONE = """\
# TYPE kafka_network_requestmetrics_requests_total counter
kafka_network_requestmetrics_requests_total{request="Produce"} 3.0
# TYPE kafka_log_log_logendoffset gauge
kafka_log_log_logendoffset{partition="0",topic="t"} 10.0
# TYPE kafka_controller_kafkacontroller_globaltopiccount gauge
kafka_controller_kafkacontroller_globaltopiccount 2.0
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.1"} 1.0
wait_seconds_bucket{le="+Inf"} 2.0
wait_seconds_count 2.0
wait_seconds_sum 0.5
"""
OTHER = (
    ONE.replace('"Produce"} 3.0', '"Produce"} 4.0\nkafka_network_requestmetrics_requests_total{request="Fetch"} 1.0')
    .replace(" 10.0", " 12.0")
    .replace("_sum 0.5", "_sum 0.25")
)


def test_counters_and_histograms_are_added_and_facts_of_the_cluster_are_not() -> None:
    text = summed([ONE, OTHER], {RESTARTS: (1.0, "", "counter"), PROCESSES: (2.0, "", "gauge")}).decode()
    lines = set(text.splitlines())
    assert 'kafka_network_requestmetrics_requests_total{request="Produce"} 7.0' in lines
    assert 'kafka_network_requestmetrics_requests_total{request="Fetch"} 1.0' in lines
    assert 'kafka_log_log_logendoffset{partition="0",topic="t"} 12.0' in lines
    assert "kafka_controller_kafkacontroller_globaltopiccount 2.0" in lines
    assert {'wait_seconds_bucket{le="0.1"} 2.0', "wait_seconds_count 4.0", "wait_seconds_sum 0.75"} <= lines
    assert {"headrace_unit_restarts_total 1.0", "headrace_unit_processes 2.0"} <= lines
