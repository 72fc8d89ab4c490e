"""Actions that kafka-consumer-groups, kafka-share-groups and kafka-streams-groups have in common."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.cli.kafka_tools.support import group_view
from headrace.cli.kafka_tools.support.group_offsets import Reset, parse_datetime, parse_duration
from headrace.cli.kafka_tools.support.options import Arguments
from headrace.cli.kafka_tools.support.tables import columns, fitted
from headrace.cli.kafka_tools.support.tool import Tool, ToolFailed, answer_error, code_text
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

# Options


def run_with_optional_values(tool: Tool, optional: dict[str, str | None], argv: list[str] | None) -> int:
    """Runs the tool. `optional` gets the options that may have a value or none: `--state` and `--type`."""
    rest, found = _split_optional_values(list(sys.argv[1:] if argv is None else argv))
    optional.clear()
    optional.update(found)
    return tool.main(rest)


def _split_optional_values(argv: list[str]) -> tuple[list[str], dict[str, str | None]]:
    """`--state` and `--type` have an optional value. Removes them before the other options are parsed."""
    rest: list[str] = []
    found: dict[str, str | None] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in ("state", "type"):
            if not equals and words and not words[0].startswith("--"):
                value, equals = words.pop(0), "="
            found[name] = value if equals else None
        else:
            rest.append(word)
    return rest, found


# Groups


async def groups_of_type(client: ClusterClient, kind: str) -> list[group_view.Listed]:
    return [group for group in await group_view.listed(client) if group.type == kind]


async def chosen_groups(arguments: Arguments, client: ClusterClient, kind: str) -> list[str]:
    """The groups that --group names, or with --all-groups every group of this type."""
    if arguments["all-groups"]:
        return [group.id for group in await groups_of_type(client, kind)]
    return [str(name) for name in arguments["group"]]


async def print_groups(client: ClusterClient, kind: str, optional: Mapping[str, str | None], least: list[int]) -> None:
    """The names of the groups; with --state also their states, perhaps only some of them."""
    found = await groups_of_type(client, kind)
    if "state" not in optional:
        for group in found:
            print(group.id)
        return
    wanted = {state.strip().lower() for state in (optional["state"] or "").split(",") if state.strip()}
    rows: list[list[object]] = [["GROUP", "STATE"]]
    rows += [[group.id, group.state] for group in found if not wanted or group.state.lower() in wanted]
    print(columns(rows, fitted(rows, least)))


async def delete_groups(client: ClusterClient, names: list[str]) -> dict[str, str]:
    """Deletes groups. Returns for each why it could not be deleted, or an empty text."""
    failures = {}
    for name in dict.fromkeys(names):
        result = (await client.to_coordinator(name, ApiKey.DELETE_GROUPS, {"groups_names": [name]})).results[0]
        failures[name] = answer_error(result) if result.error_code else ""
    return failures


def report_deletions(kind: str, failures: Mapping[str, str], *, ends_with: str = "") -> int:
    """Prints what happened to each group, as `delete_groups` returned it. Returns the exit code."""
    done = [name for name, why in failures.items() if not why]
    if len(done) == len(failures):
        print(f"Deletion of requested {kind} groups ({quoted(done)}) was successful.")
        return 0
    print(f"\nError: Deletion of some {kind} groups failed:")
    for name, why in failures.items():
        if why:
            print(f"* Group '{name}' could not be deleted due to: {why}")
    if done:
        print(f"\nThese {kind} groups were deleted successfully: {quoted(done)}{ends_with}")
    return 1


def quoted(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)


# Offsets


async def partitions_of(specs: list[str], client: ClusterClient) -> list[TopicPartition]:
    """`topic` or `topic:0,2` → partitions."""
    found: list[TopicPartition] = []
    for spec in specs:
        topic, _, numbers = spec.partition(":")
        known = await client.leaders([topic])
        if numbers:
            try:
                wanted = [TopicPartition(topic, int(number)) for number in numbers.split(",")]
            except ValueError as error:
                raise ToolFailed(f"Invalid partition in '{spec}': must be topic:0,1") from error
            if missing := [p for p in wanted if p not in known]:
                raise ToolFailed(f"topic {topic} has no partition {missing[0].partition}")
            found += wanted
        else:
            found += sorted(known)
    return found


def reset_of(arguments: Arguments) -> Reset:
    if arguments["to-datetime"] is not None:
        return Reset(time_ms=parse_datetime(arguments["to-datetime"]))
    if arguments["by-duration"] is not None:
        return Reset(
            time_ms=int(time.time() * 1000) - int(parse_duration(arguments["by-duration"]).total_seconds() * 1000)
        )
    return Reset(
        earliest=arguments["to-earliest"],
        latest=arguments["to-latest"],
        offset=arguments["to-offset"],
        shift=arguments["shift-by"],
    )


def plan_from_file(path: str, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:
    """Reads lines of `topic,partition,offset`, with the group in front if several groups are reset."""
    plan: dict[str, dict[TopicPartition, int]] = {name: {} for name in groups}
    for number, row in enumerate(csv.reader(Path(path).read_text().splitlines()), start=1):
        if not row:
            continue
        try:
            group, topic, partition, offset = row if len(row) == 4 else [groups[0], *row]
            plan[group][TopicPartition(topic, int(partition))] = int(offset)
        except (ValueError, KeyError) as error:
            raise ToolFailed(
                f"{path} line {number}: must be topic,partition,offset or group,topic,partition,offset"
            ) from error
    return plan


def show_plans(
    plans: dict[str, dict[TopicPartition, int]], *, export: bool, least: tuple[int, ...] = (15, 15, 10, 15)
) -> None:
    if export:
        for name, plan in plans.items():
            for partition, offset in sorted(plan.items()):
                prefix = f"{name}," if len(plans) > 1 else ""
                print(f"{prefix}{partition.topic},{partition.partition},{offset}")
        print()
        return
    rows: list[list[object]] = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    rows += [[name, p.topic, p.partition, offset] for name, plan in plans.items() for p, offset in sorted(plan.items())]
    print("\n" + columns(rows, fitted(rows, least)))


async def deleted_offsets(
    client: ClusterClient, group: str, partitions: list[TopicPartition]
) -> tuple[int, dict[tuple[str, str], ErrorCode]]:
    """Deletes committed offsets. Returns the error of the request and of each (topic, partition)."""
    topics: dict[str, list[dict[str, int]]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append({"partition_index": partition.partition})
    body = {"group_id": group, "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()]}
    answer = await client.to_coordinator(group, ApiKey.OFFSET_DELETE, body)
    codes = {(p.topic, str(p.partition)): ErrorCode(answer.error_code) for p in partitions}
    for topic in answer.topics:
        codes |= {(topic.name, str(part.partition_index)): ErrorCode(part.error_code) for part in topic.partitions}
    return int(answer.error_code), codes


def print_deleted_offsets(codes: dict[tuple[str, str], ErrorCode]) -> int:
    """One row for each (topic, partition). Returns the exit code."""
    rows: list[list[object]] = [["TOPIC", "PARTITION", "STATUS"]]
    rows += [
        [topic, number, f"Error: {code_text(code)}" if code else "Successful"]
        for (topic, number), code in sorted(codes.items())
    ]
    print("\n" + columns(rows, fitted(rows, [15, 10, 15]), pad_last=True))
    return int(any(codes.values()))
