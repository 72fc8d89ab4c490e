"""A source's process leaves in silence when Spark has closed its socket, and only then."""

from __future__ import annotations

import inspect
import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
from pyspark.serializers import read_int

from headrace.pipelines.spark.closed_session import leave_closed_session


class _Left(Exception):
    pass


@pytest.fixture(autouse=True)
def exit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(_code: int) -> None:
        raise _Left

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")


def _stop_after(work: Callable[[], object]) -> None:
    """As Spark's process does: it stops the source on the way out, and then reports the exception."""
    try:
        work()
    finally:
        leave_closed_session()


def test_process_leaves_when_there_is_no_next_command() -> None:
    with pytest.raises(_Left):
        _stop_after(lambda: read_int(io.BytesIO(b"")))


def _write_to_a_closed_socket() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        file = ours.makefile("wb", 0)
        file.write(b"answer")


@pytest.mark.parametrize("module", ["__main__", "pyspark.worker_util"])
def test_process_leaves_when_there_is_no_reader_of_its_answer(module: str) -> None:
    code = {**globals(), "__name__": module}
    exec(inspect.getsource(_write_to_a_closed_socket), code)
    with pytest.raises(_Left):
        _stop_after(code["_write_to_a_closed_socket"])


def _lost_broker() -> None:
    raise ConnectionResetError(104, "Connection reset by peer")


def _broken_file() -> None:
    raise EOFError("journal ends early")


@pytest.mark.parametrize("work", [_lost_broker, _write_to_a_closed_socket, _broken_file])
def test_same_exceptions_of_the_source_reach_the_driver(work: Callable[[], None]) -> None:
    with pytest.raises((ConnectionError, EOFError)):
        _stop_after(work)


def test_process_that_is_no_worker_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME")
    with pytest.raises(EOFError):
        _stop_after(lambda: read_int(io.BytesIO(b"")))


def test_orderly_stop_stays() -> None:
    leave_closed_session()


_AS_DAEMON = """
import importlib, importlib.machinery, sys
main = sys.modules["__main__"]
main.__spec__ = importlib.machinery.ModuleSpec(sys.argv[1], None)
main.worker = "as it was"
importlib.import_module(sys.argv[2])
print(main.worker if isinstance(main.worker, str) else main.worker.__module__)
"""


@pytest.mark.parametrize(
    ("daemon", "module", "expected"),
    [
        ("pyspark.daemon", "pyspark_headrace", "headrace.pipelines.spark.worker_daemon"),
        ("pyspark.daemon", "headrace.pipelines.connectors.table_source", "headrace.pipelines.spark.worker_daemon"),
        ("other.daemon", "pyspark_headrace", "as it was"),
    ],
)
def test_source_in_a_process_of_pysparks_daemon(daemon: str, module: str, expected: str) -> None:
    """PySpark's daemon calls its global `worker` for every task of a process."""
    command = [sys.executable, "-c", _AS_DAEMON, daemon, module]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == expected
