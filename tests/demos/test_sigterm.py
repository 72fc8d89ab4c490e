"""SIGTERM ends a demo with its broker and its services."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.clock import wait_for


def test_no_process_is_left_after_sigterm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli", "demo", "replay", "--port", "0", "--data", str(tmp_path / "data")]
    demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: _running(tmp_path) >= 2 and (tmp_path / "data" / "services").is_dir(), "a broker and a service")
    demo.send_signal(signal.SIGTERM)
    assert demo.wait(60) == 128 + signal.SIGTERM
    wait_for(lambda: _running(tmp_path) == 0, "the end of the broker")


def _running(directory: Path) -> int:
    """Processes whose command line names the directory."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += str(directory).encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended
    return found
