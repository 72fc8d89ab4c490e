"""What a Python process of Spark keeps between its tasks: one client per cluster.

Spark reuses its workers, so connections outlive a task.
"""

from __future__ import annotations

import gc
import os

from headrace.client.blocking import BlockingClient
from headrace.pipelines.options import Cluster

_clients: dict[tuple[int, Cluster], BlockingClient] = {}
_frozen: dict[int, int] = {}


def client_for(cluster: Cluster) -> BlockingClient:
    _spare_the_collector()
    # Spark forks its workers: a socket inherited from the parent would be shared, so the process is part of the key.
    key = (os.getpid(), cluster)
    if key not in _clients:
        _clients[key] = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security)
    return _clients[key]


def _spare_the_collector() -> None:
    """Takes what is loaded now out of the garbage collector's sight, at a worker's first two tasks.

    Spark's workers run a full collection after every task. With pyspark, numpy and Arrow loaded that walks 60,000
    objects which will never be garbage: 25 ms of CPU and more, in each of the four Python processes that a micro-batch
    passes through, which is as much as the batch's own work. The second task finds what the first one still loaded.
    """
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER" and (done := _frozen.get(os.getpid(), 0)) < 2:
        gc.freeze()
        _frozen[os.getpid()] = done + 1
