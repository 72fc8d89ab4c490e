"""A process that PySpark starts as its JVM ignores SIGTERM and can write to a file; others do not."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from headrace.pipelines.spark.jvm_process import jvm_without_sigterm

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


def _ignores(process: subprocess.Popen[bytes], number: int) -> bool:
    match = re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    assert match is not None
    return bool(int(match[1], 16) >> (number - 1) & 1)


def test_the_jvm_leaves_sigterm_to_its_parent() -> None:
    from pyspark import java_gateway

    def preexec() -> None:
        # As PySpark does.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with jvm_without_sigterm():
        inside = java_gateway.Popen(["sleep", "60"], preexec_fn=preexec, stdin=subprocess.PIPE)
    after = java_gateway.Popen(["sleep", "60"], preexec_fn=preexec)
    try:
        assert _ignores(inside, signal.SIGTERM)
        assert _ignores(inside, signal.SIGINT)
        assert not _ignores(after, signal.SIGTERM)
    finally:
        for process in (inside, after):
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def test_the_output_of_the_jvm_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from pyspark import java_gateway

    output = tmp_path / "spark.log"
    output.write_text("earlier\n")
    with jvm_without_sigterm(output):
        java_gateway.Popen(["sh", "-c", "echo inside >&2; echo out"]).wait()
    java_gateway.Popen(["sh", "-c", "echo after >&2; echo out after"]).wait()
    assert output.read_text() == "earlier\ninside\nout\n"
    assert capfd.readouterr() == ("out after\n", "after\n")
