"""`headrace cluster status|brokers|disks|features`: brokers of a cluster and their state."""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from headrace.cli.facts.topic_facts import log_dirs
from headrace.cli.support.connection import Bootstrap, Output, Timeout, connected, existing_topics
from headrace.cli.support.output import Format, show, show_one, size_text
from headrace.client.cluster_client import ClusterClient, Node
from headrace.kernel.errors import ErrorCode, Fault
from headrace.wire.apis import ApiKey

app = typer.Typer(no_args_is_help=True, help="Brokers, controller, in-sync replicas, log directories.")


class BrokerRow(TypedDict):
    broker: int
    address: str
    rack: str | None
    controller: bool
    leads: int
    replicas: int
    in_sync: int
    state: str


class UnhealthyPartition(TypedDict):
    partition: str
    state: str
    leader: int | None
    replicas: list[int]
    isr: list[int]
    missing: list[int]


class ClusterStatus(TypedDict):
    cluster_id: str | None
    controller: int
    brokers: list[BrokerRow]
    topics: int
    partitions: int
    under_replicated: int
    offline: int
    unhealthy_partitions: list[UnhealthyPartition]


class DiskRow(TypedDict):
    broker: int
    directory: str
    partitions: int
    held: int
    total: int | None
    free: int | None
    error: str | None


async def broker_rows(client: ClusterClient) -> list[BrokerRow]:
    """Each registered broker with its leaders and replicas, and whether its advertised address answers."""
    topics = await existing_topics(client, None)
    partitions = [p for topic in topics for p in topic.partitions]
    nodes = {**await _away(client), **client.metadata.nodes}
    rows: list[BrokerRow] = []
    for node in sorted(nodes.values(), key=lambda n: n.id):
        try:
            if node.id in client.metadata.nodes:
                await client.connection(node.id)
                state = "up"
            else:
                state = "down"
        except Fault as fault:
            state = f"unreachable: {fault.message}"
        rows.append(
            {
                "broker": node.id,
                "address": f"{node.host}:{node.port}",
                "rack": node.rack,
                "controller": node.id == client.metadata.controller_id,
                "leads": sum(int(p.leader_id) == node.id for p in partitions),
                "replicas": sum(node.id in p.replica_nodes for p in partitions),
                "in_sync": sum(node.id in p.isr_nodes for p in partitions),
                "state": state,
            }
        )
    return rows


async def _away(client: ClusterClient) -> dict[int, Node]:
    """Brokers that are registered but not running; empty if the cluster does not report them."""
    body = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
    try:
        found = await client.request(ApiKey.DESCRIBE_CLUSTER, body)
    except Fault:
        return {}
    fenced = [one for one in found.brokers if getattr(one, "is_fenced", False)]
    return {int(one.broker_id): Node(int(one.broker_id), one.host, int(one.port), one.rack) for one in fenced}


async def unhealthy_partitions(client: ClusterClient) -> list[UnhealthyPartition]:
    """Partitions without a leader or with replicas out of sync."""
    found: list[UnhealthyPartition] = []
    for topic in await existing_topics(client, None):
        for p in topic.partitions:
            missing = sorted({*map(int, p.replica_nodes)} - {*map(int, p.isr_nodes)})
            if missing or int(p.leader_id) < 0:
                found.append(
                    {
                        "partition": f"{topic.name}-{p.partition_index}",
                        "state": "offline" if int(p.leader_id) < 0 else "under-replicated",
                        "leader": int(p.leader_id) if p.leader_id >= 0 else None,
                        "replicas": [int(n) for n in p.replica_nodes],
                        "isr": [int(n) for n in p.isr_nodes],
                        "missing": missing,
                    }
                )
    return found


@app.command()
def status(
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 1 if a broker is down, or a partition is offline or under-replicated."),
    ] = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show brokers, controller, under-replicated and offline partitions.

    $ headrace cluster status

    $ headrace cluster status --check -o json
    """

    async def action(client: ClusterClient) -> ClusterStatus:
        brokers = await broker_rows(client)
        unhealthy = await unhealthy_partitions(client)
        return {
            "cluster_id": client.metadata.cluster_id,
            "controller": client.metadata.controller_id,
            "brokers": brokers,
            "topics": len(client.metadata.topics),
            "partitions": sum(len(t.partitions) for t in client.metadata.topics.values()),
            "under_replicated": sum(p["state"] == "under-replicated" for p in unhealthy),
            "offline": sum(p["state"] == "offline" for p in unhealthy),
            "unhealthy_partitions": unhealthy,
        }

    found = connected(bootstrap, action, timeout=timeout)
    healthy = not found["unhealthy_partitions"] and all(b["state"] == "up" for b in found["brokers"])
    if output is not Format.TABLE:
        show_one(found, output)
    else:
        brokers, unhealthy = found["brokers"], found["unhealthy_partitions"]
        facts = {name: value for name, value in found.items() if name not in ("brokers", "unhealthy_partitions")}
        show_one({**facts, "healthy": "yes" if healthy else "no"}, output)
        typer.echo("")
        show([{**b, "controller": "*" if b["controller"] else ""} for b in brokers], output)
        if unhealthy:
            typer.echo("")
            show(unhealthy, output)
    raise typer.Exit(1 if check and not healthy else 0)


@app.command()
def brokers(bootstrap: Bootstrap = None, output: Output = Format.TABLE, timeout: Timeout = 10.0) -> None:
    """List the brokers.

    $ headrace cluster brokers -o yaml
    """
    show(connected(bootstrap, broker_rows, timeout=timeout), output)


@app.command()
def disks(bootstrap: Bootstrap = None, output: Output = Format.TABLE, timeout: Timeout = 10.0) -> None:
    """Show the log directories with their used and free space.

    $ headrace cluster disks
    """
    rows = connected(bootstrap, disk_rows, timeout=timeout)
    show([_with_sizes_as_text(row) for row in rows] if output is Format.TABLE else rows, output)


def _with_sizes_as_text(row: DiskRow) -> dict[str, object]:
    sizes = {"held": row["held"], "total": row["total"], "free": row["free"]}
    return {**row, **{name: None if size is None else size_text(size) for name, size in sizes.items()}}


async def disk_rows(client: ClusterClient) -> list[DiskRow]:
    rows: list[DiskRow] = []
    for node, directories in (await log_dirs(client)).items():
        for directory in directories:
            total, usable = int(getattr(directory, "total_bytes", -1)), int(getattr(directory, "usable_bytes", -1))
            rows.append(
                {
                    "broker": node,
                    "directory": str(directory.log_dir),
                    "partitions": sum(len(t.partitions) for t in directory.topics),
                    "held": sum(int(p.partition_size) for t in directory.topics for p in t.partitions),
                    "total": total if total >= 0 else None,
                    "free": usable if usable >= 0 else None,
                    "error": ErrorCode(directory.error_code).name if directory.error_code else None,
                }
            )
    return rows
