"""The example of a connector package is installed with pip and run by its name in a connector file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.effort import is_long

_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install` into a directory of its own, without the network."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    package = _ROOT / "examples" / "connector"
    subprocess.run([*command, "--target", str(target), str(package)], check=True, timeout=120)
    return target


def run(directory: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    places = [str(path)] if path else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*places, str(_ROOT / "src")])}
    environment.pop("HEADRACE_BOOTSTRAP", None)
    command = [sys.executable, "-m", "headrace.cli", "pipeline", "run", "squares.yml", "--once", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=240)


def numbers(directory: Path) -> list[int]:
    lines = [line for file in (directory / "out").glob("*.json") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["number"] for line in lines)


@pytest.mark.parametrize(
    "runners", [["--lite"], pytest.param([], marks=pytest.mark.skipif(not is_long(), reason="long"))]
)
def test_installed_package_is_a_source_and_a_sink(installed: Path, tmp_path: Path, runners: list[str]) -> None:
    file = tmp_path / "squares.yml"
    text = f"from:\n  counter: {{limit: %d}}\nto:\n  folder: {{path: {tmp_path}/out}}\n"
    file.write_text(text % 25)
    done = run(tmp_path, *runners, path=installed)
    assert done.returncode == 0, done.stderr
    assert "25 rows read, 25 written" in done.stderr
    assert numbers(tmp_path) == list(range(25))
    file.write_text(text % 32)
    assert "7 rows read, 7 written" in run(tmp_path, *runners, path=installed).stderr
    assert numbers(tmp_path) == list(range(32))


def test_package_that_is_not_installed_and_wrong_use_of_one_are_named(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "squares.yml"
    file.write_text("from:\n  counter: {}\nto: console\n")
    missing = run(tmp_path, "--lite")
    assert missing.returncode == 1
    assert "from: 'counter' is unknown: use topic, file, jdbc, cdc, s3, http, mqtt, lines" in missing.stderr
    file.write_text("from:\n  folder: {path: x}\nto: console\n")
    wrong = run(tmp_path, "--lite", path=installed)
    assert "squares.yml: from.folder: 'folder' is not a source: its class must inherit" in wrong.stderr
    file.write_text("from:\n  counter: {limt: 5}\nto: console\n")
    assert "'limt' is unknown (did you mean \"limit\"?)" in run(tmp_path, "--lite", path=installed).stderr
