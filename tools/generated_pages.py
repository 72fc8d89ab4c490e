"""Writes every page that is generated from the code, or with --check says which are out of date."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

GENERATORS = (
    "headrace.config.reference",
    "headrace.telemetry.reference",
    "headrace.handlers.compatibility",
    "headrace.cli.reference",
)


def main(arguments: list[str]) -> int:
    there = [name for name in GENERATORS if importlib.util.find_spec(name) is not None]
    return max(subprocess.run([sys.executable, "-m", name, *arguments], check=False).returncode for name in there)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
