"""`headrace groups …`: list, describe, lag (also live), reset offsets, delete."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Annotated, TypeAlias, TypedDict

import typer

from headrace.cli.facts.group_lag import History, HistoryRow, Row, lag_rows, unread_note
from headrace.cli.facts.group_positions import (
    SHARE,
    describe_group,
    find_group,
    find_groups,
    move_positions,
    positions_of,
)
from headrace.cli.facts.topic_facts import leaders_of
from headrace.cli.kafka_tools.support.group_view import Listed, listed
from headrace.cli.kafka_tools.support.share_offsets import share_positions
from headrace.cli.support.change_report import report_one, verb
from headrace.cli.support.client_settings import client_security
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Group,
    Output,
    Timeout,
    Yes,
    bootstrap_address,
    check_answer,
    complete_group,
    complete_topic,
    connected,
    existing_topics,
    sure,
)
from headrace.cli.support.output import Format, show, show_line, show_one
from headrace.client.cluster_client import ClusterClient
from headrace.client.places import parse_place
from headrace.client.positions import beyond_end, offset_at
from headrace.kernel.plurals import counted
from headrace.wire.apis import ApiKey

# A running member would overwrite a reset with its next commit, so the group must have no members.
_EMPTY_STATES = ("Empty", "Dead")

Rows: TypeAlias = list[dict[str, object]]


class DeletedGroup(TypedDict):
    group: str
    positions: int
    done: bool


app = typer.Typer(no_args_is_help=True, help="List, describe, reset and delete groups, and show their lag.")
Groups = Annotated[
    list[str] | None, typer.Argument(help="Names of groups. Default: all groups.", autocompletion=complete_group)
]


@app.command("ls")
def ls(bootstrap: Bootstrap = None, output: Output = Format.TABLE, timeout: Timeout = 10.0) -> None:
    """List groups.

    $ headrace groups ls
    """
    found = sorted(connected(bootstrap, listed, timeout=timeout), key=lambda group: group.id)
    rows = [
        {"group": g.id, "type": g.type.lower(), "state": g.state.lower(), "protocol": g.protocol_type} for g in found
    ]
    show(rows, output, empty="no groups")


@app.command()
def describe(group: Group, bootstrap: Bootstrap = None, output: Output = Format.TABLE, timeout: Timeout = 10.0) -> None:
    """Show state, coordinator, members and their partitions; for a share group also start offsets and lag.

    $ headrace groups describe billing -o yaml
    """

    async def action(client: ClusterClient) -> tuple[dict[str, object], Rows, Rows]:
        known = await find_group(client, group)
        found = await describe_group(client, known)
        members: Rows = [
            {
                "member": m.id, "client": m.client_id, "host": m.address, "instance": m.instance_id,
                "partitions": [str(p) for p in m.assigned],
            }
            for m in found.members
        ]  # fmt: skip
        facts: dict[str, object] = {
            "group": found.id, "type": known.type.lower(), "state": found.state, "assignor": found.assignor or None,
            "coordinator": found.coordinator, "epoch": found.epoch,
        }  # fmt: skip
        share_partitions: Rows = []
        if known.type == SHARE:
            share_partitions = [
                {
                    "partition": str(partition), "start_offset": position.start_offset,
                    "leader_epoch": position.leader_epoch, "lag": position.lag,
                }
                for partition, position in (await share_positions(client, group)).items()
            ]  # fmt: skip
        return facts, members, share_partitions

    facts, members, share_partitions = connected(bootstrap, action, timeout=timeout)
    if output is not Format.TABLE:
        is_share = facts["type"] == SHARE.lower()
        show_one({**facts, "members": members, **({"share_partitions": share_partitions} if is_share else {})}, output)
        return
    show_one({**facts, "members": len(members)}, output)
    for rows in (members, share_partitions):
        if rows:
            typer.echo("")
            show(rows, output)


@app.command()
def lag(
    groups: Groups = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh the table until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two refreshes.")] = 2.0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many refreshes.")] = None,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show the lag of groups per partition; with --watch live, with a sparkline of the recent lag.

    The position is the committed offset; for a share group it is the start offset. If a partition has no committed
    offset, all its records count as lag.

    $ headrace groups lag billing

    $ headrace groups lag --watch --every 0.2 --count 2 -o json
    """

    async def once(client: ClusterClient) -> list[Row]:
        return await lag_rows(client, await find_groups(client, groups))

    if not watch:
        _show_lag(connected(bootstrap, once, timeout=timeout), output)
        return
    address, security = bootstrap_address(bootstrap), client_security(bootstrap)

    async def follow() -> None:
        history = History()
        async with ClusterClient(address, client_id="headrace-cli", timeout=timeout, security=security) as client:
            with _screen(output) as draw:
                looks = 0
                while True:
                    draw(history.add(await once(client), time.monotonic()))
                    looks += 1
                    if count is not None and looks >= count:
                        return
                    await asyncio.sleep(every)

    try:
        asyncio.run(follow())
    except KeyboardInterrupt:
        pass


