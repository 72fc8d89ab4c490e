"""The README's tour works as written on both brokers that it names. The test runs each block and compares the
output with the one below the command.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from headrace.demos import processes
from headrace.net.free_ports import free_port
from tests.support.clock import took_at_most
from tests.support.effort import is_long
from tests.support.pytest_plugin import plugin_environment
from tests.support.readme import README, ROOT, TOUR, moved, python_block, steps


def at_a_terminal(command: str, address: str) -> tuple[int | None, str]:
    screen = pexpect.spawn(
        "bash", ["-c", moved(command, address)], cwd=str(ROOT), env=dict(os.environ), encoding="utf-8", timeout=60
    )
    screen.expect(pexpect.EOF)
    screen.close()
    return screen.exitstatus, (screen.before or "").replace("\r\n", "\n")


def ordered_by_key(text: str) -> list[str]:
    """Records of one key are in order. Records of different keys are in different partitions, which come in any
    order.
    """
    lines = text.strip("\n").splitlines()
    return sorted(lines, key=lambda line: line.partition("\t")[0] if "\t" in line else "")


@pytest.fixture
def headrace_start(tmp_path: Path) -> Iterator[str]:
    """The command of the tour, with a port of this test."""
    assert "`.venv/bin/headrace start --data data`" in TOUR
    port = free_port()
    words = [sys.executable, "-m", "headrace.cli", "start", "--data", "data", "--listen", f"127.0.0.1:{port}"]
    started = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert started.stdout is not None
    try:
        assert b"serves" in started.stdout.readline()
        yield f"localhost:{port}"
    finally:
        started.send_signal(signal.SIGINT)
        started.stdout.close()
        assert started.wait(30) == 0


@pytest.fixture
def make_run_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The broker of `make run`, started by the same function, without Spark."""
    monkeypatch.setattr(processes, "_USUAL_PORT", free_port())
    with processes.embedded_broker(tmp_path / "data" / "broker") as address:
        yield address


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[str]:
    """Everything that `make run` starts, on a terminal."""
    if not is_long():
        pytest.skip("starts Spark (HEADRACE_EFFORT=long)")
    assert "exec $(BIN)/headrace demo wordcount --data data" in (ROOT / "Makefile").read_text()
    screen = pexpect.spawn(
        sys.executable, ["-m", "headrace.cli", "demo", "wordcount", "--data", "data"],
        cwd=str(tmp_path), env=dict(os.environ), timeout=120, dimensions=(50, 140),
        encoding="utf-8", codec_errors="replace",
    )  # fmt: skip
    colour = r"(?:\x1b\[[\d;]*m)*"
    screen.expect(rf"The broker serves {colour}localhost:{colour}(\d+)")
    address = f"localhost:{screen.match[1]}"
    screen.expect(r"streams-wordcount-output: \d\d+ words")
    yield address
    screen.sendintr()
    screen.expect(pexpect.EOF)
    screen.close()


@pytest.mark.parametrize("broker", ["headrace_start", "make_run_broker", "make_run"])
def test_the_tour_prints_what_the_readme_shows(broker: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue(broker)
    assert len(steps()) == 6
    for step in steps():
        code, shown = at_a_terminal(step.command, address)
        assert code == 0, f"{step.command}\n{shown}"
        assert ordered_by_key(shown) == ordered_by_key(step.prints), f"{step.command}\n{shown}"


def test_the_python_producer_writes_records(headrace_start: str) -> None:
    from confluent_kafka import Consumer

    exec(moved(python_block("confluent_kafka"), headrace_start), {})
    consumer = Consumer({"bootstrap.servers": headrace_start, "group.id": "till", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert (message.error(), message.key(), message.value()) == (None, b"ann", b"scone")


def test_the_python_test_passes_in_the_time_that_the_readme_says(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(python_block("def test_old_orders_leave"))
    command = [sys.executable, "-m", "pytest", "-vv", "--durations=0", "-p", "no:cacheprovider", "test_orders.py"]
    environment = {**os.environ, **plugin_environment()}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    took = {phase: float(seconds) for seconds, phase in re.findall(r"([\d.]+)s (setup|call|teardown)", done.stdout)}
    took_at_most(took["call"], 3, because="a broker takes ten milliseconds, also eight days ahead")


def test_the_readme_starts_with_the_two_commands() -> None:
    opening = README.split("## ")[0]
    assert re.findall(r"^make (\w+)", opening, re.MULTILINE) == ["run", "test"]


def test_every_link_in_the_readme_has_a_target() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
