"""`headrace start [FILE.properties] [--set key=value]… [--data DIR] [--listen HOST:PORT] [--cores N]`: a broker in the
foreground, in one process or in several.

Prints one line when it serves. SIGTERM and SIGINT shut it down cleanly; a second signal stops it at once. An error of
the user (a wrong key, a port in use, a locked directory) is one sentence and a non-zero exit code. The module imports
only what a broker needs, so that the broker serves in well under half a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headrace.cli.support.broken_pipe import ignore_closed_pipe

# The process started a little before this module was imported.
_STARTED: Final = time.perf_counter()

USAGE: Final = """\
usage: headrace start [FILE.properties] [--set KEY=VALUE]... [--data DIR] [--listen HOST:PORT] [--cores N] [--quiet]

Runs a broker in the foreground: one process, or a unit of several.

  FILE.properties     a Kafka server.properties
  --set KEY=VALUE     one setting, over the file's (also --override)
  --data DIR          where the logs and the broker's own state are kept
  --listen HOST:PORT  where it listens; port 0 takes a free one. Beyond this machine: PLAINTEXT://HOST:PORT
  --cores N|auto      N broker processes, one per core, on ports in a row; auto takes all cores (broker.processes)
  --quiet             warnings and errors only"""


_WITH_VALUE: Final = ("--set", "--override", "--data", "--listen", "--cores")
_OPTIONS: Final = (*_WITH_VALUE, "--quiet", "--help")


class UsageError(Exception):
    pass


class Arguments(NamedTuple):
    file: str | None
    settings: dict[str, str]
    quiet: bool
    stops_with_input: bool  # of a demo or another command that starts a broker; not for users


def parse_arguments(arguments: Sequence[str]) -> Arguments:
    """Parsed by hand: the command has four options, and a parser library would take a third of the start-up time."""
    from headrace.config import listener_from_argument
    from headrace.kernel import parent_process

    file: str | None = None
    quiet = stops_with_input = False
    settings: dict[str, str] = {}
    left = list(arguments)
    while left:
        word = left.pop(0)
        name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _WITH_VALUE:
            if not has_value:
                if not left:
                    raise UsageError(f"{name} needs a value")
                value = left.pop(0)
            if name == "--data":
                settings["log.dirs"] = value
            elif name == "--cores":
                settings["broker.processes"] = value.strip()
            elif name == "--listen":
                settings["listeners"] = listener_from_argument(value)
            else:
                key, equals, setting = value.partition("=")
                if not equals or not key.strip():
                    raise UsageError(f"{name} {value}: must be KEY=VALUE")
                settings[key.strip()] = setting.strip()
        elif word == "--quiet":
            quiet = True
        elif word == parent_process.OPTION:
            stops_with_input = True
        elif word.startswith("-"):
            from headrace.cli.support.spelling import nearest

            raise UsageError(f"{word}: no such option.{nearest(name, _OPTIONS)}")
        elif file is None:
            file = word
        else:
            raise UsageError(f"{word}: one properties file is enough")
    return Arguments(file, settings, quiet, stops_with_input)


def run(arguments: Sequence[str]) -> int:
    """Runs the broker. Returns the exit code."""
    if "--help" in arguments or "-h" in arguments:
        with ignore_closed_pipe():
            print(USAGE)
        return 0
    from headrace.config import ConfigError, load_broker_config, read_properties

    try:
        parsed = parse_arguments(arguments)
        properties = dict(read_properties(Path(parsed.file))) if parsed.file is not None else {}
        config = load_broker_config(properties | parsed.settings)
    except UsageError as error:
        print(f"headrace: {error}\n{USAGE}", file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"headrace: cannot read {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    if parsed.stops_with_input:
        from headrace.kernel import parent_process

        parent_process.stop_with_input()
    if config.processes is not None:
        # Also --cores 1: the data may be those of a unit, which then becomes one process.
        from headrace.unit.supervisor import run_unit

        return run_unit(config, started=_STARTED, quiet=parsed.quiet)
    from headrace.broker.foreground import serve_in_foreground

    return serve_in_foreground(config, started=_STARTED, quiet=parsed.quiet)
