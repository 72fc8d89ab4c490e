"""File lock that lets only one driver run a pipeline at a time.

Spark detects a second driver only when both write the same batch to the checkpoint, and its check is not atomic: both
may pass. Then one batch number stands for two sets of records, and the ledger entry "batch 17 is written" makes the
sink lose one of them. The operating system releases the lock of a killed driver, so there is nothing to clean up. The
lock works on one machine and on shared file systems that support locks. A checkpoint in an object store has no lock.

The lock decides, not the content of the file: another process may have the process id in it after the driver ended. The
id is valid only while the lock is held. Then `stop` may use it, on the machine that the file names.
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
# `holder_of` also takes the lock for a moment.
_PATIENCE_S: Final = 0.5


@dataclass(frozen=True)
class Holder:
    """The process that runs a pipeline, read from the lock file. `pid` is 0 until it has written the file."""

    pid: int = 0
    host: str = ""

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        return f"process {self.pid or 'another'}" + ("" if self.is_here or not self.host else f" on {self.host}")


class RunLock:
    """Held from construction until `release`. Raises PipelineError with the process that holds it."""

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
    """The process that runs the pipeline now; None if it does not run."""
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
