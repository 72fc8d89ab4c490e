"""The bank's alerts are written once although the whole demo is killed in the middle and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client.blocking.client import BlockingClient
from headrace.demos.topics import Contents
from headrace.testing.process import broker_process
from tests.support.clock import wait_for
from tests.support.effort import is_long

pytestmark = [
    pytest.mark.skipif(not is_long(), reason="two Spark sessions: HEADRACE_EFFORT=long"),
    pytest.mark.timeout(900),
]
# A demo on a busy machine begins with a minute or two of starting Spark.
BUSY_S = 400


def test_alerts_are_written_once_after_a_kill(tmp_path: Path) -> None:
    env = {**os.environ, "HEADRACE_DEMO_DATABASE": f"sqlite:///{tmp_path / 'bank.db'}"}
    with broker_process() as broker:
        command = [sys.executable, "-m", "headrace.cli", "demo", "bank"]
        command += ["--bootstrap", broker.bootstrap, "--data", str(tmp_path / "data")]
        log = tmp_path / "log"
        with log.open("wb") as out:
            first = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            wait_for(lambda: _alerts(broker.bootstrap) > 20, lambda: log.read_text()[-2000:], within=BUSY_S)
        finally:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
        before = _alerts(broker.bootstrap)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=BUSY_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "equal a computation without Spark" in done.stdout
        assert _alerts(broker.bootstrap) > before > 20


def _alerts(bootstrap: str) -> int:
    with BlockingClient(bootstrap) as client:
        if "bank-alerts" not in client.topics(["bank-alerts"]):
            return 0
        alerts = Contents(client, ["bank-alerts"])
        return alerts.read_new()
