"""A pipeline has one driver at a time, and one that was killed is no obstacle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.run_lock import RunLock
from headrace.pipelines.spec import PipelineSpec

_HOLDER = """
import sys
from pathlib import Path
from headrace.pipelines.run_lock import RunLock
from headrace.pipelines.spec import PipelineSpec
lock = RunLock(PipelineSpec(Path(sys.argv[1]), "orders", "storage", None, {}, ()), "checkpoints")
print("held", flush=True)
sys.stdin.read()
"""


def test_the_second_driver_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    spec = PipelineSpec(tmp_path, "orders", "storage", None, {}, ())
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(PipelineError, match=rf"'orders' runs already \(process {holder.pid}\): stop it first"):
            RunLock(spec, "checkpoints")
        RunLock(spec, "replays").release()
        holder.kill()
        holder.wait()
    mine = RunLock(spec, "checkpoints")
    with pytest.raises(PipelineError, match=rf"process {os.getpid()}"):
        RunLock(spec, "checkpoints")
    mine.release()
    RunLock(spec, "checkpoints").release()


def test_a_storage_elsewhere_has_no_lock(tmp_path: Path) -> None:
    spec = PipelineSpec(tmp_path, "orders", "s3a://lake/orders", None, {}, ())
    RunLock(spec, "checkpoints").release()
    assert list(tmp_path.iterdir()) == []
