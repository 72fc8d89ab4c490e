"""Each demo's pipeline gives the result of a computation without Spark, and a broken pipeline is noticed."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.demos.catalogue import Demo, demos
from headrace.demos.run import DemoRun
from headrace.testing.process import broker_process
from tests.support.effort import is_long

# One change that breaks each pipeline: (text in the transformation, what replaces it).
MUTATIONS = {
    "social": ('f.col("kind") == "likes"', 'f.col("kind") == "comments"'),
    "campaign": ("interval 30 minutes", "interval 1 millisecond"),
    "movieflix": ("title <> title2", "title < title2"),
    "taxi": ('f.min(f.struct("km"', 'f.max(f.struct("km"'),
    "cep": ("interval 1 second", "interval 9 seconds"),
    "metrics": ("cpu > 95", "cpu > 90"),
    "logs": ("UNREADABLE", "LOST"),
}


RECORDS = 800


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with broker_process() as running:
        yield running.bootstrap


def run(demo: Demo, bootstrap: str, storage: Path, spark: Any, *, patience_s: float = 180) -> tuple[bool, str]:
    screen = io.StringIO()
    one = DemoRun(demo, bootstrap, storage, Console(file=screen, width=200), spark, patience_s=patience_s)
    one.prepare()
    try:
        return one.run_once(RECORDS), screen.getvalue()
    finally:
        one.client.close()


@pytest.mark.parametrize("name", demos())
def test_result_equals_a_computation_without_spark(name: str, bootstrap: str, tmp_path: Path, spark: Any) -> None:
    right, screen = run(demos()[name], bootstrap, tmp_path, spark)
    assert right, screen
    assert "equal a computation without Spark" in screen


def test_every_demo_has_a_mutation() -> None:
    assert set(MUTATIONS) == set(demos())
    for name, (text, _) in MUTATIONS.items():
        assert text in (demos()[name].directory / "transformations" / f"{name}.py").read_text()


@pytest.mark.skipif(not is_long(), reason="one broken pipeline per demo: HEADRACE_EFFORT=long")
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_transformation_is_noticed(name: str, tmp_path: Path, spark: Any) -> None:
    shutil.copytree(demos()[name].directory, tmp_path / "demo")
    file = tmp_path / "demo" / "transformations" / f"{name}.py"
    file.write_text(file.read_text().replace(*MUTATIONS[name]))
    broken = replace(demos()[name], directory=tmp_path / "demo")
    with broker_process() as running:
        right, screen = run(broken, running.bootstrap, tmp_path / "storage", spark, patience_s=30)
    assert not right and "the results differ" in screen


def test_every_directory_can_be_copied() -> None:
    for demo in demos().values():
        for name in ("README.md", "data.yml", "spark-pipeline.yml", "check.py", f"transformations/{demo.name}.py"):
            assert (demo.directory / name).is_file(), f"{demo.name} has no {name}"
