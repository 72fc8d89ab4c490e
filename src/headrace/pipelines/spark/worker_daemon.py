"""Spark's daemon of Python workers, without its traceback when the session ends first.

Spark starts this module in place of `pyspark.daemon` (`spark.python.daemon.module`) in local sessions. When a session
stops, a worker may still flush its last answer to the closed socket. PySpark prints the BrokenPipeError of that flush
to the terminal, after a run that succeeded.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        # The session has closed the socket. Code 1 ends this worker.
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