def _show_lag(rows: Sequence[Row], output: Format) -> None:
    show(rows, output, empty="no group reads anything yet")
    note = unread_note(rows)
    if note is not None and output is Format.TABLE:
        typer.echo(f"\n{note}")


def _screen(output: Format) -> AbstractContextManager[Callable[[list[HistoryRow]], None]]:
    """Redraws the table in a terminal; prints one after the other elsewhere."""

    def draw(rows: list[HistoryRow]) -> None:
        if output is Format.TABLE:
            _show_lag(rows, output)
            print(flush=True)
            return
        for row in rows:
            show_line(row)

    @contextmanager
    def live() -> Iterator[Callable[[list[HistoryRow]], None]]:
        from rich.live import Live

        from headrace.cli.support.output import rich_table

        with Live(auto_refresh=False) as screen:
            yield lambda rows: screen.update(rich_table(rows, "lag", caption=unread_note(rows)), refresh=True)

    return live() if output is Format.TABLE and sys.stdout.isatty() else nullcontext(draw)


@app.command()
def reset(
    group: Group,
    to: Annotated[str, typer.Option("--to", help="beginning, end, an offset, -N, or a time as '10 minutes ago'.")],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Reset only these topics.", autocompletion=complete_topic)
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Reset the offsets of a group; for a share group its start offsets. The group must have no members.

    $ headrace groups reset billing --to beginning --dry-run

    $ headrace groups reset billing --to '10 minutes ago' --topic orders --yes
    """
    try:
        place = parse_place(to, int(time.time() * 1000))
    except ValueError as error:
        raise typer.BadParameter(f"--to {error}") from error

    async def action(client: ClusterClient) -> Rows:
        known = await _to_move(client, group, topic)
        found = await describe_group(client, known)
        if found.state not in _EMPTY_STATES:
            members = counted(len(found.members), "member")
            raise Failed(f"group {group!r} is {found.state} with {members}: stop them first")
        current = {} if found.state == "Dead" else await positions_of(client, known)
        partitions = sorted(leaders_of(await existing_topics(client, topic)) if topic else current)
        if not partitions:
            raise Failed(f"group {group!r} has no positions yet: name topics with --topic")
        targets = await offset_at(client, partitions, place)
        if (short := beyond_end(place, targets)) is not None:
            typer.echo(f"--to {to} is beyond the end, which is taken instead: {short}", err=True)
        rows: Rows = [
            {
                "partition": str(p), "from": current.get(p), "to": targets[p],
            }
            for p in partitions
        ]  # fmt: skip
        if not dry_run:
            facts = [f"{row['partition']}: {row['from']} → {row['to']}" for row in rows]
            sure(f"Move {group} to these positions?", yes, facts)
            await move_positions(client, known, targets)
        return rows

    show(connected(bootstrap, action, timeout=timeout), output)


async def _to_move(client: ClusterClient, name: str, topics: list[str] | None) -> Listed:
    """The offsets to reset. A group that does not exist yet becomes a consumer group if topics are named."""
    try:
        return await find_group(client, name)
    except Failed:
        if not topics:
            raise
        return Listed(name, "Classic", "Dead", "consumer")


@app.command()
def rm(
    group: Group,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Delete a group and its offsets. The group must have no members.

    $ headrace groups rm billing --yes
    """

    async def action(client: ClusterClient) -> DeletedGroup:
        positions = await positions_of(client, await find_group(client, group))
        row: DeletedGroup = {"group": group, "positions": len(positions), "done": False}
        if dry_run:
            return row
        sure(f"Delete the group {group} for good?", yes, [_deletion(row)])
        answer = await client.to_coordinator(group, ApiKey.DELETE_GROUPS, {"groups_names": [group]})
        check_answer(answer.results[0], f"group {group}")
        return {**row, "done": True}

    row = connected(bootstrap, action, timeout=timeout)
    report_one(row, output, _deletion(row))


def _deletion(row: DeletedGroup) -> str:
    return f"{verb(row, 'deleted', 'delete')} group {row['group']} with {counted(row['positions'], 'position')}"


app.command("list", hidden=True)(ls)
app.command("delete", hidden=True)(rm)
