"""Clients and answers that a worker process keeps between tasks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection

import pytest

from headrace.client.security import ClientSecurity
from headrace.pipelines.options import Cluster
from headrace.pipelines.spark.worker_clients import client_for, remembered

_CLUSTER = Cluster("localhost:9092", ClientSecurity(), "test")


def _in_worker(runtime: str, answer: Connection) -> None:
    os.environ["SPARK_PYTHON_RUNTIME"] = runtime
    # As Spark's daemon does. A test run in the background ignores SIGINT by default.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    first = client_for(_CLUSTER)
    frozen = gc.get_freeze_count() > 0
    kept = client_for(_CLUSTER) is first
    after_second = gc.get_freeze_count()
    later = [[number] for number in range(10_000)]
    client_for(_CLUSTER)
    settled = gc.get_freeze_count() - after_second < len(later)
    answer.send((kept, frozen, settled, signal.getsignal(signal.SIGINT) is signal.SIG_IGN))


@pytest.mark.parametrize(("runtime", "is_worker"), [("PYTHON_WORKER", True), ("", False)])
def test_only_a_worker_freezes_loaded_objects_and_ignores_ctrl_c(runtime: str, is_worker: bool) -> None:
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_in_worker, args=(runtime, theirs))
    process.start()
    assert mine.poll(60)
    kept, frozen, settled, bears_interrupts = mine.recv()
    process.join()
    assert (kept, frozen, settled, bears_interrupts) == (True, is_worker, True, is_worker)


def test_a_forked_process_does_not_share_its_parent_s_connections() -> None:
    ours = id(client_for(_CLUSTER))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(id(client_for(_CLUSTER))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(read, 100)) != ours


def test_answers_are_cached_for_half_a_minute_and_failures_are_not() -> None:
    now, asked = [0.0], []

    def ask() -> int:
        asked.append(now[0])
        if len(asked) == 1:
            raise OSError("no broker")
        return len(asked)

    key = ("test", object())
    with pytest.raises(OSError, match="no broker"):
        remembered(key, ask, lambda: now[0])
    answers = []
    for now[0] in (1.0, 20.0, 40.0):
        answers.append(remembered(key, ask, lambda: now[0]))
    assert (answers, asked) == ([2, 2, 3], [0.0, 1.0, 40.0])
