"""Runs demos in this process, on a given broker."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

from rich.console import Console

from headrace.demos.catalogue import Demo, demos
from headrace.demos.errors import DemoFailed
from headrace.demos.processes import Brokers
from headrace.demos.run import DemoRun


def run_once(
    demo: Demo,
    bootstrap: str,
    data: Path,
    *,
    records: int,
    spark: Any = None,
    brokers: Brokers | None = None,
    patience_s: float = 180,
    settled_s: float = 30,
) -> tuple[bool, str]:
    """Whether the results are right, and what a person would see. A failed demo is wrong."""
    screen = io.StringIO()
    data.mkdir(parents=True, exist_ok=True)
    console = Console(file=screen, width=200)
    one = DemoRun(demo, bootstrap, data, console, spark, patience_s=patience_s, records=records, brokers=brokers)
    one.settled_s = settled_s
    one.prepare()
    try:
        return one.run_once(), screen.getvalue()
    except DemoFailed as failed:
        return False, f"{screen.getvalue()}{failed}"
    finally:
        one.close()


def mutated(name: str, file: str, text: str, replacement: str, directory: Path) -> Demo:
    """A copy of a demo with one change in its code."""
    copytree(demos()[name].directory, directory)
    changed = directory / file
    before = changed.read_text()
    assert before.count(text) >= 1, f"{name}/{file} has no {text!r}"
    changed.write_text(before.replace(text, replacement))
    return replace(demos()[name], directory=directory)
