"""kafka-topics: create, list, describe, alter and delete topics."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from headrace.cli.kafka_tools.support.options import Arguments, Option, properties
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import INTERNAL_TOPICS, OTHER_SPELLINGS, ZERO_UUID, uuid_from_text, uuid_to_text
from headrace.kernel.internal_topics import refusal

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
    from headrace.wire.messages.answers.list_partition_reassignments import OngoingPartitionReassignment
    from headrace.wire.messages.answers.metadata import MetadataResponsePartition, MetadataResponseTopic

    Partition: TypeAlias = MetadataResponsePartition | DescribeTopicPartitionsResponsePartition
    Reassignments: TypeAlias = dict[tuple[str, int], OngoingPartitionReassignment]

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DESCRIBE_CONFIGS, LIST_REASSIGNMENTS, DESCRIBE_TOPICS = (
    19,
    20,
    37,
    32,
    46,
    75,
)
TOPIC_RESOURCE = 2
TIMEOUT_MS = 60_000
# Sources of a topic's value that no user has set: 5 is the built-in default, 4 the broker's file.
_NOT_OVERRIDDEN = frozenset({4, 5})

ACTIONS = ("list", "describe", "create", "alter", "delete")
_FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
OPTIONS = (
    *CONNECTION,
    Option("list", "List all topics."),
    Option("create", "Create a topic."),
    Option("delete", "Delete a topic."),
    Option("alter", "Change the number of partitions (configurations: see kafka-configs)."),
    Option("describe", "Show details of topics."),
    Option("topic", "The topic; a regular expression except for --create.", "topic"),
    Option("topic-id", "The topic id to describe.", "id"),
    Option("partitions", "Number of partitions.", "number", int),
    Option("replication-factor", "Replicas of each partition.", "number", int),
    Option("replica-assignment", "Replicas by hand: 1:2,2:3 puts partition 0 on 1 and 2.", "assignment"),
    Option("config", "A configuration of the topic being created.", "name=value", repeated=True),
    Option("delete-config", "No longer supported; use kafka-configs.", "name", repeated=True),
    Option("if-exists", "Do nothing when the topic does not exist."),
    Option("if-not-exists", "Do nothing when the topic exists already."),
    Option("exclude-internal", "Leave out internal topics."),
    Option("delete-internal", "With --delete, delete internal topics too; without it they are refused."),
    Option("topics-with-overrides", "Only topics with configurations of their own."),
    Option("under-replicated-partitions", "Only partitions that lack in-sync replicas."),
    Option("unavailable-partitions", "Only partitions without a leader."),
    Option("under-min-isr-partitions", "Only partitions below min.insync.replicas."),
    Option("at-min-isr-partitions", "Only partitions at exactly min.insync.replicas."),
    Option("partition-size-limit-per-response", "Partitions asked for at once.", "number", int, default=2000),
    Option("disable-rack-aware", "Accepted for old scripts; placement follows racks."),
    Option("force", "Accepted for old scripts; nothing is asked."),
)


def check(arguments: Arguments) -> None:
    action = arguments.exactly_one(*ACTIONS)
    if not arguments.given("bootstrap-server"):
        arguments.require("zookeeper")
    if action == "create":
        arguments.require("topic")
    if action == "alter":
        arguments.require("topic", "partitions")
    if action == "delete":
        arguments.require("topic")
    misplaced: list[str] = []
    if action != "create":
        misplaced += ["config", "replication-factor", "if-not-exists"]
    if action not in ("create", "alter"):
        misplaced += ["partitions", "replica-assignment"]
    if action != "describe":
        misplaced += [*_FILTERS, "topics-with-overrides", "topic-id"]
    if action in ("create", "list"):
        misplaced.append("if-exists")
    if action != "delete":
        misplaced.append("delete-internal")
    for name in misplaced:
        if arguments.given(name):
            arguments.refuse(name, action)
    if arguments.given("replica-assignment"):
        arguments.refuse("replica-assignment", "replication-factor", *(("partitions",) if action == "create" else ()))
    if arguments.given("topics-with-overrides"):
        arguments.refuse("topics-with-overrides", *_FILTERS)


async def run(arguments: Arguments, client: ClusterClient) -> int | None:
    action = arguments.exactly_one(*ACTIONS)
    actions: dict[str, Callable[[Arguments, ClusterClient], Awaitable[int | None]]] = {
        "list": list_topics,
        "create": create,
        "alter": alter,
        "delete": delete,
        "describe": describe,
    }
    return await actions[action](arguments, client)


async def _names(arguments: Arguments, client: ClusterClient) -> list[str]:
    """Topics that match `--topic`, sorted. Commas may separate several patterns, as in Kafka's tool."""
    await client.refresh(None)
    names = sorted(client.metadata.topics)
    if arguments.given("topic"):
        asked = str(arguments["topic"])
        pattern = re.compile(OTHER_SPELLINGS.get(asked, asked).replace(",", "|").strip("\"'"))
        names = [name for name in names if pattern.fullmatch(name)]
    if arguments["exclude-internal"]:
        names = [name for name in names if name not in INTERNAL_TOPICS]
    return names


