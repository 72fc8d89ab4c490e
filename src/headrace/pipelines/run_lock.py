"""One driver at a time: a pipeline's checkpoints belong to the run that holds their lock.

Spark finds a second driver only when both note the same batch, and between its look and its note both may pass: then
one batch number means two sets of records, and a ledger that says "batch 17 is written" loses one of them. A lock of
the operating system is let go by a driver that was killed, so nothing is left behind to clean up. It holds on one
machine (and on shared file systems that lock); a checkpoint in an object store has no lock.
"""

from __future__ import annotations

import fcntl
import os
from typing import TextIO

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.spec import PipelineSpec

LOCK_FILE = "headrace-run.lock"


class RunLock:
    """Held from construction until `release`. Raises PipelineError naming the process that holds it."""

    def __init__(self, spec: PipelineSpec, checkpoints: str) -> None:
        self._file: TextIO | None = None
        if not spec.is_local:
            return
        path = spec.storage_path / checkpoints / LOCK_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another"
            file.close()
            raise PipelineError(
                f"pipeline {spec.name!r} runs already (process {holder}): stop it first, or give this one a storage "
                "of its own"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
