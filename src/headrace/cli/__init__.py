"""The command line: one file per command; `kafka_tools/` holds the look-alikes behind `bin/kafka-*.sh`."""

from __future__ import annotations

import sys


def main() -> None:
    """`headrace …`. A command is imported when it is run: `start` serves before a parser library would be loaded."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["start"]:
        from headrace.cli.start import run

        sys.exit(run(arguments[1:]))
    from headrace.cli.app import app

    app()
