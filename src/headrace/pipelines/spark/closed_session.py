"""Python processes of Spark end without a word when Spark has closed their socket.

Spark closes the socket of a process after a minute without work, and at the end of a session. The process finds no next
command, cannot report that, and PySpark prints a BrokenPipeError to the terminal. `worker_daemon` prevents this for the
processes of tasks. But Spark starts the processes that look up, create and plan sources with PySpark's own daemon,
whatever its settings say, and a process without a daemon for every source of a stream. Therefore:

- Spark loads the module of a source in each of the former. The import of this module replaces the function by which
  the process waits for its next command.
- A source calls `leave_closed_session` in its `stop`, which the latter calls on its way to the report.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType


def is_worker() -> bool:
    """Whether this is a Python process that Spark started."""
    return os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER"


def leave_closed_session() -> None:
    """Ends this Python process of Spark at once if it stops because Spark has closed its socket. There is then no
    reader for the report of the exception."""
    failure = sys.exc_info()[1]
    if not is_worker() or not isinstance(failure, (EOFError, ConnectionError)):
        return
    if _is_raised_by_pyspark(failure.__traceback__):
        os._exit(0)


def _is_raised_by_pyspark(trace: TracebackType | None) -> bool:
    """Whether PySpark itself raised it, while it read the next command or wrote an answer. The same exception of a
    broker's or database's connection must reach the driver."""
    caller = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        # Python's file of a socket is written to by both.
        caller = module if module != "socket" else caller
        trace = trace.tb_next
    # The module of PySpark that Spark has started is the main module of the process.
    return caller == "__main__" or caller.startswith("pyspark.")


def _wait_quietly() -> None:
    """In a process of PySpark's daemon: from its next command on, it waits in `worker_daemon.worker`."""
    daemon = sys.modules["__main__"]
    if getattr(daemon.__spec__, "name", None) == "pyspark.daemon":
        from headrace.pipelines.spark.worker_daemon import worker

        vars(daemon)["worker"] = worker


_wait_quietly()
