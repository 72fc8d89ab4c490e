"""kafka-consumer-groups: list, describe, reset and delete consumer groups and their offsets."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.group_actions import (
    delete_groups,
    deleted_offsets,
    partitions_of,
    plan_from_file,
    print_deleted_offsets,
    report_deletions,
    reset_of,
    run_with_optional_values,
    show_plans,
)
from headrace.cli.kafka_tools.support import group_view
from headrace.cli.kafka_tools.support.group_offsets import Reset, commit, committed
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tables import columns, fitted
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, code_text
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
# In the order of Kafka's tool.
_RESETS = ("shift-by", "to-offset", "to-earliest", "to-current", "to-latest", "by-duration", "to-datetime", "from-file")
NOTHING_DONE = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
    "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if "
    "you are scripting this command and want to keep the current default behavior without prompting."
)
OPTIONS = (
    *CONNECTION,
    Option("list", "List all consumer groups."),
    Option("describe", "Show a group: positions and lag, members or state."),
    Option("delete", "Delete groups."),
    Option("reset-offsets", "Move positions; the group must be inactive."),
    Option("delete-offsets", "Delete positions of topics."),
    Option("group", "The group.", "group", repeated=True),
    Option("all-groups", "Every group."),
    Option("topic", "topic, or topic:0,1.", "topic", repeated=True),
    Option("all-topics", "Every topic the group has positions for."),
    Option("members", "With --describe: the members."),
    Option("offsets", "With --describe: positions and lag (the default)."),
    Option("verbose", "More columns."),
    Option("dry-run", "Only show what would change."),
    Option("execute", "Do change."),
    Option("export", "Print as CSV."),
    Option("to-offset", "To this offset.", "offset", int),
    Option("shift-by", "By this many, back if negative.", "number", int),
    Option("to-datetime", "To a time: YYYY-MM-DDTHH:mm:SS.sss.", "datetime"),
    Option("by-duration", "Back by a duration: PnDTnHnMnS.", "duration"),
    Option("to-earliest", "To the beginning."),
    Option("to-latest", "To the end."),
    Option("to-current", "To where it stands."),
    Option("from-file", "From a CSV file as --export prints it.", "file"),
    Option("timeout", "How long to wait for answers.", "ms", int, default=5000),
)


_optional: dict[str, str | None] = {}


def check(arguments: Arguments) -> None:
    action = arguments.exactly_one(*ACTIONS[:-1])
    if action == "describe" and not (arguments.given("group") or arguments["all-groups"]):
        raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
    if action == "delete" and not (arguments.given("group") or arguments["all-groups"]):
        raise UsageError("Option [delete] takes one of these options: [all-groups], [group]")
    if action == "describe" and arguments["members"] and (arguments["offsets"] or "state" in _optional):
        raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if action == "reset-offsets":
        if arguments["dry-run"] and arguments["execute"]:
            raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        if not arguments["execute"] and not arguments["dry-run"]:
            print(NOTHING_DONE, file=sys.stderr)
        if not (arguments.given("group") or arguments["all-groups"]):
            raise UsageError("Option [reset-offsets] takes one of these options: [all-groups], [group]")
        if not (arguments.given("topic") or arguments["all-topics"] or arguments.given("from-file")):
            raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
        chosen = [name for name in _RESETS if arguments.given(name)]
        if not chosen and not arguments["export"]:
            listed = ", ".join(f"[{name}]" for name in _RESETS)
            raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")
        arguments.refuse(*chosen[:2])
    if action == "delete-offsets" and not (arguments.given("group") and arguments.given("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")


async def run(arguments: Arguments, client: ClusterClient) -> int | None:
    if arguments["list"]:
        await list_groups(client)
    elif arguments["describe"]:
        await describe(arguments, client)
    elif arguments["delete"]:
        return await delete(arguments, client)
    elif arguments["reset-offsets"]:
        await reset(arguments, client)
    else:
        return await delete_offsets(arguments, client)
    return None


async def list_groups(client: ClusterClient) -> None:
    states = [s.strip().lower().replace(" ", "") for s in (_optional.get("state") or "").split(",") if s.strip()]
    types = [t.strip().lower() for t in (_optional.get("type") or "").split(",") if t.strip()]
    groups = [g for g in await group_view.listed(client) if g.protocol_type in ("consumer", "")]
    if unknown := set(states) - {name.lower() for name in group_view.STATES}:
        known = ", ".join(group_view.STATES)
        raise ToolFailed(f"Invalid state list '{', '.join(unknown)}'. Valid states are: {known}")
    if unknown := set(types) - {"classic", "consumer"}:
        raise ToolFailed(f"Invalid types list '{', '.join(unknown)}'. Valid types are: Classic, Consumer")
    groups = [g for g in groups if (not states or g.state.lower() in states) and (not types or g.type.lower() in types)]
    if not _optional:
        print("\n".join(group.id for group in groups))
        return
    heading = ["GROUP", *(["TYPE"] if "type" in _optional else []), *(["STATE"] if "state" in _optional else [])]
    rows = [heading]
    for group in groups:
        rows.append(
            [group.id, *([group.type] if "type" in _optional else []), *([group.state] if "state" in _optional else [])]
        )
    print(columns(rows, fitted(rows, [32, *[20] * (len(heading) - 1)]), pad_last=True))


async def _groups(arguments: Arguments, client: ClusterClient) -> list[str]:
    if arguments["all-groups"]:
        return sorted(group.id for group in await group_view.listed(client) if group.protocol_type in ("consumer", ""))
    return list(arguments["group"])


async def describe(arguments: Arguments, client: ClusterClient) -> None:
    for name in await _groups(arguments, client):
        group = await group_view.described(client, name)
        if not group.members:
            idle = group.state in ("Empty", "Dead")
            told = f"Consumer group '{name}' {'has no active members' if idle else 'is rebalancing'}."
            print(f"\n{'' if idle else 'Warning: '}{told}", file=sys.stderr)
        if arguments["members"]:
            print(group_view.members_table(group, verbose=bool(arguments["verbose"])))
        elif "state" in _optional:
            print(group_view.state_table(group, client, verbose=bool(arguments["verbose"])))
        else:
            print(await group_view.offsets_table(group, client, verbose=bool(arguments["verbose"])))


async def delete(arguments: Arguments, client: ClusterClient) -> int:
    names = await _groups(arguments, client)
    return report_deletions("consumer", await delete_groups(client, names))


async def reset(arguments: Arguments, client: ClusterClient) -> None:
    names = await _groups(arguments, client)
    file_plan = plan_from_file(arguments["from-file"], names) if arguments.given("from-file") else None
    plans: dict[str, dict[TopicPartition, int]] = {}
    for name in names:
        group = await group_view.described(client, name, missing_is_empty=True)
        if group.state not in ("Empty", "Dead"):
            raise ToolFailed(
                f"Assignments can only be reset if the group '{name}' is inactive, "
                f"but the current state is {group.state}."
            )
        current = await committed(client, name)
        if file_plan is not None:
            partitions, how = list(file_plan[name]), Reset(explicit=file_plan[name])
        else:
            partitions = sorted(current) if arguments["all-topics"] else await partitions_of(arguments["topic"], client)
            how = reset_of(arguments)
        plans[name] = await how.targets(client, partitions, current)
        if arguments["execute"]:
            await commit(client, name, plans[name])
    show_plans(plans, export=bool(arguments["export"]))


async def delete_offsets(arguments: Arguments, client: ClusterClient) -> int:
    group = arguments["group"][0]
    partitions, unknown = [], []
    for spec in arguments["topic"]:
        try:
            partitions += await partitions_of([spec], client)
        except Refused:
            unknown.append(spec.partition(":")[0])
    error_code, codes = await deleted_offsets(client, group, partitions)
    if error_code:
        print(f"\nError: {code_text(error_code)}")
    elif any(codes.values()):
        print("\nEncountered some partition-level error, see the follow-up details.")
    else:
        print(f"\nRequest succeeded for deleting offsets from group {group}.")
    codes |= {(topic, "-"): ErrorCode.unknown_topic_or_partition for topic in unknown}
    return print_deleted_offsets(codes)


TOOL = Tool("List, describe, delete or reset consumer groups.", OPTIONS, run, failure_prefix="\nError: ", check=check)


def main(argv: list[str] | None = None) -> int:
    return run_with_optional_values(TOOL, _optional, argv)


if __name__ == "__main__":
    sys.exit(main())
