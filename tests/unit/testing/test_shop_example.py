"""The sample application: its suite on brokers of the test process, and the same suite on Apache Kafka."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.kafka import ReferenceKafka
from tests.support.effort import is_long
from tests.support.pytest_plugin import plugin_environment

SHOP = Path(__file__).parents[3] / "examples" / "shop"
SHORT = "paid_once or doubled or old_orders or topics_are_administered"


def run_suite(*more: str) -> tuple[int, str]:
    """(number of passed tests, output)."""
    base = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(SHOP), "-p", "no:cacheprovider"]
    environment = {**os.environ, **plugin_environment()}
    result = subprocess.run(
        [*base, *more, str(SHOP)], env=environment, capture_output=True, text=True, timeout=280, cwd=SHOP
    )
    found = re.search(r"(\d+) passed", result.stdout)
    output = result.stdout + result.stderr
    assert result.returncode == 0 and found is not None, output
    return int(found[1]), output


def test_the_suite_passes_on_brokers_of_the_test_process() -> None:
    passed, _ = run_suite() if is_long() else run_suite("-k", SHORT)
    assert passed == (200 if is_long() else 16)


@pytest.mark.needs("kafka")
@pytest.mark.skipif(not is_long(), reason="long: two hundred tests on Apache Kafka")
def test_the_suite_gives_the_same_results_on_apache_kafka(tmp_path: Path) -> None:
    with ReferenceKafka(tmp_path) as kafka:
        passed, output = run_suite("--headrace-target", "kafka", "--kafka-bootstrap", kafka.bootstrap)
    assert passed == 188, output
    assert "12 skipped" in output
