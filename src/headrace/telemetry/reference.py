"""Writes docs/reference/metrics.md from the catalogue.

python -m headrace.telemetry.reference            write the page
python -m headrace.telemetry.reference --check    exit 1 if the page is not up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.telemetry.catalogue import CATALOGUE

PAGE = Path("docs/reference/metrics.md")

_HEAD = """# Metrics

<!-- Written by `python -m headrace.telemetry.reference`; edit src/headrace/telemetry/catalogue.py instead. -->

With `metrics.listen=127.0.0.1:9404` the broker serves these metrics at `http://127.0.0.1:9404/metrics`, in Prometheus'
text format or as OpenMetrics. Names that begin with `kafka_` equal the names that Prometheus' JMX exporter gives to
Kafka's metrics.

Watch these four first: `kafka_server_replicamanager_underreplicatedpartitions` (a broker is down or slow),
`kafka_controller_kafkacontroller_offlinepartitionscount` (a partition has no leader), `headrace_event_loop_lag_seconds`
(the broker is overloaded) and `kafka_log_logmanager_offlinelogdirectorycount` (a disk failed).

| name | kind | labels | meaning |
|---|---|---|---|
"""


def page() -> str:
    rows = (
        f"| `{metric.name}` | {metric.kind.value} | {', '.join(metric.labels) or '–'} | {metric.meaning} |\n"
        for metric in CATALOGUE.values()
    )
    return _HEAD + "".join(rows)


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" not in arguments:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE} is out of date: run python -m headrace.telemetry.reference", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
