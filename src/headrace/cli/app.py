"""The program `headrace`. Each command has its own file, which is imported when the command is used."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperCommand, TyperGroup

from headrace.cli.support import option_values
from headrace.cli.support.broken_pipe import ignore_closed_pipe
from headrace.cli.support.client_settings import add_option

if TYPE_CHECKING:
    from typer._click.core import Command, Context

# Command → (module, help line). `start` runs before this module is imported.
COMMANDS: Final = {
    "topics": ("headrace.cli.topics", "List, describe, create, grow, empty, delete and plan topics."),
    "produce": ("headrace.cli.produce", "Send records from arguments, standard input or files."),
    "consume": ("headrace.cli.consume", "Read, filter, format, follow, count and export records."),
    "groups": ("headrace.cli.groups", "Groups: who they are, how far behind, and moving their positions."),
    "configs": ("headrace.cli.configs", "Read and change configurations of topics, brokers and groups."),
    "cluster": ("headrace.cli.cluster", "Brokers, controller, in-sync replicas, log directories."),
    "transactions": ("headrace.cli.transactions", "List, describe and end transactions."),
    "acl": ("headrace.cli.acl.command", "Access control lists: which principal may do what."),
    "quotas": ("headrace.cli.quotas", "Read and change client quotas."),
    "security": ("headrace.cli.security.command", "Certificates, users and settings of a secured cluster."),
    "bench": ("headrace.cli.bench", "Measure a cluster: produce, consume, latency."),
    "top": ("headrace.cli.top.command", "Watch a cluster in a full-screen view."),
    "doctor": ("headrace.cli.doctor", "Connect as a client would, and explain what is wrong."),
    "kafka": ("headrace.cli.kafka", "Kafka's own command-line tools."),
    "up": ("headrace.cli.up", "Run a development cluster in the foreground."),
    "context": ("headrace.cli.context", "Named clusters to switch between."),
    "log": ("headrace.cli.log.command", "Look into log directories, check them, repair them."),
    "pipeline": ("headrace.cli.pipeline.command", "Data pipelines on Spark."),
    "connect": ("headrace.cli.connect", "Kafka Connect's configurations and REST interface."),
    "tables": ("headrace.cli.lake.tables", "Topics as tables."),
    "sql": ("headrace.cli.lake.sql", "SQL over topics."),
    "mirror": ("headrace.cli.mirror", "Copy topics from one cluster to another."),
    "registry": ("headrace.cli.registry.command", "The schema registry."),
    "http": ("headrace.cli.services.http_api", "The HTTP API."),
    "schemas": ("headrace.cli.registry.schemas", "Schemas of a schema registry."),
    "console": ("headrace.cli.services.console", "The web console."),
    "monitoring": ("headrace.cli.services.monitoring", "Files for Prometheus and Grafana."),
    "datagen": ("headrace.cli.datagen", "Make test data from a plan."),
    "demo": ("headrace.demos.command", "Runnable demonstrations."),
    "snapshot": ("headrace.testing.snapshot_command", "A data directory as one file, for tests."),
    "chaos": ("headrace.testing.chaos.command", "Run an application under faults, and check what it did."),
}
option_values.install()
# A terminal gets boxes and colour. Pipes and files get plain text.
_MARKUP: Final = "markdown" if sys.stdout.isatty() else None


class LazyCommands(TyperGroup):
    """Lists all commands by name and help line; imports only the one that is used."""

    def list_commands(self, ctx: Context) -> list[str]:
        return sorted([*COMMANDS, *super().list_commands(ctx)])

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: object
    ) -> Context:
        """Also prints `--help`, so a closed pipe is handled here too."""
        with ignore_closed_pipe():
            return super().make_context(info_name, args, parent, **extra)
        raise typer.Exit(0)

    def invoke(self, ctx: Context) -> object:
        with ignore_closed_pipe():
            result: object = super().invoke(ctx)
            return result
        raise typer.Exit(0)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Suggests the nearest name for a misspelled command, Kafka's tools included."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            from headrace.cli.kafka import TOOLS
            from headrace.cli.support.spelling import nearest

            meant = f" Did you mean 'kafka {args[0]}'?" if args[0] in TOOLS else nearest(args[0], known)
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        command: Command | None
        if cmd_name in COMMANDS:
            command = load(cmd_name)
            _set_markup(command)
        else:
            command = super().get_command(ctx, cmd_name)
        # A command may run for days. Loaded modules stay in memory, so garbage collection can skip them.
        gc.freeze()
        gc.enable()
        return command


def load(name: str) -> Command:
    """Imports a command."""
    module = importlib.import_module(COMMANDS[name][0])
    # Completion is for the whole program, so only the program has its options.
    module.app._add_completion = False
    command = typer.main.get_command(module.app)
    command.name = name
    add_option(command)
    return command


def _set_markup(command: Command) -> None:
    if isinstance(command, TyperCommand | TyperGroup):
        command.rich_markup_mode = _MARKUP
    for inner in getattr(command, "commands", {}).values():
        _set_markup(inner)


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    help="Headrace: a Kafka-compatible streaming platform.",
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit(0)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Headrace: a Kafka-compatible streaming platform whose data pipelines run on Spark."""


@app.command()
def version(
    output: Annotated[str, typer.Option("--output", "-o", help="Output format: table, json or yaml.")] = "table",
) -> None:
    """The version.

    $ headrace version
    """
    from headrace import __version__
    from headrace.cli.support.output import Format, show_one

    if output == "table":
        typer.echo(f"headrace {__version__} (speaks Kafka 4.3)")
        return
    try:
        form = Format(output)
    except ValueError as error:
        raise typer.BadParameter(f"--output {output!r}: must be table, json or yaml") from error
    show_one({"headrace": __version__, "kafka": "4.3", "python": sys.version.split()[0]}, form)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def start(ctx: typer.Context) -> None:
    """Run a broker in the foreground: one process, or several with --cores N.

    $ headrace start --data data --listen 127.0.0.1:0
    """
    from headrace.cli.start import run

    raise typer.Exit(run(ctx.args))


@app.command()
def completion(shell: Annotated[str, typer.Argument(help="Shell: bash, zsh or fish.")]) -> None:
    """Print the completion script of a shell. It completes commands, options, topics and groups.

    $ headrace completion bash

    Put `eval "$(headrace completion bash)"` into ~/.bashrc.
    """
    from typer._completion_shared import get_completion_script

    if shell not in ("bash", "zsh", "fish"):
        raise typer.BadParameter(f"{shell!r}: must be bash, zsh or fish")
    typer.echo(get_completion_script(prog_name="headrace", complete_var="_HEADRACE_COMPLETE", shell=shell))
