"""kafka-groups: lists groups of all types."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.support import group_view
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tables import columns, fitted
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool
from headrace.client.cluster_client import ClusterClient

_TYPES = ("classic", "consumer", "share")
OPTIONS = (
    *CONNECTION,
    Option("list", "List the groups."),
    Option("group-type", "Only groups of this type: classic, consumer or share.", "type"),
    Option("protocol", "Only groups of this protocol type.", "protocol"),
    Option("consumer", "Only groups whose members are consumers."),
    Option("share", "Only share groups."),
)


def check(arguments: Arguments) -> None:
    arguments.exactly_one("list")
    kind = str(arguments["group-type"] or "classic").lower()
    if kind not in _TYPES:
        raise UsageError("--group-type must be a valid group type.")
    if arguments["consumer"] and arguments["share"]:
        raise UsageError("Only one of [consumer] and [share] can be used")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    groups = await group_view.listed(client)
    if arguments.given("group-type"):
        groups = [g for g in groups if g.type.lower() == arguments["group-type"].lower()]
    if arguments.given("protocol"):
        groups = [g for g in groups if g.protocol_type == arguments["protocol"]]
    if arguments["consumer"]:
        groups = [
            g for g in groups if g.type == "Consumer" or (g.type == "Classic" and g.protocol_type in ("consumer", ""))
        ]
    if arguments["share"]:
        groups = [g for g in groups if g.type == "Share"]
    rows: list[list[object]] = [["GROUP", "TYPE", "PROTOCOL"]]
    rows += [[g.id, g.type, g.protocol_type] for g in groups]
    print(columns(rows, fitted(rows, [22, 22, 22]), pad_last=True))


TOOL = Tool("List groups of every type.", OPTIONS, run, check=check)

if __name__ == "__main__":
    sys.exit(TOOL.main())
