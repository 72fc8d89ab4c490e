"""The command line `headrace`, one file per command. In reading order:

`app`           the program: commands by name, imported when used
`topics`, `produce`, `consume`, `groups`, `configs`, `quotas`, `transactions`   daily work with a cluster
`acl`           access control lists and roles
`cluster`, `doctor`, `bench`   the state of a cluster, its problems, its speed
`top`           a cluster in a full-screen terminal view
`start`, `up`   one broker; a development cluster
`security`      certificates, users and settings of a secured cluster
`registry`      the schema registry, and the schemas in one
`services`      the web console and the HTTP API
`datagen`       test data
`context`       named clusters
`log`           the files of a log directory
`pipeline`, `mirror`   pipelines on Spark
`connect`              Kafka Connect: configurations, REST interface
`lake`          topics as tables, SQL over topics and tables
`kafka`         Kafka's own tools, which are in `kafka_tools`
`records`       positions, reading, filters, text and files of records
`facts`         facts about topics and groups
`checks`        the checks of `doctor`
`support`       code that commands share: connection, output, errors
"""

from __future__ import annotations

import gc
import sys
from typing import Final

from headrace.cli.support.broken_pipe import open_streams

# Packages of the extra `headrace[spark]`. A broker and its commands do not need them.
_OF_SPARK: Final = ("pyspark", "pandas", "pyarrow", "google", "fastavro", "deltalake", "psycopg", "duckdb")


def main() -> None:
    """`headrace …`. Imports a command when it runs: `start` serves before a parser library would be loaded.

    Exit codes: 0 success, 1 failure, 2 wrong usage. An expected error is one sentence on stderr.
    """
    # Imports make no garbage, but garbage collection takes a seventh of a short command's time. It is turned on again
    # when the command is loaded (`LazyCommands`) or the broker serves (`serve_in_foreground`).
    gc.disable()
    open_streams()
    arguments = sys.argv[1:]
    if arguments[:1] == ["start"]:
        from headrace.cli.start import run

        sys.exit(run(arguments[1:]))
    from headrace.cli.app import app
    from headrace.cli.kafka_tools.support.tool import ToolFailed
    from headrace.cli.support.user_errors import EXPECTED, sentence
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
