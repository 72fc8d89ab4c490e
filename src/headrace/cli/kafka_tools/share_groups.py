"""kafka-share-groups: lists, describes, resets and deletes share groups and their offsets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.group_actions import (
    chosen_groups,
    delete_groups,
    groups_of_type,
    print_groups,
    report_deletions,
    run_with_optional_values,
)
from headrace.cli.kafka_tools.support.group_offsets import ends, parse_datetime
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.share_offsets import (
    SharePosition,
    alter_share_offsets,
    describe_share_group,
    share_positions,
)
from headrace.cli.kafka_tools.support.tables import columns, fitted
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import EARLIEST, LATEST
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.share_group_describe import DescribedGroup

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_RESETS = ("to-datetime", "to-earliest", "to-latest")
OPTIONS = (
    *CONNECTION,
    Option("list", "List all share groups."),
    Option("describe", "Show a group: offsets, members or state."),
    Option("delete", "Delete groups."),
    Option("reset-offsets", "Move where a group begins; it must be inactive."),
    Option("delete-offsets", "Delete offsets of topics."),
    Option("group", "The group.", "group", repeated=True),
    Option("all-groups", "Every share group."),
    Option("topic", "topic, or topic:0,1.", "topic", repeated=True),
    Option("all-topics", "Every topic of the group."),
    Option("members", "With --describe: the members."),
    Option("offsets", "With --describe: offsets and lag (the default)."),
    Option("verbose", "More columns."),
    Option("dry-run", "Only show what would change."),
    Option("execute", "Do change."),
    Option("to-datetime", "To a time: YYYY-MM-DDThh:mm:ss.sss.", "datetime"),
    Option("to-earliest", "To the beginning."),
    Option("to-latest", "To the end."),
    Option("timeout", "How long to wait for answers.", "ms", int, default=30000),
)
_optional: dict[str, str | None] = {}


def check(arguments: Arguments) -> None:
    action = arguments.exactly_one(*ACTIONS)
    if action in ("describe", "delete") and not (arguments.given("group") or arguments["all-groups"]):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action in ("reset-offsets", "delete-offsets") and len(arguments["group"]) != 1:
        raise UsageError(f"Option [{action}] takes the option: [group]")
    if action == "delete-offsets" and not arguments.given("topic"):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")
    if action == "reset-offsets":
        if arguments["dry-run"] == arguments["execute"]:
            raise UsageError("Option [reset-offsets] takes exactly one of [dry-run] and [execute]")
        if not (arguments.given("topic") or arguments["all-topics"]):
            raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
        arguments.exactly_one(*_RESETS)


async def run(arguments: Arguments, client: ClusterClient) -> int | None:
    action = arguments.exactly_one(*ACTIONS)
    if action == "list":
        await print_groups(client, "Share", _optional, [15, 15])
        return None
    if action == "describe":
        for name in await chosen_groups(arguments, client, "Share"):
            await describe(arguments, client, name)
        return None
    if action == "delete":
        return await delete(await chosen_groups(arguments, client, "Share"), client)
    if action == "reset-offsets":
        await reset(arguments, client)
        return None
    return await delete_offsets(arguments, client)


async def describe(arguments: Arguments, client: ClusterClient, name: str) -> None:
    group = await describe_share_group(client, name)
    if group.error_code:
        raise ToolFailed(f"Executing share group command failed due to Share group {name} not found.")
    if not group.members:
        print(f"\nShare group '{name}' has no active members.", file=sys.stderr)
    verbose = bool(arguments["verbose"])
    if "state" in _optional:
        _print_state(client, group, await client.coordinator(name), verbose)
    elif arguments["members"]:
        _print_members(group, verbose)
    else:
        await _print_offsets(client, name, verbose)


async def _positions(client: ClusterClient, name: str) -> dict[TopicPartition, SharePosition]:
    try:
        return await share_positions(client, name)
    except ToolFailed as failed:
        raise ToolFailed(f"Executing share group command failed due to {failed}") from failed


async def _print_offsets(client: ClusterClient, name: str, verbose: bool) -> None:
    heading: list[object] = ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    least = [15, 15, 10, 13, 0]
    if verbose:
        heading.insert(3, "LEADER-EPOCH")
        least.insert(3, 13)
    rows = [heading]
    for partition, position in (await _positions(client, name)).items():
        row: list[object] = [name, partition.topic, partition.partition]
        if verbose:
            row.append(_or_dash(position.leader_epoch))
        rows.append([*row, _or_dash(position.start_offset), _or_dash(position.lag)])
    print("\n" + columns(rows, fitted(rows, least)))


def _or_dash(value: int | None) -> object:
    return "-" if value is None else value


def _print_members(group: DescribedGroup, verbose: bool) -> None:
    heading: list[object] = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    least = [15, 15, 15, 15, 12, 0]
    if verbose:
        heading.insert(5, "MEMBER-EPOCH")
        least.insert(5, 13)
    rows = [heading]
    for member in group.members:
        topics = sorted(member.assignment.topic_partitions, key=lambda topic: str(topic.topic_name))
        text = ",".join(f"{t.topic_name}:{','.join(str(int(p)) for p in sorted(t.partitions))}" for t in topics) or "-"
        row: list[object] = [str(group.group_id), str(member.member_id), str(member.client_host), str(member.client_id)]
        row.append(sum(len(topic.partitions) for topic in topics))
        if verbose:
            row.append(int(member.member_epoch))
        rows.append([*row, text])
    if len(rows) > 1:
        print("\n" + columns(rows, fitted(rows, least)))


def _print_state(client: ClusterClient, group: DescribedGroup, node: int, verbose: bool) -> None:
    where = client.metadata.nodes[node]
    heading: list[object] = ["GROUP", "COORDINATOR (ID)", "STATE"]
    row: list[object] = [str(group.group_id), f"{where.host}:{where.port}  ({where.id})", str(group.group_state)]
    least = [15, 25, 15]
    if verbose:
        heading += ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"]
        row += [int(group.group_epoch), int(group.assignment_epoch)]
        least += [12, 17]
    rows = [[*heading, "#MEMBERS"], [*row, len(group.members)]]
    print("\n" + columns(rows, fitted(rows, [*least, 0])))


async def _partitions(arguments: Arguments, client: ClusterClient, name: str) -> list[TopicPartition]:
    if arguments["all-topics"]:
        return list(await _positions(client, name))
    chosen: list[TopicPartition] = []
    for text in arguments["topic"]:
        topic, _, numbers = str(text).partition(":")
        known = sorted(partition for partition in await client.leaders([topic]))
        try:
            wanted = {int(number) for number in numbers.split(",")} if numbers else {p.partition for p in known}
        except ValueError as error:
            raise ToolFailed(f"--topic {text!r}: must be topic or topic:0,1") from error
        chosen += [partition for partition in known if partition.partition in wanted]
    return chosen


async def reset(arguments: Arguments, client: ClusterClient) -> None:
    name = str(arguments["group"][0])
    active = [
        group
        for group in await groups_of_type(client, "Share")
        if group.id == name and group.state not in ("Empty", "Dead")
    ]
    if active:
        raise ToolFailed(f"Share group '{name}' is not empty.")
    partitions = await _partitions(arguments, client, name)
    time = EARLIEST if arguments["to-earliest"] else LATEST
    if arguments.given("to-datetime"):
        time = parse_datetime(arguments["to-datetime"])
    found, last = await ends(client, partitions, time), await ends(client, partitions, LATEST)
    targets: dict[TopicPartition, int] = {}
    for partition in partitions:
        at, end = found[partition], last[partition]
        if isinstance(at, Fault):
            raise at
        if isinstance(end, Fault):
            raise end
        targets[partition] = end.offset if at.offset < 0 else at.offset
    if arguments["execute"]:
        await alter_share_offsets(client, name, targets)
    rows: list[list[object]] = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    rows += [[name, partition.topic, partition.partition, offset] for partition, offset in sorted(targets.items())]
    print("\n" + columns(rows, fitted(rows, [15, 15, 10, 0])))


async def delete(names: list[str], client: ClusterClient) -> int:
    known = {group.id for group in await groups_of_type(client, "Share")}
    failures = {name: "" if name in known else f"Group '{name}' is not a share group." for name in names}
    failures |= await delete_groups(client, [name for name, why in failures.items() if not why])
    return report_deletions("share", failures)


async def delete_offsets(arguments: Arguments, client: ClusterClient) -> int | None:
    name = str(arguments["group"][0])
    body = {"group_id": name, "topics": [{"topic_name": str(topic)} for topic in arguments["topic"]]}
    answer = await client.to_coordinator(name, ApiKey.DELETE_SHARE_GROUP_OFFSETS, body)
    if answer.error_code:
        raise ToolFailed(f"Failed to delete offsets of share group {name}: {answer_error(answer)}")
    rows: list[list[object]] = [["TOPIC", "STATUS"]]
    failed = False
    for topic in answer.responses:
        failed = failed or bool(topic.error_code)
        rows.append([str(topic.topic_name), f"Error: {answer_error(topic)}" if topic.error_code else "Successful"])
    print("\n" + columns(rows, fitted(rows, [15, 0])))
    return 1 if failed else None


TOOL = Tool(
    "This tool helps to list, describe, reset and delete share groups.",
    OPTIONS,
    run,
    failure_prefix="\nError: ",
    check=check,
)


def main(argv: list[str] | None = None) -> int:
    return run_with_optional_values(TOOL, _optional, argv)


if __name__ == "__main__":
    sys.exit(main())
