"""A group reader is replaced if its client deadlocks, and for no other reason."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.net.free_ports import free_port
from headrace.testing.process import broker_process
from tests.cluster.supervised_reader import PROGRAM, SupervisedReader
from tests.support.clock import wait_for
from tests.support.effort import is_long

TICKS = 3
LAST = "read 0 9 p/9"
LOCKED_UP = "read 0 0 p/0\n" + "tick\n" * 50
READS_NOTHING = "alive\ntick\n" * 50 + LAST
LATE_BUT_ALIVE = "tick\ntick\nalive\n" * 50 + LAST
STANDS_STILL = "alive\n" + LAST


def teller(*stories: Path) -> list[str]:
    """A program that prints the first file that exists, deletes it, and waits for the end of its input. A
    deadlocked client does not stop even then."""
    program = (
        "import pathlib, sys, time\n"
        "story = next(p for p in map(pathlib.Path, sys.argv[1:]) if p.exists())\n"
        "text = story.read_text()\n"
        "story.unlink()\n"
        "print(text, flush=True)\n"
        "time.sleep(3600) if 'alive' not in text else sys.stdin.read()\n"
    )
    return [sys.executable, "-c", program, *map(str, stories)]


def followed(tmp_path: Path, *stories: str) -> tuple[SupervisedReader, list[bytes]]:
    paths = [tmp_path / str(number) for number in range(len(stories))]
    for path, story in zip(paths, stories, strict=True):
        path.write_text(story)
    reader = SupervisedReader(teller(*paths), ticks=TICKS)
    seen: list[bytes] = []
    ending: list[threading.Thread] = []

    def read(partition: int, offset: int, value: bytes) -> None:
        seen.append(value)
        if value == b"p/9":
            ending.append(threading.Thread(target=reader.end))
            ending[0].start()

    reader.run(read)
    ending[0].join()
    return reader, seen


def test_a_deadlocked_client_is_replaced_in_its_group(tmp_path: Path) -> None:
    reader, seen = followed(tmp_path, LOCKED_UP, LOCKED_UP, READS_NOTHING)
    assert reader.replaced == 2
    assert seen == [b"p/0", b"p/0", b"p/9"]


@pytest.mark.parametrize("story", [READS_NOTHING, LATE_BUT_ALIVE, STANDS_STILL])
def test_a_client_without_records_is_not_replaced(tmp_path: Path, story: str) -> None:
    reader, _ = followed(tmp_path, story, LAST)
    assert reader.replaced == 0


def test_a_client_that_exits_by_itself_is_an_error() -> None:
    reader = SupervisedReader([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(RuntimeError, match="code 3"):
        reader.run(lambda *_: None)


def test_a_client_without_brokers_is_not_deadlocked() -> None:
    settings = json.dumps({"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    command = [sys.executable, str(PROGRAM), settings, "t"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(6)]
        process.stdin.close()
    assert told.count("alive") >= 2, told


PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def main_thread_of_client(pid: int) -> int:
    """Finds the thread by the name that librdkafka gives it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "rdk:main":
            return int(task.name)
    raise AssertionError("the reader has no client")


def stop_for_good(thread: int) -> None:
    """Stops that thread alone, like a lock that is never released. The process continues."""
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if trace(request, thread, None, None) != 0:
            pytest.skip(f"may not trace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, WALL)


@pytest.mark.skipif(not is_long() or sys.platform != "linux", reason="long: a session must end; Linux stops one thread")
def test_a_real_client_with_a_stopped_main_thread_is_replaced() -> None:
    with broker_process() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        settings = json.dumps({"bootstrap.servers": broker.bootstrap})
        reader = SupervisedReader([sys.executable, str(PROGRAM), settings, "t"], ticks=TICKS)
        seen: set[bytes] = set()
        running = threading.Thread(target=reader.run, args=(lambda partition, offset, value: seen.add(value),))
        try:
            producer.produce("t", b"p/0")
            assert producer.flush(60) == 0
            running.start()
            wait_for(lambda: b"p/0" in seen, "the first record")
            thread = main_thread_of_client(reader.pid)
            stop_for_good(thread)
            os.waitpid(thread, WALL)  # until the process was killed
            producer.produce("t", b"p/1")
            assert producer.flush(60) == 0
            wait_for(lambda: b"p/1" in seen, "the second record by the replacement")
        finally:
            reader.end()
            running.join(30)
    assert reader.replaced == 1
