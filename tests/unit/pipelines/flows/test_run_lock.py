"""Only one driver runs a pipeline at a time. A killed driver does not block the next."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.pipeline.command import app
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.run_lock import LOCK_FILE, Holder, RunLock, holder_of
from headrace.pipelines.flows.spec import PipelineSpec

_HOLDER = """
import sys
from pathlib import Path
from headrace.pipelines.flows.run_lock import RunLock
from headrace.pipelines.flows.spec import PipelineSpec
lock = RunLock(PipelineSpec(Path(sys.argv[1]), "orders", "storage", None, {}, ()), "checkpoints")
print("held", flush=True)
sys.stdin.read()
"""


def test_second_driver_is_refused_until_the_first_ends(tmp_path: Path) -> None:
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


def test_remote_storage_has_no_lock(tmp_path: Path) -> None:
    spec = PipelineSpec(tmp_path, "orders", "s3a://lake/orders", None, {}, ())
    RunLock(spec, "checkpoints").release()
    assert list(tmp_path.iterdir()) == []


def test_stale_process_id_in_the_lock_file_is_ignored(tmp_path: Path) -> None:
    spec = PipelineSpec(tmp_path, "orders", "storage", None, {}, ())
    assert holder_of(spec) is None
    # A driver was killed, and another process (this test) now has its process id.
    left = tmp_path / "storage" / "checkpoints" / LOCK_FILE
    left.parent.mkdir(parents=True)
    left.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    assert holder_of(spec) is None
    with RunLock(spec):
        assert holder_of(spec) == Holder(os.getpid(), socket.gethostname())
    assert holder_of(spec) is None


def test_stop_signals_only_a_driver_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: orders\nstorage: storage\n")
    spec = PipelineSpec(tmp_path, "orders", "storage", None, {}, ())
    stop = lambda: CliRunner().invoke(app, ["stop", str(tmp_path)])  # noqa: E731
    assert "'orders' does not run here" in stop().output  # type: ignore[no-untyped-call]
    with RunLock(spec):
        file = tmp_path / "storage" / "checkpoints" / LOCK_FILE
        file.write_text(json.dumps({"pid": os.getpid(), "host": "elsewhere"}))
        assert "'orders' runs on elsewhere: stop it there" in stop().output  # type: ignore[no-untyped-call]
        with pytest.raises(PipelineError, match=rf"process {os.getpid()} on elsewhere"):
            RunLock(spec)
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert "pipeline orders stopped" in stop().output  # type: ignore[no-untyped-call]
        assert holder.wait() == -signal.SIGTERM
