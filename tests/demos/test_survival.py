"""Taxi, bank and social give equal results although a broker and an executor are killed in the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.effort import is_long

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not is_long(), reason="three brokers and two executors: HEADRACE_EFFORT=long")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["taxi", "bank", "social"])
def test_results_are_equal_after_a_broker_and_an_executor_were_killed(name: str) -> None:
    # A process of its own, because a process has one Spark session.
    command = [sys.executable, "-m", "tests.demos.survival", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed: broker 1 and an executor" in done.stdout
