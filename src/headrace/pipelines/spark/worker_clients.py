"""Clients and cached answers that a Python worker process of Spark keeps between its tasks: one client per cluster.

Spark reuses its workers, so connections outlive a task. Spark does not reuse a worker whose task failed, so a wrong
cached answer does not survive the failure that it causes.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.options import Cluster
from headrace.pipelines.source.stream_state import StreamNotes
from headrace.pipelines.spark.closed_session import is_worker

_clients: dict[tuple[int, Cluster], BlockingClient] = {}
_notes: dict[tuple[int, Cluster], StreamNotes] = {}
# A task waits no longer than this for notes, because it can continue without them.
_NOTES_PATIENCE_S: Final = 3.0
_frozen: dict[int, int] = {}
# Kafka's producer caches metadata for five minutes. Here new partitions are used sooner.
_BELIEVED_S: Final = 30.0
_MOST_REMEMBERED: Final = 1000
_remembered: dict[Hashable, tuple[float, Any]] = {}
_T = TypeVar("_T")


def client_for(cluster: Cluster) -> BlockingClient:
    _freeze_loaded_objects()
    # Spark forks its workers, which would share an inherited socket. So the process id is part of the key.
    key = (os.getpid(), cluster)
    if key not in _clients:
        _ignore_interrupts()
        _clients[key] = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security)
    return _clients[key]


def notes_for(cluster: Cluster) -> StreamNotes:
    key = (os.getpid(), cluster)
    if key not in _notes:
        patience = {"timeout_s": _NOTES_PATIENCE_S, "patience_s": _NOTES_PATIENCE_S}
        client = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security, **patience)
        _notes[key] = StreamNotes(client)
    return _notes[key]


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal. The driver then finishes the running batch, for which it needs its
    workers. But Spark's daemon restores their default handler, which ends them."""
    if is_worker() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def remembered(key: Hashable, ask: Callable[[], _T], clock: Callable[[], float] = time.monotonic) -> _T:
    """Returns an answer that is at most half a minute old. Micro-batches repeat questions whose answers rarely
    change."""
    known = _remembered.get(key)
    if known is not None and clock() - known[0] < _BELIEVED_S:
        answer: _T = known[1]
        return answer
    answer = ask()
    if len(_remembered) >= _MOST_REMEMBERED:
        _remembered.clear()
    _remembered[key] = (clock(), answer)
    return answer


def _freeze_loaded_objects() -> None:
    """Excludes the loaded objects from garbage collection, at a worker's first two tasks.

    Spark's workers run a full collection after every task. With PySpark, numpy and Arrow loaded it visits 60,000
    objects that never become garbage. That takes 25 ms of CPU or more in each of the four Python processes of a
    micro-batch, as much as the batch's own work. The second call covers objects that the first task has loaded.
    """
    if is_worker() and (done := _frozen.get(os.getpid(), 0)) < 2:
        gc.freeze()
        _frozen[os.getpid()] = done + 1
