"""One client per cluster and Python process: Spark reuses its workers, so connections outlive a task."""

from __future__ import annotations

import os

from headrace.client.blocking import BlockingClient
from headrace.pipelines.options import Cluster

_clients: dict[tuple[int, Cluster], BlockingClient] = {}


def client_for(cluster: Cluster) -> BlockingClient:
    # Spark forks its workers: a socket inherited from the parent would be shared, so the process is part of the key.
    key = (os.getpid(), cluster)
    if key not in _clients:
        _clients[key] = BlockingClient(cluster.bootstrap, client_id=cluster.client_id, security=cluster.security)
    return _clients[key]
