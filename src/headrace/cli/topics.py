"""`headrace topics …`: list, describe, create, grow, empty, delete and plan topics."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

import typer

from headrace.cli.facts.topic_facts import PartitionRow, TopicRow, partition_rows, topic_rows
from headrace.cli.facts.topic_sizing import Demand
from headrace.cli.facts.topic_sizing import plan as plan_topic
from headrace.cli.support.change_report import report, report_one, verb
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Output,
    SomeTopics,
    Timeout,
    Topic,
    Topics,
    Yes,
    check_answer,
    connected,
    existing_topics,
    key_values,
    sure,
)
from headrace.cli.support.output import Format, show, show_one, size_text, wrapped
from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import LATEST, list_offsets
from headrace.kernel.errors import Fault
from headrace.kernel.ids import INTERNAL_TOPICS, TopicPartition
from headrace.kernel.internal_topics import loss, refusal
from headrace.kernel.plurals import counted
from headrace.wire.apis import ApiKey

TIMEOUT_MS: Final = 30_000


class CreatedTopic(TypedDict):
    topic: str
    partitions: int
    replication_factor: int
    existed: bool
    done: bool


class DeletedTopic(TypedDict):
    topic: str
    partitions: int
    records: int
    done: bool


class EmptiedPartition(TypedDict):
    partition: str
    before: int
    done: bool


app = typer.Typer(no_args_is_help=True, help="List, describe, create, grow, empty, delete and plan topics.")


@app.command("ls")
def ls(
    bootstrap: Bootstrap = None,
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics, too.")] = False,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """List topics with partitions, replicas, records and health.

    $ headrace topics ls

    $ headrace topics ls -o json
    """

    async def action(client: ClusterClient) -> list[TopicRow]:
        topics = [t for t in await existing_topics(client, None) if internal or str(t.name) not in INTERNAL_TOPICS]
        return await topic_rows(client, topics)

    rows = connected(bootstrap, action, timeout=timeout)
    if output is Format.TABLE:
        # Only programs get the topic id. A terminal has no room for it.
        shown = [{**{k: v for k, v in row.items() if k != "id"}, "size": size_text(row["size"])} for row in rows]
    show(shown if output is Format.TABLE else rows, output, empty="no topics yet: headrace topics create NAME")


@app.command()
def describe(
    topics: Topics = None, bootstrap: Bootstrap = None, output: Output = Format.TABLE, timeout: Timeout = 10.0
) -> None:
    """Show each partition: leader, replicas, in-sync replicas, offsets.

    $ headrace topics describe orders
    """

    async def action(client: ClusterClient) -> list[PartitionRow]:
        return await partition_rows(client, await existing_topics(client, topics))

    show(connected(bootstrap, action, timeout=timeout), output)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the new topic.")],
    partitions: Annotated[int | None, typer.Option("--partitions", "-p", min=1, help="Number of partitions.")] = None,
    replication: Annotated[int | None, typer.Option("--replication", "-r", min=1, help="Replication factor.")] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="Topic setting NAME=VALUE. You can repeat it.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail if the topic already exists.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Create a topic. The broker's defaults apply to options that you do not set.

    $ headrace topics create payments -p 6 -c retention.ms=86400000
    """
    settings = [{"name": key, "value": value} for key, value in key_values(config, "--config").items()]
    topic = {
        "name": name, "num_partitions": partitions or -1, "replication_factor": replication or -1,
        "assignments": [], "configs": settings,
    }  # fmt: skip

    async def action(client: ClusterClient) -> CreatedTopic:
        known = (await client.refresh(None)).topics
        if name in known:
            count = len(known[name].partitions)
            if not if_not_exists:
                raise Failed(f"topic {name!r} exists already, with {counted(count, 'partition')}")
            replicas = max((len(p.replica_nodes) for p in known[name].partitions), default=0)
            return {"topic": name, "partitions": count, "replication_factor": replicas, "existed": True, "done": False}
        body = {"topics": [topic], "timeout": TIMEOUT_MS, "validate_only": dry_run}
        result = (await client.to_controller(ApiKey.CREATE_TOPICS, body)).topics[0]
        check_answer(result, f"topic {name}")
        return {
            "topic": name,
            "partitions": int(getattr(result, "num_partitions", partitions or -1)),
            "replication_factor": int(getattr(result, "replication_factor", replication or -1)),
            "existed": False,
            "done": not dry_run,
        }

    row = connected(bootstrap, action, timeout=timeout)
    size = f"{counted(row['partitions'], 'partition')} x {counted(row['replication_factor'], 'replica')}"
    did = f"{verb(row, 'created', 'create')} topic {name}: {size}"
    report_one(row, output, f"topic {name} exists already: {size}" if row["existed"] else did)