def _ensure_found(names: list[str], arguments: Arguments) -> None:
    if not names and arguments.given("topic") and not arguments["if-exists"]:
        raise ToolFailed(f"Topic '{arguments['topic']}' does not exist as expected")


async def list_topics(arguments: Arguments, client: ClusterClient) -> None:
    for name in await _names(arguments, client):
        print(name)


def parse_assignment(text: str) -> list[list[int]]:
    """`1:2,2:3` → [[1, 2], [2, 3]]: the replicas of partition 0, 1, …"""
    try:
        partitions = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError as error:
        raise ToolFailed(f"--replica-assignment {text!r}: must be broker ids as 1:2,2:3") from error
    for index, replicas in enumerate(partitions):
        if len(set(replicas)) != len(replicas):
            raise ToolFailed(
                "Partition replica lists may not contain duplicate entries: "
                + ",".join(str(broker) for broker in sorted({b for b in replicas if replicas.count(b) > 1}))
            )
        if len(replicas) != len(partitions[0]):
            raise ToolFailed(f"Partition {index} has different replication factor: {replicas}")
    return partitions


async def create(arguments: Arguments, client: ClusterClient) -> None:
    name = str(arguments["topic"])
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide."
            " To avoid issues it is best to use either, but not both."
        )
    assignments = parse_assignment(arguments["replica-assignment"]) if arguments.given("replica-assignment") else []
    partitions, factor = arguments["partitions"], arguments["replication-factor"]
    if partitions is not None and partitions < 1:
        raise ToolFailed("The partitions must be greater than 0")
    if factor is not None and not 0 < factor < 1 << 15:
        raise ToolFailed("The replication factor must be between 1 and 32767 inclusive")
    topic = {
        "name": name,
        "num_partitions": -1 if partitions is None or assignments else partitions,
        "replication_factor": -1 if factor is None or assignments else factor,
        "assignments": [{"partition_index": at, "broker_ids": ids} for at, ids in enumerate(assignments)],
        "configs": [{"name": key, "value": value} for key, value in properties(arguments["config"], "config").items()],
    }
    answer = await client.to_controller(
        CREATE_TOPICS, {"topics": [topic], "timeout": TIMEOUT_MS, "validate_only": False}
    )
    result = answer.topics[0]
    if result.error_code == ErrorCode.topic_already_exists and arguments["if-not-exists"]:
        return
    if result.error_code:
        raise ToolFailed(answer_error(result))
    print(f"Created topic {name}.")


async def alter(arguments: Arguments, client: ClusterClient) -> None:
    names = await _names(arguments, client)
    _ensure_found(names, arguments)
    if names and any(name in INTERNAL_TOPICS for name in names):
        raise ToolFailed("The number of partitions for internal topics can't be changed")
    assignments = None
    if arguments.given("replica-assignment"):
        assignments = parse_assignment(arguments["replica-assignment"])
    topics = []
    for name in names:
        existing = len(client.metadata.topics[name].partitions)
        fresh = None if assignments is None else [{"broker_ids": ids} for ids in assignments[existing:]]
        topics.append({"name": name, "count": arguments["partitions"], "assignments": fresh})
    answer = await client.to_controller(
        CREATE_PARTITIONS, {"topics": topics, "timeout": TIMEOUT_MS, "validate_only": False}
    )
    for result in answer.results:
        if result.error_code:
            raise ToolFailed(answer_error(result))


async def delete(arguments: Arguments, client: ClusterClient) -> None:
    names = await _names(arguments, client)
    _ensure_found(names, arguments)
    if not names:
        return
    why_not = None if arguments["delete-internal"] else refusal(names, "--delete-internal")
    if why_not is not None:
        raise ToolFailed(why_not)
    body = {
        "topics": [{"name": name, "topic_id": None} for name in names],
        "topic_names": names,
        "timeout": TIMEOUT_MS,
    }
    answer = await client.to_controller(DELETE_TOPICS, body)
    for result in answer.responses:
        if result.error_code:
            raise ToolFailed(answer_error(result))


async def describe(arguments: Arguments, client: ClusterClient) -> None:
    if arguments.given("topic-id"):
        topics = [await _topic_by_id(arguments, client)]
    else:
        names = await _names(arguments, client)
        _ensure_found(names, arguments)
        topics = [client.metadata.topics[name] for name in names]
    details = await _partition_details(client, topics, arguments["partition-size-limit-per-response"])
    configs = await _overrides(client, [str(topic.name) for topic in topics])
    reassigning = await _reassignments(client, [str(topic.name) for topic in topics])
    live = set(client.metadata.nodes)
    for topic in topics:
        name = str(topic.name)
        partitions = sorted(details[name], key=lambda p: int(p.partition_index))
        settings, min_isr = configs[name]
        if arguments["topics-with-overrides"] and not settings:
            continue
        if not any(arguments[name] for name in _FILTERS):
            print(_summary(topic, partitions, settings, reassigning))
        if arguments["topics-with-overrides"]:
            continue
        for partition in partitions:
            if _wanted(arguments, partition, live, min_isr):
                print(_line(name, partition, reassigning))


