"""Files for Prometheus and Grafana in a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.telemetry.monitoring.alerts import rules
from headrace.telemetry.monitoring.dashboards import DASHBOARDS, grafana_json

RULES = "headrace-alerts.yml"
CONFIGURATION = "prometheus.yml"


def configuration(targets: Sequence[str]) -> str:
    """A configuration of Prometheus that scrapes these addresses and evaluates the rules."""
    import yaml

    document = {
        "global": {"scrape_interval": "10s", "evaluation_interval": "10s"},
        "rule_files": [RULES],
        "scrape_configs": [{"job_name": "headrace", "static_configs": [{"targets": list(targets)}]}],
    }
    return str(yaml.safe_dump(document, sort_keys=False))


def documents(targets: Sequence[str]) -> dict[str, str]:
    """Path below the directory → text."""
    boards = {f"grafana/{dashboard.uid}.json": grafana_json(dashboard) for dashboard in DASHBOARDS}
    return {CONFIGURATION: configuration(targets), RULES: rules(), **boards}


def write(directory: Path, targets: Sequence[str]) -> list[Path]:
    """Writes all files and returns their paths. Raises OSError."""
    found = []
    for name, text in documents(targets).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        found.append(path)
    return found
