"""kafka-python's own integration suite, from its source package, passes against Headrace (tests/suites/FINDINGS.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.suites.run import KAFKA_PYTHON, run
from tests.support.effort import is_long


@pytest.mark.skipif(not is_long(), reason="the same suite again, through TLS")
@pytest.mark.timeout(600)
def test_kafka_pythons_own_suite_passes_through_tls_and_scram(tmp_path: Path) -> None:
    done = run(KAFKA_PYTHON, tmp_path, secured=True)
    counted = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    assert counted is not None
    assert int(counted[1]) >= 40, f"the suite shrank: {done.stdout[-500:]}"


@pytest.mark.timeout(400)
def test_kafka_pythons_own_suite_passes(tmp_path: Path) -> None:
    done = run(KAFKA_PYTHON, tmp_path)
    counted = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    assert counted is not None
    assert int(counted[1]) >= 40, f"the suite shrank: {done.stdout[-500:]}"
