"""The start of Spark's JVM: it leaves SIGTERM to the process that started it, and its output can go to a file.

A service manager (and `kill -- -GROUP`) sends SIGTERM to every process of a service. PySpark already hides Ctrl-C from
its JVM, but not SIGTERM: the JVM ended first, and a run that wanted to finish its batches failed with a lost
connection. A process that ignores a signal when it starts Java passes this on, and Java keeps it. The JVM still ends
with its parent, because its standard input closes.

The JVM and the Python processes of Spark share one standard output and error. They write notes there that no setting of
logs prevents: a warning of Java about a module, each start of a stateful operator, a traceback of a Python process
whose session ends first. A program that draws on the terminal wants them in a file.

PySpark has no hook for the start of its JVM, so its `Popen` is replaced for that moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def jvm_without_sigterm(output: Path | None = None) -> Iterator[None]:
    """A JVM that PySpark starts inside ignores SIGTERM, and appends what it writes to the file `output`."""
    if os.name != "posix":
        yield
        return
    from pyspark import java_gateway

    original = java_gateway.Popen

    # The arguments are those of Popen, whatever PySpark gives.
    def start(
        command: Sequence[str], *, preexec_fn: Callable[[], None] | None = None, **more: Any
    ) -> subprocess.Popen[bytes]:
        def prepare() -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if preexec_fn is not None:
                preexec_fn()

        with ExitStack() as stack:
            if output is not None:
                more["stdout"] = more["stderr"] = stack.enter_context(output.open("ab"))
            started: subprocess.Popen[bytes] = original(command, preexec_fn=prepare, **more)
        return started

    java_gateway.Popen = start
    try:
        yield
    finally:
        java_gateway.Popen = original
