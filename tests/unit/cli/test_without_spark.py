"""Without the extra `spark` brokers and commands work, and pipeline commands name the missing extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_SPARK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pandas", "numpy", "pyarrow", "deltalake", "psycopg", "fastavro"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_SPARK)
    return {**os.environ, "PYTHONPATH": str(tmp_path), "HEADRACE_BOOTSTRAP": "127.0.0.1:1"}


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *words], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("verb", ["run", "check"])
def test_pipeline_command_names_the_missing_extra(environment: dict[str, str], tmp_path: Path, verb: str) -> None:
    assert run(environment, "pipeline", "init", str(tmp_path / "orders")).returncode == 0
    ran = run(environment, "pipeline", verb, str(tmp_path / "orders"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1] == "headrace: this command needs pyspark: pip install 'headrace[spark]'"
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", ["topics", "consume", "up", "start"])
def test_other_commands_work_without_spark(environment: dict[str, str], command: str) -> None:
    ran = run(environment, command, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
