"""What a Python process of Spark keeps between its tasks: one client per cluster, and answers that stay true a while.

Spark reuses its workers, so connections outlive a task. A worker whose task fails is not used again: a wrong answer
does not outlive the failure it leads to.
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

_clients: dict[tuple[int, Cluster], BlockingClient] = {}
_notes: dict[tuple[int, Cluster], StreamNotes] = {}
# A task waits no longer than this for notes: it can go on without them.
_NOTES_PATIENCE_S: Final = 3.0
_frozen: dict[int, int] = {}
# A producer of Kafka's believes its metadata five minutes; partitions added to a topic are to be used sooner here.
_BELIEVED_S: Final = 30.0
_MOST_REMEMBERED: Final = 1000
_remembered: dict[Hashable, tuple[float, Any]] = {}
_T = TypeVar("_T")


def client_for(cluster: Cluster) -> BlockingClient:
    _spare_the_collector()
    # Spark forks its workers: a socket inherited from the parent would be shared, so the process is part of the key.
    key = (os.getpid(), cluster)
    if key not in _clients:
        _leave_interrupts_to_the_driver()
        _clients[key] = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security)
    return _clients[key]


def notes_for(cluster: Cluster) -> StreamNotes:
    key = (os.getpid(), cluster)
    if key not in _notes:
        patience = {"timeout_s": _NOTES_PATIENCE_S, "patience_s": _NOTES_PATIENCE_S}
        client = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security, **patience)
        _notes[key] = StreamNotes(client)
    return _notes[key]


def _leave_interrupts_to_the_driver() -> None:
    """Ctrl-C reaches every process of a terminal. The driver answers it by letting the batch under way finish, which it
    cannot when its workers are gone: Spark's daemon gives them back the handler that ends them."""
    if _is_worker() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_worker() -> bool:
    return os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER"


def remembered(key: Hashable, ask: Callable[[], _T], clock: Callable[[], float] = time.monotonic) -> _T:
    """An answer less than half a minute old, or a fresh one: every micro-batch asks again what hardly ever changes."""
    known = _remembered.get(key)
    if known is not None and clock() - known[0] < _BELIEVED_S:
        answer: _T = known[1]
        return answer
    answer = ask()
    if len(_remembered) >= _MOST_REMEMBERED:
        _remembered.clear()
    _remembered[key] = (clock(), answer)
    return answer


def _spare_the_collector() -> None:
    """Takes what is loaded now out of the garbage collector's sight, at a worker's first two tasks.

    Spark's workers run a full collection after every task. With pyspark, numpy and Arrow loaded that walks 60,000
    objects which will never be garbage: 25 ms of CPU and more, in each of the four Python processes that a micro-batch
    passes through, which is as much as the batch's own work. The second task finds what the first one still loaded.
    """
    if _is_worker() and (done := _frozen.get(os.getpid(), 0)) < 2:
        gc.freeze()
        _frozen[os.getpid()] = done + 1
