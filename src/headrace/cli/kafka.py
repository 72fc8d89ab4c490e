"""`headrace kafka TOOL …`: Kafka's own command-line tools for an installed package, which has no `bin/`."""

from __future__ import annotations

import runpy
import sys
from typing import Annotated, Final

import typer

from headrace.cli.support.spelling import nearest

# Name of Kafka's script without `kafka-` and `.sh` → module in `kafka_tools`.
TOOLS: Final = {
    "acls": "acls",
    "avro-console-consumer": "schema_consoles.avro_console_consumer",
    "avro-console-producer": "schema_consoles.avro_console_producer",
    "broker-api-versions": "broker_api_versions",
    "client-metrics": "client_metrics",
    "cluster": "cluster",
    "configs": "configs",
    "console-consumer": "console_consumer",
    "console-producer": "console_producer",
    "console-share-consumer": "console_share_consumer",
    "consumer-groups": "consumer_groups",
    "consumer-perf-test": "consumer_perf",
    "delegation-tokens": "delegation_tokens",
    "delete-records": "delete_records",
    "dump-log": "dump_log",
    "e2e-latency": "e2e_latency",
    "features": "features",
    "get-offsets": "get_offsets",
    "groups": "groups",
    "json-schema-console-consumer": "schema_consoles.json_schema_console_consumer",
    "json-schema-console-producer": "schema_consoles.json_schema_console_producer",
    "leader-election": "leader_election",
    "log-dirs": "log_dirs",
    "producer-perf-test": "producer_perf",
    "protobuf-console-consumer": "schema_consoles.protobuf_console_consumer",
    "protobuf-console-producer": "schema_consoles.protobuf_console_producer",
    "reassign-partitions": "reassign_partitions",
    "replica-verification": "replica_verification",
    "run-class": "run_class",
    "server-start": "server_start",
    "server-stop": "server_stop",
    "share-groups": "share_groups",
    "storage": "storage",
    "streams-groups": "streams_groups",
    "topics": "topics",
    "transactions": "transactions",
    "verifiable-consumer": "verifiable_consumer",
    "verifiable-producer": "verifiable_producer",
    "zookeeper-server-start": "zookeeper_start",
    "zookeeper-server-stop": "zookeeper_stop",
    "zookeeper-shell": "zookeeper_shell",
}

app = typer.Typer()


def complete_tool(incomplete: str) -> list[str]:
    return [name for name in TOOLS if name.startswith(incomplete)]


# The tools parse their own options, including `--help`.
_PASS_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(context_settings=_PASS_ON, add_help_option=False)
def kafka(
    ctx: typer.Context,
    tool: Annotated[
        str | None, typer.Argument(help="Name of the tool, followed by its options.", autocompletion=complete_tool)
    ] = None,
) -> None:
    """Run one of Kafka's command-line tools: `kafka-topics.sh …` is `headrace kafka topics …`.

    Without a tool it lists the tools.

    $ headrace kafka

    $ headrace kafka topics --bootstrap-server localhost:9092 --list

    $ headrace kafka consumer-groups --bootstrap-server localhost:9092 --list
    """
    if tool in (None, "--help", "-h"):
        typer.echo("usage: headrace kafka TOOL [OPTION]...    (headrace kafka TOOL --help explains one)\n")
        typer.echo("\n".join(f"  {name}" for name in TOOLS))
        return
    if tool not in TOOLS:
        typer.echo(f"headrace kafka: there is no tool {tool!r}.{nearest(str(tool), TOOLS)}", err=True)
        raise typer.Exit(2)
    # A tool reads sys.argv and exits like a program, because bin/ runs the same module with `python -m`.
    sys.argv[1:] = ctx.args
    runpy.run_module(f"headrace.cli.kafka_tools.{TOOLS[tool]}", run_name="__main__", alter_sys=True)
