"""`headrace http start`, for users and scripts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from headrace.testing import RunningBroker
from tests.cli.conftest import Run
from tests.support.web import ask


def test_http_start_serves_on_loopback_and_ends_at_sigterm(running: RunningBroker) -> None:
    command = [sys.executable, "-m", "headrace.cli", "http", "start", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--bootstrap", running.bootstrap], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("HTTP API ready on http://127.0.0.1:")
        assert ask(ready.split()[-1], "GET", "/v3/clusters")[0] == 200
        assert ask(ready.split()[-1], "GET", "/health") == (200, {"status": "ok"})
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_an_address_beyond_this_machine_needs_tls_and_login(headrace: Run) -> None:
    refused = headrace("http", "start", "--listen", "0.0.0.0:0")
    assert refused.code == 2
    assert "without encryption and login" in refused.err and "--listen http://0.0.0.0:0" in refused.err


def test_a_wrong_tls_file_is_one_sentence(headrace: Run, tmp_path: object) -> None:
    gone = headrace("http", "start", "--listen", "127.0.0.1:0", "--tls-config", f"{tmp_path}/none")
    assert gone.code == 1 and "No such file" in gone.err and "Traceback" not in gone.err
