"""Generates docs/cli.md from the commands. With --check it reports whether the page is outdated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.app import COMMANDS, app, load

if TYPE_CHECKING:
    from typer._click.core import Command

PAGE: Final = Path(__file__).parents[4] / "docs" / "cli.md"
_HEAD: Final = """\
# The command line

A command that reads prints a table. A command that changes something prints a sentence. With `-o json` or `-o yaml`
both print the same for programs (`done` says whether the command changed something). Commands print questions on
standard error; `--yes` answers them. Exit code 0 means success, 1 failure, 2 wrong usage. The address of the cluster is
`--bootstrap`, else `HEADRACE_BOOTSTRAP`, else the current context (`headrace context`), else 127.0.0.1:9092. The tools
of Kafka are in `bin/`.

This page is generated from the commands: `make docs`.
"""


def commands() -> Iterator[tuple[str, Command]]:
    """`topics ls` → the command, for all visible commands, sorted by name."""
    import typer

    own = typer.main.get_command(app)
    known: dict[str, Command] = getattr(own, "commands", {})
    for name in sorted({*known, *COMMANDS}):
        yield from _with_inner(name, load(name) if name in COMMANDS else known[name])


def _with_inner(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for sub in inner:
        if not inner[sub].hidden:
            yield from _with_inner(f"{name} {sub}", inner[sub])


def examples(command: Command) -> list[str]:
    """The example command lines in its help."""
    lines = (line.strip() for line in (command.help or "").splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def _section(name: str, command: Command) -> str:
    prose = [line.strip() for line in (command.help or "").splitlines() if not line.strip().startswith("$ ")]
    parts = [f"### headrace {name}\n", "\n".join(prose).strip() + "\n"]
    rows = []
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        is_option = parameter.param_type_name == "option"
        spelled = ", ".join(f"`{word}`" for word in parameter.opts) if is_option else f"`{str(parameter.name).upper()}`"
        rows.append(f"| {spelled} | {(getattr(parameter, 'help', None) or '').replace('|', chr(92) + '|')} |")
    if rows:
        parts.append("\n".join(["| | |", "|---|---|", *rows]) + "\n")
    if found := examples(command):
        parts.append("```sh\n" + "\n".join(found) + "\n```\n")
    return "\n".join(parts)


def page() -> str:
    return "\n".join([_HEAD, *(_section(name, command) for name, command in commands())])


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE} is out of date: run python -m headrace.cli.support.reference", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
