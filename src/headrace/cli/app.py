"""`headrace`: one program. Commands are groups of their own, one file each, loaded when one of them is asked for."""

from __future__ import annotations

import importlib
from typing import Final

import typer
from typer.core import TyperGroup

# Command → (module, what it is for). `start` is answered before this module is loaded.
COMMANDS: Final = {
    "log": ("headrace.cli.log", "Look into log directories, check them, repair them."),
    "pipeline": ("headrace.cli.pipeline", "Data pipelines on Spark."),
    "mirror": ("headrace.cli.mirror", "Copy topics from one cluster to another."),
    "demo": ("headrace.cli.demo", "Runnable demonstrations."),
}


class LazyCommands(TyperGroup):
    """Knows every command by name and help line; imports the one that is used."""

    def list_commands(self, ctx: object) -> list[str]:
        return sorted([*COMMANDS, *super().list_commands(ctx)])  # type: ignore[arg-type]

    def get_command(self, ctx: object, cmd_name: str):  # type: ignore[no-untyped-def]
        if cmd_name in COMMANDS:
            module = importlib.import_module(COMMANDS[cmd_name][0])
            command = typer.main.get_command(module.app)
            command.name = cmd_name
            return command
        return super().get_command(ctx, cmd_name)  # type: ignore[arg-type]


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    help="Headrace: a Kafka-compatible streaming platform.",
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Headrace: a Kafka-compatible streaming platform whose data pipelines run on Spark."""


@app.command()
def version() -> None:
    """The version."""
    from headrace import __version__

    typer.echo(f"headrace {__version__} (speaks Kafka 4.3)")
