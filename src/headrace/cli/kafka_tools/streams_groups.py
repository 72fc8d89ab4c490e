"""kafka-streams-groups: lists, describes, resets and deletes streams groups (KIP-1071) and their offsets."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools import streams_tables
from headrace.cli.kafka_tools.group_actions import (
    chosen_groups,
    delete_groups,
    deleted_offsets,
    groups_of_type,
    partitions_of,
    plan_from_file,
    print_deleted_offsets,
    print_groups,
    quoted,
    report_deletions,
    reset_of,
    run_with_optional_values,
    show_plans,
)
from headrace.cli.kafka_tools.support.group_offsets import Reset, commit, committed
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error, code_text
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_RESETS = (
    "to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file",
)  # fmt: skip
_STATES = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")
OPTIONS = (
    *CONNECTION,
    Option("list", "List all streams groups."),
    Option("describe", "Show a group: offsets, members or state."),
    Option("delete", "Delete groups."),
    Option("reset-offsets", "Move the offsets of input topics; the group must be inactive."),
    Option("delete-offsets", "Delete offsets of input topics."),
    Option("group", "The group.", "group", repeated=True),
    Option("all-groups", "Every streams group."),
    Option("input-topic", "topic, or topic:0,1.", "topic", repeated=True),
    Option("all-input-topics", "Every source topic of the topology."),
    Option("members", "With --describe: the members and their tasks."),
    Option("offsets", "With --describe: the lag of input topics (the default)."),
    Option("verbose", "More columns."),
    Option(
        "delete-internal-topic", "With --reset-offsets --execute: delete this internal topic.", "topic", repeated=True
    ),
    Option("delete-all-internal-topics", "With --delete or --reset-offsets --execute: delete all internal topics."),
    Option("dry-run", "Only show what would change."),
    Option("execute", "Do change."),
    Option("export", "Print as CSV."),
    Option("to-offset", "To this offset.", "offset", int),
    Option("shift-by", "By this many, back if negative.", "number", int),
    Option("to-datetime", "To a time: YYYY-MM-DDThh:mm:ss.sss.", "datetime"),
    Option("by-duration", "Back by a duration: PnDTnHnMnS.", "duration"),
    Option("to-earliest", "To the beginning."),
    Option("to-latest", "To the end."),
    Option("to-current", "To where it stands."),
    Option("from-file", "From a CSV file as --export prints it.", "file"),
    Option("timeout", "How long to wait for answers.", "ms", int, default=30000),
)
_optional: dict[str, str | None] = {}


def check(arguments: Arguments) -> None:
    action = arguments.exactly_one(*ACTIONS)
    if action in ("describe", "delete", "reset-offsets") and not (arguments.given("group") or arguments["all-groups"]):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action == "describe":
        if sum((bool(arguments["members"]), bool(arguments["offsets"]), "state" in _optional)) > 1:
            raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if _optional.get("state"):
            raise UsageError("Option [describe] does not take a value for [state]")
    names_topics = arguments.given("input-topic") or arguments["all-input-topics"]
    if action == "delete" and names_topics:
        raise UsageError("Kafka Streams does not support topic-specific offset deletion from a streams group.")
    if action == "delete-offsets" and not (names_topics and len(arguments["group"]) == 1):
        raise UsageError(
            "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]"
        )
    if action == "reset-offsets":
        _check_reset(arguments)
    elif arguments["dry-run"] or arguments["execute"]:
        raise UsageError("Only Option [reset-offsets] accepts [execute] or [dry-run]")
    _check_internal_topics(arguments, action)


def _check_reset(arguments: Arguments) -> None:
    if arguments["dry-run"] and arguments["execute"]:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not arguments["dry-run"] and not arguments["execute"]:
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    chosen = [name for name in _RESETS if arguments.given(name)]
    if not chosen:
        listed = ", ".join(f"[{name}]" for name in _RESETS)
        raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")
    arguments.refuse(*chosen[:2])
    if not (arguments.given("input-topic") or arguments["all-input-topics"] or arguments.given("from-file")):
        raise UsageError("One of the reset scopes should be defined: --all-input-topics, --input-topic.")


def _check_internal_topics(arguments: Arguments, action: str) -> None:
    executes = action == "reset-offsets" and arguments["execute"]
    if arguments["delete-all-internal-topics"] and not (executes or action == "delete"):
        raise UsageError("Option [delete-all-internal-topics] takes [delete], or [reset-offsets] with [execute]")
    if arguments.given("delete-internal-topic") and not executes:
        raise UsageError("Option [delete-internal-topic] takes [reset-offsets] with [execute]")


async def run(arguments: Arguments, client: ClusterClient) -> int | None:
    action = arguments.exactly_one(*ACTIONS)
    if action == "list":
        await list_groups(client)
        return None
    if action == "describe":
        for name in await chosen_groups(arguments, client, "Streams"):
            await describe(arguments, client, name)
        return None
    if action == "delete":
        return await delete(arguments, await chosen_groups(arguments, client, "Streams"), client)
    if action == "reset-offsets":
        return await reset(arguments, client)
    return await delete_offsets(arguments, client)


async def list_groups(client: ClusterClient) -> None:
    text = _optional.get("state") or ""
    wanted = {state.strip().lower() for state in text.split(",") if state.strip()}
    if wanted - {state.lower() for state in _STATES}:
        raise ToolFailed(f"Invalid state list '{text}'. Valid states are: {', '.join(_STATES)}")
    await print_groups(client, "Streams", _optional, [15, 0])


async def describe(arguments: Arguments, client: ClusterClient, name: str) -> None:
    group = await streams_tables.described(client, name)
    verbose = bool(arguments["verbose"])
    if str(group.group_state) == "Empty":
        # Kafka's tool says it only with --state, and prints nothing at all otherwise.
        message = f"\nError: Streams group '{name}' has no active members."
        print(message, file=sys.stdout if "state" in _optional else sys.stderr)
    if "state" in _optional:
        print(streams_tables.state_table(group, client, await client.coordinator(name), verbose=verbose))
    elif group.members and arguments["members"]:
        print(streams_tables.members_table(group, verbose=verbose))
    elif group.members:
        print(await streams_tables.offsets_table(group, client, verbose=verbose))


# Deletion


async def delete(arguments: Arguments, names: list[str], client: ClusterClient) -> int | None:
    known = {group.id: group for group in await groups_of_type(client, "Streams")}
    failures: dict[str, str] = {}
    internal: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        if name not in known:
            failures[name] = f"Group '{name}' does not exist or is not a streams group."
        elif known[name].state != "Empty":
            failures[name] = f"Streams group '{name}' is not EMPTY."
        else:
            if arguments["delete-all-internal-topics"]:
                internal[name] = await _internal_topics(client, name)
            failures |= await delete_groups(client, [name])
    wrong = report_deletions("streams", failures, ends_with=".")
    with_topics = [name for name, why in failures.items() if not why and internal.get(name)]
    kept = [failed for name in with_topics for failed in await _delete_topics(client, internal[name])]
    if with_topics and not kept:
        print(f"Deletion of associated internal topics of the streams groups ({quoted(with_topics)}) was successful.")
    return 1 if wrong or kept else None


async def _internal_topics(client: ClusterClient, name: str) -> list[str]:
    """The repartition and changelog topics of a group, except topics without its name."""
    topics, strange = streams_tables.internal_topics(await streams_tables.described(client, name))
    for topic in strange:
        print(
            f"\nError: The internal topic '{topic}' is not inferred as internal and thus will not be deleted with the "
            f"group '{name}'."
        )
    return topics


async def _delete_topics(client: ClusterClient, topics: list[str]) -> list[str]:
    """Deletes topics. Returns the ones that stay, and prints why."""
    body = {"topics": [{"name": name, "topic_id": None} for name in topics], "topic_names": topics, "timeout": 30_000}
    failed = []
    for result in (await client.to_controller(ApiKey.DELETE_TOPICS, body)).responses:
        if result.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
            failed.append(str(result.name))
            print(f"Failed to delete internal topic: {result.name}: {answer_error(result)}")
    return failed


# Offsets


async def reset(arguments: Arguments, client: ClusterClient) -> int | None:
    names = await chosen_groups(arguments, client, "Streams")
    file_plan = plan_from_file(arguments["from-file"], names) if arguments.given("from-file") else None
    plans: dict[str, dict[TopicPartition, int]] = {}
    failed = False
    for name in names:
        group = await streams_tables.described(client, name)
        if group.members:
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but the current state is "
                f"{group.group_state}."
            )
            failed = True
            continue
        current = await committed(client, name)
        if file_plan is not None:
            partitions, how = list(file_plan[name]), Reset(explicit=file_plan[name])
        else:
            sources = streams_tables.source_topics(group)
            partitions, how = sorted(p for p in current if p.topic in sources), reset_of(arguments)
            if not arguments["all-input-topics"]:
                partitions = await partitions_of([str(topic) for topic in arguments["input-topic"]], client)
                if not set(partitions) <= set(current):
                    raise ToolFailed(f"One or more topics are not part of the group '{name}'.")
        plans[name] = await how.targets(client, partitions, current)
        if arguments["execute"]:
            await commit(client, name, plans[name])
            topics = [str(topic) for topic in arguments["delete-internal-topic"]]
            if arguments["delete-all-internal-topics"]:
                topics = await _internal_topics(client, name)
            failed = bool(topics and await _delete_topics(client, topics)) or failed
    show_plans(plans, export=bool(arguments["export"]), least=(30, 30, 10, 15))
    return 1 if failed else None


async def delete_offsets(arguments: Arguments, client: ClusterClient) -> int:
    name = str(arguments["group"][0])
    if arguments["all-input-topics"]:
        sources = streams_tables.source_topics(await streams_tables.described(client, name))
        partitions = sorted(p for p in await committed(client, name) if p.topic in sources)
    else:
        partitions = await partitions_of([str(topic) for topic in arguments["input-topic"]], client)
    error_code, codes = await deleted_offsets(client, name, partitions)
    if error_code:
        print(f"\nError: {code_text(error_code)}")
    elif any(codes.values()):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {name}.")
    return print_deleted_offsets(codes)


TOOL = Tool(
    "This tool helps to list, describe, reset and delete streams groups.",
    OPTIONS,
    run,
    failure_prefix="\nError: ",
    check=check,
)


def main(argv: list[str] | None = None) -> int:
    return run_with_optional_values(TOOL, _optional, argv)


if __name__ == "__main__":
    sys.exit(main())