@app.command()
def grow(
    topic: Topic,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="New number of partitions.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Add partitions. It asks first, because keys then go to other partitions than before.

    $ headrace topics grow orders -p 8 --yes
    """

    async def action(client: ClusterClient) -> dict[str, object]:
        now = len((await existing_topics(client, [topic]))[0].partitions)
        if partitions <= now:
            raise Failed(f"topic {topic!r} has {counted(now, 'partition')}: it can only grow")
        if not dry_run:
            sure(
                f"Grow {topic} from {now} to {counted(partitions, 'partition')}? Keys will go to other partitions.", yes
            )
        wanted = {"name": topic, "count": partitions, "assignments": None}
        body = {"topics": [wanted], "timeout": TIMEOUT_MS, "validate_only": dry_run}
        check_answer((await client.to_controller(ApiKey.CREATE_PARTITIONS, body)).results[0], f"topic {topic}")
        return {"topic": topic, "from": now, "to": partitions, "done": not dry_run}

    row = connected(bootstrap, action, timeout=timeout)
    report_one(
        row, output, f"{verb(row, 'grew', 'grow')} {topic} from {row['from']} to {counted(partitions, 'partition')}"
    )


@app.command()
def rm(
    topics: SomeTopics,
    internal: Annotated[
        bool, typer.Option("--internal", help="Delete internal topics too. The command says what is lost.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Delete topics and all their records.

    $ headrace topics rm payments --yes
    """

    async def action(client: ClusterClient) -> list[DeletedTopic]:
        found = await existing_topics(client, topics)
        why_not = None if internal else refusal(topics, "--internal")
        if why_not is not None:
            raise Failed(why_not)
        rows: list[DeletedTopic] = [
            {"topic": row["topic"], "partitions": row["partitions"], "records": row["records"], "done": False}
            for row in await topic_rows(client, found)
        ]
        if dry_run:
            return rows
        sure(f"Delete {', '.join(topics)} for good?", yes, [_deletion(row) for row in rows])
        wanted = [{"name": name, "topic_id": None} for name in topics]
        answer = await client.to_controller(
            ApiKey.DELETE_TOPICS, {"topics": wanted, "topic_names": topics, "timeout": TIMEOUT_MS}
        )
        for result in answer.responses:
            check_answer(result, f"topic {result.name}")
        return [{**row, "done": True} for row in rows]

    report(connected(bootstrap, action, timeout=timeout), output, _deletion)


def _deletion(row: DeletedTopic) -> str:
    what = f"{counted(row['partitions'], 'partition')}, {counted(row['records'], 'record')}"
    return f"{verb(row, 'deleted', 'delete')} topic {row['topic']}: {what}{_with_them(row['topic'])}"


def _with_them(topic: str) -> str:
    lost = loss(topic)
    return "" if lost is None else f", and with them {lost}"


@app.command()
def empty(
    topic: Topic,
    before: Annotated[
        int | None, typer.Option("--before", min=0, help="Delete only records before this offset.")
    ] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Empty an internal topic too. The command says what is lost.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Delete all records of a topic and keep the topic.

    $ headrace topics empty orders --before 1 --dry-run
    """

    async def action(client: ClusterClient) -> list[EmptiedPartition]:
        await existing_topics(client, [topic])
        why_not = None if internal else refusal([topic], "--internal", only_records=True)
        if why_not is not None:
            raise Failed(why_not)
        leaders = await client.leaders([topic])
        ends = await list_offsets(client, dict.fromkeys(leaders, LATEST), leaders)
        targets: dict[TopicPartition, int] = {}
        for partition, found in ends.items():
            if isinstance(found, Fault):
                raise found
            targets[partition] = found.offset if before is None else min(before, found.offset)
        rows: list[EmptiedPartition] = [
            {"partition": str(p), "before": offset, "done": False} for p, offset in targets.items()
        ]
        if dry_run:
            return rows
        sure(f"Delete these records of {topic} for good?", yes, [_emptying(row) for row in rows])
        for node in sorted(set(leaders.values())):
            parts = [
                {"partition_index": p.partition, "offset": offset}
                for p, offset in targets.items()
                if leaders[p] == node
            ]
            body = {"topics": [{"name": topic, "partitions": parts}], "timeout": TIMEOUT_MS}
            for result in (await client.request(ApiKey.DELETE_RECORDS, body, node=node)).topics[0].partitions:
                check_answer(result, f"{topic}-{result.partition_index}")
        return [{**row, "done": True} for row in rows]

    report(connected(bootstrap, action, timeout=timeout), output, _emptying)


def _emptying(row: EmptiedPartition) -> str:
    topic, _, _ = row["partition"].rpartition("-")
    what = f"the records of {row['partition']} before offset {row['before']}"
    return f"{verb(row, 'deleted', 'delete')} {what}{_with_them(topic)}"


@app.command()
def plan(
    mb_per_s: Annotated[
        float | None, typer.Option("--mb-per-s", min=0, help="Incoming data at its peak in MB/s.")
    ] = None,
    tb_per_day: Annotated[
        float | None, typer.Option("--tb-per-day", min=0, help="Incoming data in TB per day, instead of --mb-per-s.")
    ] = None,
    brokers: Annotated[int, typer.Option(min=1, help="Brokers in the cluster.")] = 3,
    consumers: Annotated[int, typer.Option(min=1, help="Number of consumers of one group.")] = 1,
    days: Annotated[float, typer.Option(min=0, help="Retention time in days.")] = 7.0,
    replication: Annotated[
        int | None, typer.Option(min=1, help="Replication factor. Default: 3 if there are enough brokers.")
    ] = None,
    per_partition: Annotated[float, typer.Option(min=0.1, help="Maximum throughput of one partition in MB/s.")] = 5.0,
    output: Output = Format.TABLE,
) -> None:
    """Calculate partitions, replicas and disks for your load.

    $ headrace topics plan --tb-per-day 1 --brokers 5 --days 7

    $ headrace topics plan --mb-per-s 40 --brokers 3 --consumers 12
    """
    if (mb_per_s is None) == (tb_per_day is None):
        raise typer.BadParameter("give one of --mb-per-s and --tb-per-day")
    rate = mb_per_s if mb_per_s is not None else (tb_per_day or 0) * 1_000_000 / 86_400
    try:
        found = plan_topic(Demand(rate, brokers, consumers, days, replication, per_partition))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if output is not Format.TABLE:
        show_one(found, output)
    else:
        sentences = [*found["when_replicas_are_lost"], *(f"warning: {text}" for text in found["warnings"])]
        show_one({k: v for k, v in found.items() if k not in ("when_replicas_are_lost", "warnings")}, output)
        typer.echo("\n" + "\n".join(map(wrapped, sentences)))
        config = f"-c min.insync.replicas={found['min_insync_replicas']} -c retention.ms={int(days * 86_400_000)}"
        command = f"headrace topics create NAME -p {found['partitions']} -r {found['replication_factor']} {config}"
        typer.echo(f"\n{command}")


app.command("list", hidden=True)(ls)
app.command("delete", hidden=True)(rm)
