"""Writes every page that is generated from the code. With --check it reports the pages that are out of date."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

GENERATORS = (
    "headrace.config.reference",
    "headrace.telemetry.reference",
    "headrace.handlers.dispatch.compatibility",
    "headrace.handlers.dispatch.rights_page",
    "headrace.cli.support.reference",
)


def main(arguments: list[str]) -> int:
    there = [["-m", name] for name in GENERATORS if importlib.util.find_spec(name) is not None]
    there += [[str(Path(__file__).with_name(name))] for name in ("message_types.py", "config_attributes.py")]
    return max(subprocess.run([sys.executable, *name, *arguments], check=False).returncode for name in there)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
