"""`headrace start`: one line when it serves, one sentence on an error, a clean shutdown."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.start import UsageError, parse_arguments
from headrace.config import ConfigError
from headrace.wire import codec
from tests.support.clock import wait_for

HEADRACE = [sys.executable, "-m", "headrace.cli", "start"]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*HEADRACE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = start("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.readline() or pytest.fail(f"it ended: {process.stderr.read()}")


def port_of(line: str) -> int:
    return int(line.split("127.0.0.1:")[1].split()[0].rstrip(","))


def refused(*arguments: str) -> str:
    done = subprocess.run([*HEADRACE, *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode not in (0, None)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_start_prints_its_address_and_serves_there(started: subprocess.Popen[str], tmp_path: Path) -> None:
    line = first_line(started)
    assert line.startswith("headrace ")
    assert str(tmp_path / "data") in line
    assert " ms)" in line
    with socket.create_connection(("127.0.0.1", port_of(line)), timeout=5) as client:
        client.sendall(codec.encode_request(18, 0, 1, "me", {}))
        assert len(client.recv(65536)) > 100


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_shuts_down_cleanly(started: subprocess.Popen[str], number: int, tmp_path: Path) -> None:
    first_line(started)
    started.send_signal(number)
    assert started.wait(20) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_simultaneous_signals_count_as_one(started: subprocess.Popen[str], tmp_path: Path) -> None:
    """The program `timeout` sends a signal to the process and to its group."""
    first_line(started)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        started.send_signal(number)
    assert started.wait(20) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


NEVER_STOPS = """
import asyncio, sys
from headrace.broker import broker
from headrace.cli import start

async def stop(self):
    await asyncio.sleep(3600)

broker.Broker.stop = stop
sys.exit(start.run(sys.argv[1:]))
"""


def test_second_signal_stops_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NEVER_STOPS, "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first_line(process)

        def ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        try:
            wait_for(ended, "the broker to end")
        finally:
            process.kill()
    assert process.returncode == 130


def test_locked_directory_error_names_the_process(started: subprocess.Popen[str], tmp_path: Path) -> None:
    first_line(started)
    sentence = refused("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert sentence.startswith("headrace: ")
    assert str(started.pid) in sentence
    assert str(tmp_path / "data") in sentence


def test_port_in_use_error_names_the_process(started: subprocess.Popen[str], tmp_path: Path) -> None:
    port = port_of(first_line(started))
    sentence = refused("--data", str(tmp_path / "other"), "--listen", f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in sentence
    assert f"process {started.pid}" in sentence


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "num.partitions=many"), ("num.partitions", "many")),
        (("--set", "listeners=PLAINTEXT"), ("listeners",)),
        (("--listen", "0.0.0.0:0"), ("--listen", "PLAINTEXT://")),
        (("/no/such/file.properties",), ("cannot read /no/such/file.properties: No such file",)),
        (("--set", "listeners=SSL://127.0.0.1:0"), ("SSL", "ssl.keystore.location")),
        (("--set", "log.dirs=/proc/nothing/here"), ("/proc/nothing",)),
    ],
)
def test_configuration_error_is_one_sentence(
    arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    sentence = refused("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments)
    assert sentence.startswith("headrace: ")
    for word in words:
        assert word in sentence


def test_arguments_override_the_file() -> None:
    parsed = parse_arguments(["f.properties", "--set", "a=1", "--override=b=2=3", "--data", "/d", "--listen", "9093"])
    assert parsed.file == "f.properties"
    assert parsed.settings["a"] == "1"
    assert parsed.settings["b"] == "2=3"
    assert parsed.settings["log.dirs"] == "/d"
    assert parsed.settings["listeners"] == "PLAINTEXT://127.0.0.1:9093"


@pytest.mark.parametrize("arguments", [["--set"], ["--set", "novalue"], ["--what"], ["a", "b"]])
def test_wrong_usage_raises_an_error(arguments: list[str]) -> None:
    with pytest.raises((UsageError, ConfigError)):
        parse_arguments(arguments)
