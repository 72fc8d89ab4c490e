"""Alert rules and dashboards, run by Prometheus itself against the endpoint of a broker."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.net.free_ports import free_port
from headrace.telemetry.catalogue import CATALOGUE
from headrace.telemetry.monitoring.alerts import ALERTS
from headrace.telemetry.monitoring.dashboards import DASHBOARDS
from headrace.telemetry.monitoring.files import write
from headrace.testing import RunningBroker, broker
from tests.support.clock import wait_for

pytestmark = pytest.mark.needs("prometheus", "promtool")
REPORT = {
    "pipeline": "shop", "flow": "totals", "state": "running", "batch_id": 4, "lag": 12, "lag_seconds": 3.5,
    "batch_ms": 250, "input_rows_per_second": 40.0, "processed_rows_per_second": 55.0, "restarts": 1,
    "dead_letters": 2, "state_rows": 9,
}  # fmt: skip


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **query: str) -> object:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> dict[tuple[str, ...], float]:
        """Value by the labels of the row, in the order of their names, without instance and job."""
        found = self.ask("query", query=expression)
        assert isinstance(found, dict)
        rows = found["result"]
        return {
            tuple(row["metric"][name] for name in sorted(row["metric"]) if name not in ("__name__", "instance", "job")):
            float(row["value"][1])
            for row in rows
        }  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker(settings={"metrics.listen": "127.0.0.1:0"}) as started:
        producer = Producer({"bootstrap.servers": started.bootstrap})
        for _ in range(30):
            producer.produce("orders", b"x" * 100, timestamp=1_700_000_000_000)
        for at_ms in (1, 1_700_000_000_000):
            producer.produce("__pipelines", json.dumps({**REPORT, "at_ms": at_ms}), "shop.totals")
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": started.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 10)], asynchronous=False)
        consumer.close()
        yield started


@pytest.fixture(scope="module")
def prometheus(running: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    assert running.broker.metrics is not None
    write(folder, [f"127.0.0.1:{running.broker.metrics.endpoint.port}"])
    configuration = yaml.safe_load((folder / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    command = [
        "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        found = Prometheus(f"http://127.0.0.1:{port}")
        try:
            wait_for(lambda: _is_up(found, process), "Prometheus to scrape the broker")
            yield found
        finally:
            process.terminate()


def _is_up(found: Prometheus, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise AssertionError((process.stderr.read() if process.stderr else b"").decode())
    try:
        return bool(found.values('up{job="headrace"} == 1'))
    except OSError:
        return False


def test_lag_of_groups_and_flows_is_in_records_and_seconds(prometheus: Prometheus) -> None:
    records = wait_for(lambda: prometheus.values("headrace_group_lag_records"), "the lag of the group")
    assert records == {("billing", "orders"): 20}
    age_s = prometheus.values("headrace_group_lag_seconds")["billing", "orders"]
    now_s = prometheus.values("vector(time())")[()]
    assert abs(now_s - 1_700_000_000 - age_s) < 60, "the age of the oldest unread record by its timestamp"
    assert prometheus.values("headrace_pipeline_lag_records") == {("totals", "shop"): 12}
    assert prometheus.values("headrace_pipeline_lag_seconds") == {("totals", "shop"): 3.5}


def test_a_flow_that_stopped_reporting_is_failing(prometheus: Prometheus) -> None:
    failing = wait_for(lambda: prometheus.values("headrace_pipeline_failing"), "the report of the flow")
    assert failing == {("totals", "shop"): 1}
    assert prometheus.values("headrace_pipeline_running") == {("totals", "shop"): 0}


def test_every_query_of_the_dashboards_has_an_answer(prometheus: Prometheus) -> None:
    # No certificate is in use.
    without = {"headrace_certificate_expiry_seconds"}
    queries = {
        expression.replace("$__rate_interval", "30s")
        for dashboard in DASHBOARDS
        for panel in dashboard.panels
        for expression, _ in panel.queries
    }
    assert without < queries
    for expression in sorted(queries - without):
        wait_for(lambda e=expression: prometheus.values(e), f"an answer to {expression}")


def test_every_alert_is_evaluated_without_an_error(prometheus: Prometheus) -> None:
    def evaluated() -> list[dict[str, str]]:
        answer = prometheus.ask("rules")
        assert isinstance(answer, dict)
        (group,) = answer["groups"]
        return [rule for rule in group["rules"] if rule["health"] != "unknown"]

    rules = wait_for(lambda: len(found := evaluated()) == len(ALERTS) and found, "all rules to be evaluated")
    assert {rule["name"]: rule.get("lastError", "") for rule in rules} == {alert.name: "" for alert in ALERTS}
    assert {rule["name"] for rule in rules if rule["state"] != "inactive"} <= {
        "HeadraceLagOld", "HeadracePipelineFailing",
    }  # fmt: skip


def test_alerts_and_dashboards_use_metrics_of_the_catalogue_only() -> None:
    texts = [alert.expression for alert in ALERTS]
    texts += [query for board in DASHBOARDS for panel in board.panels for query, _ in panel.queries]
    named = {name for text in texts for name in re.findall(r"\b(?:headrace|kafka)_[a-z_]+", text)}
    known = set(CATALOGUE) | {f"{name}_bucket" for name in CATALOGUE}
    assert named and named <= known


# (alert, series with one sample a minute, whether the alert fires after 90 minutes)
CASES = [
    ("HeadraceBrokerDown", 'up{job="headrace"}', "0x90", True),
    ("HeadraceBrokerDown", 'up{job="headrace"}', "1x90", False),
    ("HeadraceOfflinePartitions", "kafka_controller_kafkacontroller_offlinepartitionscount", "2x90", True),
    ("HeadraceNoController", "kafka_controller_kafkacontroller_activecontrollercount", "0x90", True),
    ("HeadraceNoController", "kafka_controller_kafkacontroller_activecontrollercount", "1x90", False),
    ("HeadraceIsrShrunk", "kafka_server_replicamanager_underreplicatedpartitions", "3x90", True),
    ("HeadraceWritesRefused", "kafka_server_replicamanager_underminisrpartitioncount", "1x90", True),
    ("HeadraceUncleanElection", "kafka_controller_controllerstats_uncleanleaderelections_total", "0x85 1x5", True),
    ("HeadraceDiskFailed", "kafka_log_logmanager_offlinelogdirectorycount", "1x90", True),
    ("HeadraceDiskFullSoon", "headrace_log_directory_free_bytes", "6000-60x90", True),
    ("HeadraceDiskFullSoon", "headrace_log_directory_free_bytes", "6000x90", False),
    ("HeadraceCertificateExpires", "headrace_certificate_expiry_seconds", "86400x90", True),
    ("HeadraceLagGrowing", 'headrace_group_lag_records{group="g",topic="t"}', "2000+10x90", True),
    ("HeadraceLagGrowing", 'headrace_group_lag_records{group="g",topic="t"}', "90000-100x90", False),
    ("HeadraceLagOld", 'headrace_group_lag_seconds{group="g",topic="t"}', "1000x90", True),
    ("HeadracePipelineFailing", 'headrace_pipeline_failing{pipeline="p",flow="f"}', "1x90", True),
    ("HeadracePipelineBehind", 'headrace_pipeline_lag_seconds{pipeline="p",flow="f"}', "700x90", True),
    ("HeadracePipelineDeadLetters", 'headrace_pipeline_dead_letters_total{pipeline="p",flow="f"}', "0x85 5x5", True),
    ("HeadraceEventLoopSlow", 'headrace_event_loop_lag_seconds_bucket{instance="a",le="+Inf"}', "0+10x90", False),
]  # fmt: skip


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    write(tmp_path, ["127.0.0.1:9404"])
    tests = []
    for name, series, values, fires in CASES:
        firing = [{"labels": "{}", "value": 1}] if fires else []
        question = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
        tests.append(
            {
                "name": f"{name} {values}", "interval": "1m", "input_series": [{"series": series, "values": values}],
                "promql_expr_test": [{"expr": question, "eval_time": "90m", "exp_samples": firing}],
            }
        )  # fmt: skip
    (tmp_path / "cases.yml").write_text(yaml.safe_dump({"rule_files": ["headrace-alerts.yml"], "tests": tests}))
    checked = subprocess.run(
        ["promtool", "check", "rules", "headrace-alerts.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ran = subprocess.run(["promtool", "test", "rules", "cases.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {name for name, *_ in CASES} | {"HeadraceDiskFilling"} == {alert.name for alert in ALERTS}
