"""One driver at a time: a pipeline's checkpoints belong to the run that holds their lock.

Spark finds a second driver only when both note the same batch, and between its look and its note both may pass: then
one batch number means two sets of records, and a ledger that says "batch 17 is written" loses one of them. A lock of
the operating system is let go by a driver that was killed, so nothing is left behind to clean up. It holds on one
machine (and on shared file systems that lock); a checkpoint in an object store has no lock.

The lock decides who runs, never what the file says: the process number in it may long belong to somebody else. Only
while the lock is held is it the holder's, and then `stop` may trust it, on the machine that is named beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.spec import PipelineSpec

LOCK_FILE: Final = "headrace-run.lock"
CHECKPOINTS: Final = "checkpoints"
# Whoever only looks holds the lock for a moment too.
_PATIENCE_S: Final = 0.5


@dataclass(frozen=True)
class Holder:
    """Who runs a pipeline, as it wrote itself down. `pid` is 0 in the moment before it did."""

    pid: int = 0
    host: str = ""

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        return f"process {self.pid or 'another'}" + ("" if self.is_here or not self.host else f" on {self.host}")


class RunLock:
    """Held from construction until `release`. Raises PipelineError naming the process that holds it."""

    def __init__(self, spec: PipelineSpec, checkpoints: str = CHECKPOINTS) -> None:
        self._file: TextIO | None = None
        if not spec.is_local:
            return
        path = _path(spec, checkpoints)
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
        if not _taken(file):
            holder = _written(file)
            file.close()
            raise PipelineError(
                f"pipeline {spec.name!r} runs already ({holder}): stop it first, or give this one a storage of its own"
            )
        file.truncate(0)
        file.write(json.dumps(asdict(Holder(os.getpid(), socket.gethostname()))))
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def holder_of(spec: PipelineSpec, checkpoints: str = CHECKPOINTS) -> Holder | None:
    """Who runs the pipeline now; None when nobody does."""
    try:
        file = _path(spec, checkpoints).open("r")
    except FileNotFoundError:
        return None
    with file:
        return None if _taken(file, patience_s=0) else _written(file)


def _path(spec: PipelineSpec, checkpoints: str) -> Path:
    return spec.storage_path / checkpoints / LOCK_FILE


def _taken(file: TextIO, patience_s: float = _PATIENCE_S) -> bool:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(0.02)


def _written(file: TextIO) -> Holder:
    file.seek(0)
    try:
        found = json.loads(file.read())
        return Holder(int(found["pid"]), str(found["host"]))
    except (ValueError, KeyError, TypeError):
        return Holder()
