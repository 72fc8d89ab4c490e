"""`registry.listen`: the schema registry is a process beside the broker, is restarted, and ends with the broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.net.free_ports import free_port
from tests.support.clock import wait_for
from tests.support.registry import ask


@contextmanager
def broker_with_registry(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--set", f"registry.listen=127.0.0.1:{port}"], stdout=subprocess.DEVNULL)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def answers(url: str) -> bool:
    try:
        return ask(url, "GET", "/subjects")[0] == 200
    except OSError:
        return False


def child_of(pid: int) -> int | None:
    """The registry among the children of the broker."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except (OSError, ValueError):
                continue
            if parent == pid and b"registry" in words:
                return int(entry.name)
    return None


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_registry_runs_beside_the_broker_and_ends_with_it(tmp_path: Path, end: signal.Signals) -> None:
    with broker_with_registry(tmp_path) as (process, url):
        wait_for(lambda: answers(url), "the registry to answer")
        assert ask(url, "POST", "/subjects/a/versions", {"schema": '"int"'})[0] == 200
        if end is signal.SIGTERM:
            first = child_of(process.pid)
            assert first is not None
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: child_of(process.pid) not in (None, first), "the broker to start the registry again")
            wait_for(lambda: answers(url), "the registry to answer again")
            assert ask(url, "GET", "/subjects") == (200, ["a"])
        process.send_signal(end)
        assert process.wait(30) == (0 if end is signal.SIGTERM else -end)
        wait_for(lambda: not answers(url), "the registry to end with its broker")
