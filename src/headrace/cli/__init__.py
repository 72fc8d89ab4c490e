"""The command line: one file per command; `kafka_tools/` holds the look-alikes behind `bin/kafka-*.sh`."""

from __future__ import annotations

import gc
import sys
from typing import Final

from headrace.cli.gone_reader import open_streams

# What the extra `headrace[spark]` brings; a broker and its commands do without.
_OF_SPARK: Final = ("pyspark", "pandas", "numpy", "pyarrow", "google", "fastavro", "deltalake", "psycopg")


def main() -> None:
    """`headrace …`. A command is imported when it is run: `start` serves before a parser library would be loaded.

    0 done · 1 the thing failed · 2 the call was wrong. Expected trouble is one sentence on stderr.
    """
    # Loading modules makes no garbage, and looking for some takes a seventh of a short command's time. The collector is
    # turned on again when the command is loaded (`LazyCommands`), or the broker serves (`serve_in_foreground`).
    gc.disable()
    open_streams()
    arguments = sys.argv[1:]
    if arguments[:1] == ["start"]:
        from headrace.cli.start import run

        sys.exit(run(arguments[1:]))
    from headrace.cli.app import app
    from headrace.cli.kafka_tools.running import ToolFailed
    from headrace.cli.trouble import EXPECTED, sentence
    from headrace.kernel.errors import Fault

    try:
        app()
    except (ToolFailed, Fault, *EXPECTED) as error:
        print(f"headrace: {sentence(error)}", file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _OF_SPARK:
            raise
        print(f"headrace: this command needs {missing}: pip install 'headrace[spark]'", file=sys.stderr)
        sys.exit(1)