async def _topic_by_id(arguments: Arguments, client: ClusterClient) -> MetadataResponseTopic:
    text = str(arguments["topic-id"])
    try:
        topic_id = uuid_from_text(text)
    except ValueError as error:
        raise ToolFailed(str(error)) from error
    await client.refresh(None)
    for topic in client.metadata.topics.values():
        if topic.topic_id == topic_id:
            found: MetadataResponseTopic = topic
            return found
    raise ToolFailed(f"TopicId '{text}' does not exist as expected")


class _Cursor(TypedDict):
    topic_name: str
    partition_index: int


async def _partition_details(
    client: ClusterClient, topics: list[MetadataResponseTopic], limit: int
) -> dict[str, list[Partition]]:
    """Partitions with their eligible leader replicas; plain metadata if the broker lacks DescribeTopicPartitions."""
    connection = await client.any_connection()
    if DESCRIBE_TOPICS not in connection.versions or not topics:
        return {str(topic.name): list(topic.partitions) for topic in topics}
    found: dict[str, list[Partition]] = {str(topic.name): [] for topic in topics}
    cursor: _Cursor | None = None
    names = [{"name": name} for name in sorted(found)]
    while True:
        body = {"topics": names, "response_partition_limit": limit, "cursor": cursor}
        answer = await client.request(DESCRIBE_TOPICS, body)
        for topic in answer.topics:
            found[str(topic.name)] += topic.partitions
        if answer.next_cursor is None:
            return found
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
        names = [name for name in names if name["name"] >= cursor["topic_name"]]


async def _overrides(client: ClusterClient, names: list[str]) -> dict[str, tuple[list[str], int]]:
    """For each topic: its changed settings as `key=value`, and its min.insync.replicas."""
    resources = [{"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None} for name in names]
    if not resources:
        return {}
    answer = await client.request(
        DESCRIBE_CONFIGS, {"resources": resources, "include_synonyms": False, "include_documentation": False}
    )
    found = {}
    for result in answer.results:
        entries = list(result.configs)
        shown = [f"{e.name}={e.value}" for e in entries if e.config_source not in _NOT_OVERRIDDEN]
        min_isr = next((int(e.value) for e in entries if e.name == "min.insync.replicas"), 1)
        found[str(result.resource_name)] = (shown, min_isr)
    return found


async def _reassignments(client: ClusterClient, names: list[str]) -> Reassignments:
    connection = await client.any_connection()
    if LIST_REASSIGNMENTS not in connection.versions:
        return {}
    answer = await client.to_controller(LIST_REASSIGNMENTS, {"timeout": TIMEOUT_MS, "topics": None})
    if answer.error_code:
        print(f"Couldn't query reassignments through the AdminClient API: {answer_error(answer)}", file=sys.stderr)
        return {}
    return {
        (str(t.name), int(p.partition_index)): p for t in answer.topics for p in t.partitions if str(t.name) in names
    }


def _summary(
    topic: MetadataResponseTopic, partitions: list[Partition], settings: list[str], reassigning: Reassignments
) -> str:
    first = partitions[0] if partitions else None
    move = reassigning.get((str(topic.name), int(first.partition_index))) if first else None
    factor = 0 if first is None else len(first.replica_nodes) - (len(move.adding_replicas) if move else 0)
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_to_text(topic.topic_id or ZERO_UUID)}\tPartitionCount: {len(partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {','.join(settings)}"
    )


def _line(name: str, partition: Partition, reassigning: Reassignments) -> str:
    leader = "none" if partition.leader_id < 0 else str(int(partition.leader_id))
    joined = {
        "Replicas": partition.replica_nodes,
        "Isr": partition.isr_nodes,
        "Elr": getattr(partition, "eligible_leader_replicas", None) or (),
        "LastKnownElr": getattr(partition, "last_known_elr", None) or (),
    }
    parts = [f"\tTopic: {name}", f"Partition: {partition.partition_index}", f"Leader: {leader}"]
    parts += [f"{title}: {','.join(str(int(node)) for node in nodes)}" for title, nodes in joined.items()]
    move = reassigning.get((name, int(partition.partition_index)))
    if move is not None:
        parts.append(f"Adding Replicas: {','.join(map(str, map(int, move.adding_replicas)))}")
        parts.append(f"Removing Replicas: {','.join(map(str, map(int, move.removing_replicas)))}")
    return "\t".join(parts)


def _wanted(arguments: Arguments, partition: Partition, live: set[int], min_isr: int) -> bool:
    """Whether a partition matches one of the filters. Without filters every partition matches."""
    in_sync, replicas = len(partition.isr_nodes), len(partition.replica_nodes)
    holds = {
        "under-replicated-partitions": in_sync < replicas,
        "unavailable-partitions": int(partition.leader_id) not in live,
        "under-min-isr-partitions": in_sync < min_isr,
        "at-min-isr-partitions": in_sync == min_isr,
    }
    chosen = [name for name in _FILTERS if arguments[name]]
    return not chosen or any(holds[name] for name in chosen)


TOOL = Tool(
    "Create, delete, describe or change a topic.",
    OPTIONS,
    run,
    failure_prefix="Error while executing topic command : ",
    check=check,
)
