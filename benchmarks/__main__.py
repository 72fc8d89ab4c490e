"""`python -m benchmarks [NAME…] [--rounds N] [--json DIR]`: runs the named suites, or all."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path

from benchmarks.report import show

SUITES = (
    "broker",
    "large_broker",
    "authorization",
    "security",
    "groups",
    "loading",
    "transactions",
    "cluster",
    "cli",
    "registry",
    "serialization",
    "python_kit",
    "datagen",
    "http_api",
    "sql",
    "tables",
    "pipelines",
    "connectors",
    "change_capture",
)
IN_PARTS = ("pipelines", "connectors", "tables")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", default=list(SUITES), choices=[*SUITES, []])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("build/bench"))
    parser.add_argument(
        "--rows",
        default="",
        help="Parts of the suites `pipelines`, `connectors` and `tables`, separated by commas: flat,count.",
    )
    given = parser.parse_args()
    for name in given.suites or SUITES:
        suite = importlib.import_module(f"benchmarks.{name}")
        with tempfile.TemporaryDirectory(prefix=f"headrace-bench-{name}-") as directory:
            chosen = {"parts": given.rows.split(",")} if given.rows and name in IN_PARTS else {}
            rows = suite.run(Path(directory), rounds=given.rounds, **chosen)
        show(f"{name} ({given.rounds} rounds, medians)", rows, file=given.json / f"{name}.json")


if __name__ == "__main__":
    main()
