"""kafka-reassign-partitions: generates, executes, verifies and cancels reassignments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.reassignment import log_dir_moves
from headrace.cli.kafka_tools.support import json_files
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.cluster.core.placement import place
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.list_partition_reassignments import OngoingPartitionReassignment

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
ACTIONS = ("generate", "execute", "verify", "cancel", "list")
LEADER_THROTTLE, FOLLOWER_THROTTLE = "leader.replication.throttled", "follower.replication.throttled"
OPTIONS = (
    Option("bootstrap-server", "The broker to connect to.", "host:port"),
    *CONNECTION[1:],
    *(Option(name, f"{name.capitalize()} reassignments.") for name in ACTIONS),
    Option("reassignment-json-file", "The plan.", "file"),
    Option("topics-to-move-json-file", "Topics to plan for, with --generate.", "file"),
    Option("broker-list", "Brokers to plan for, with --generate.", "0,1,2"),
    Option("disable-rack-aware", "Plan without looking at racks."),
    Option("throttle", "Bytes a second that moving may use.", "number", int, default=-1),
    Option(
        "replica-alter-log-dirs-throttle",
        "Bytes a second that moves between log directories may use.",
        "number",
        int,
        default=-1,
    ),
    Option("timeout", "How long to wait until moves between log directories begin.", "ms", int, default=10000),
    Option("additional", "Add to moves under way."),
    Option("preserve-throttles", "Leave throttles when done."),
    Option("disallow-replication-factor-change", "Refuse plans that change the replication factor."),
)
Plan = dict[TopicPartition, list[int]]


def check(arguments: Arguments) -> None:
    chosen = [name for name in ACTIONS if arguments[name]]
    if len(chosen) != 1:
        raise UsageError(f"Command must include exactly one action: {', '.join('--' + name for name in ACTIONS)}")
    needed = {"generate": ("topics-to-move-json-file", "broker-list"), "list": ()}
    arguments.require(*needed.get(chosen[0], ("reassignment-json-file",)))


async def run(arguments: Arguments, client: ClusterClient) -> None:
    actions = {"generate": generate, "execute": execute, "verify": verify, "cancel": cancel, "list": list_moves}
    await next(actions[name] for name in ACTIONS if arguments[name])(arguments, client)


def read_plan(path: str) -> Plan:
    plan: Plan = {}
    for entry in json_files.partitions(path, "topic", "partition", "replicas"):
        partition = json_files.topic_partition(path, entry)
        if partition in plan:
            raise ToolFailed(f"Partition reassignment contains duplicate entries for {partition}")
        brokers = entry["replicas"]
        if not isinstance(brokers, list):
            raise ToolFailed(f"{path}: replicas of {partition} must be a list of broker ids, not {brokers!r}")
        replicas = [json_files.whole_number(path, "replicas", broker) for broker in brokers]
        if len(set(replicas)) != len(replicas):
            raise ToolFailed(
                f"Partition replica lists may not contain duplicate entries: {partition} contains multiple entries for "
                + ", ".join(str(broker) for broker in sorted({b for b in replicas if replicas.count(b) > 1}))
            )
        if not replicas:
            raise ToolFailed("Partition replica list cannot be empty")
        plan[partition] = replicas
    if not plan:
        raise ToolFailed("Partition reassignment list cannot be empty")
    return plan


def plan_text(plan: Plan, directories: dict[tuple[TopicPartition, int], str] | None = None) -> str:
    entries = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": replicas,
            "log_dirs": [(directories or {}).get((partition, broker), "any") for broker in replicas],
        }
        for partition, replicas in sorted(plan.items())
    ]
    return json_files.compact({"version": 1, "partitions": entries})


async def current(client: ClusterClient, topics: Iterable[str]) -> Plan:
    """The current replicas."""
    names = sorted(set(topics))
    for name in names:
        try:
            await client.leaders([name])
        except Refused as refused:
            if refused.code is not ErrorCode.unknown_topic_or_partition:
                raise
            raise ToolFailed(f"Topic {name} not found.") from refused
    await client.leaders(names)
    return {
        TopicPartition(name, int(part.partition_index)): [int(node) for node in part.replica_nodes]
        for name in names
        for part in client.metadata.topics[name].partitions
    }


async def _directories(client: ClusterClient) -> dict[tuple[TopicPartition, int], str]:
    found = {}
    for node in client.metadata.nodes:
        answer = await client.request(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node=node)
        for directory in answer.results:
            for topic in directory.topics:
                for part in topic.partitions:
                    if part.is_future_key:
                        continue
                    found[TopicPartition(str(topic.name), int(part.partition_index)), node] = str(directory.log_dir)
    return found


def _topics_to_move(path: str) -> list[str]:
    document = json_files.read(path)
    entries = document.get("topics") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(e, dict) and "topic" in e for e in entries):
        raise ToolFailed(f'{path}: must be {{"topics":[{{"topic":"name"}}],"version":1}}')
    return [str(entry["topic"]) for entry in entries]


async def generate(arguments: Arguments, client: ClusterClient) -> None:
    topics = _topics_to_move(arguments["topics-to-move-json-file"])
    try:
        brokers = [int(part) for part in arguments["broker-list"].split(",")]
    except ValueError as error:
        raise ToolFailed(f"--broker-list {arguments['broker-list']!r}: must be broker ids as 0,1,2") from error
    if twice := sorted({broker for broker in brokers if brokers.count(broker) > 1}):
        raise ToolFailed(f"Broker list contains duplicate entries: {twice}")
    if unknown := [broker for broker in brokers if broker not in client.metadata.nodes]:
        raise ToolFailed(f"brokers {', '.join(map(str, unknown))} of --broker-list are not in the cluster")
    now = await current(client, topics)
    racks = {} if arguments["disable-rack-aware"] else {node.id: node.rack for node in client.metadata.nodes.values()}
    proposed: Plan = {}
    for topic in topics:
        partitions = sorted(partition for partition in now if partition.topic == topic)
        factor = len(now[partitions[0]])
        if factor > len(brokers):
            raise ToolFailed(f"Replication factor: {factor} larger than available brokers: {len(brokers)}")
        placed = place(brokers, len(partitions), factor, {b: racks.get(b) for b in brokers})
        proposed |= {partition: list(replicas) for partition, replicas in zip(partitions, placed, strict=True)}
    print(f"Current partition replica assignment\n{plan_text(now, await _directories(client))}\n")
    print(f"Proposed partition reassignment configuration\n{plan_text(proposed)}")


async def _alter(
    client: ClusterClient, plan: dict[TopicPartition, list[int] | None], allow_factor_change: bool = True
) -> None:
    topics: dict[str, list[dict[str, object]]] = {}
    for partition, replicas in plan.items():
        topics.setdefault(partition.topic, []).append({"partition_index": partition.partition, "replicas": replicas})
    body = {
        "timeout": 60_000,
        "allow_replication_factor_change": allow_factor_change,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }
    answer = await client.to_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, body)
    if answer.error_code:
        raise ToolFailed(answer_error(answer))
    failed = {
        f"{topic.name}-{part.partition_index}": answer_error(part)
        for topic in answer.responses
        for part in topic.partitions
        # It is no error to cancel a reassignment that has already ended.
        if part.error_code and part.error_code != ErrorCode.no_reassignment_in_progress
    }
    if failed:
        lines = "\n".join(f"{name}: {why}" for name, why in sorted(failed.items()))
        raise ToolFailed(f"Error reassigning partition(s):\n{lines}")


async def _moving(client: ClusterClient) -> dict[TopicPartition, OngoingPartitionReassignment]:
    answer = await client.to_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout": 60_000, "topics": None})
    if answer.error_code:
        raise ToolFailed(answer_error(answer))
    return {TopicPartition(str(t.name), int(p.partition_index)): p for t in answer.topics for p in t.partitions}


async def execute(arguments: Arguments, client: ClusterClient) -> None:
    plan = read_plan(arguments["reassignment-json-file"])
    targets = log_dir_moves.read_targets(arguments["reassignment-json-file"])
    brokers = set(client.metadata.nodes)
    if unknown := sorted({broker for replicas in plan.values() for broker in replicas} - brokers):
        raise ToolFailed(f"Unknown broker id {unknown[0]}")
    moving = await _moving(client)
    if moving and not arguments["additional"]:
        listed = ", ".join(sorted(map(str, moving)))
        raise ToolFailed(
            f"Cannot execute because there is an existing partition assignment ({listed}). "
            "Use --additional to override this."
        )
    now = await current(client, (partition.topic for partition in plan))
    if missing := sorted(partition for partition in plan if partition not in now):
        raise ToolFailed(f"Error reassigning partition(s): {missing[0]} does not exist")
    before = {partition: now[partition] for partition in plan}
    print(f"Current partition replica assignment\n\n{plan_text(before, await _directories(client))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if arguments["throttle"] >= 0 or arguments["replica-alter-log-dirs-throttle"] >= 0:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            "removed."
        )
    if arguments["throttle"] >= 0:
        await _throttle(client, moves(plan, before, moving), arguments["throttle"])
        print(f"The inter-broker throttle limit was set to {arguments['throttle']} B/s")
    if arguments["replica-alter-log-dirs-throttle"] >= 0:
        rate = arguments["replica-alter-log-dirs-throttle"]
        moving_brokers = sorted({replica.broker for replica in targets})
        await _configure(client, {(BROKER, str(node)): {log_dir_moves.THROTTLE: str(rate)} for node in moving_brokers})
        print(f"The replica-alter-dir throttle limit was set to {rate} B/s")
    await _alter(client, dict(plan), allow_factor_change=not arguments["disallow-replication-factor-change"])
    plural = "s" if len(plan) > 1 else ""
    print(f"Successfully started partition reassignment{plural} for {','.join(map(str, sorted(plan)))}", flush=True)
    await log_dir_moves.start(client, targets, arguments["timeout"])


def moves(
    plan: Plan, now: Plan, moving: dict[TopicPartition, OngoingPartitionReassignment]
) -> dict[TopicPartition, tuple[set[int], set[int]]]:
    """Old and new replicas of each partition in the plan, and of partitions that are already being reassigned: writing
    the topic's throttle setting would otherwise remove their throttle."""
    found = {}
    for partition, move in moving.items():
        adding = set(map(int, move.adding_replicas))
        found[partition] = (set(map(int, move.replicas)) - adding, adding)
    for partition, replicas in plan.items():
        # Replicas that are still being added cannot be a source yet.
        sources = found[partition][0] if partition in found else set(now[partition])
        found[partition] = (sources, set(replicas) - sources)
    return found


async def _throttle(client: ClusterClient, moved: dict[TopicPartition, tuple[set[int], set[int]]], rate: int) -> None:
    """Limits replication of the moving partitions to `rate`: at the old replicas as leaders, at the new ones as
    followers."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for partition, (sources, targets) in moved.items():
        leaders.setdefault(partition.topic, []).extend(f"{partition.partition}:{b}" for b in sources)
        followers.setdefault(partition.topic, []).extend(f"{partition.partition}:{b}" for b in targets)
    changes = {
        (TOPIC, topic): {
            f"{LEADER_THROTTLE}.replicas": ",".join(sorted(leaders[topic])),
            f"{FOLLOWER_THROTTLE}.replicas": ",".join(sorted(followers[topic])),
        }
        for topic in leaders
    }
    for broker in client.metadata.nodes:
        changes[BROKER, str(broker)] = {f"{LEADER_THROTTLE}.rate": str(rate), f"{FOLLOWER_THROTTLE}.rate": str(rate)}
    await _configure(client, {resource: dict(values) for resource, values in changes.items()})


async def _clear_throttles(client: ClusterClient, topics: Iterable[str]) -> None:
    brokers = sorted(client.metadata.nodes)
    names = sorted(set(topics))
    print(f"Clearing broker-level throttles on broker{'s' if len(brokers) > 1 else ''} {','.join(map(str, brokers))}")
    print(f"Clearing topic-level throttles on topic{'s' if len(names) > 1 else ''} {','.join(names)}")
    keys = (f"{LEADER_THROTTLE}.rate", f"{FOLLOWER_THROTTLE}.rate", log_dir_moves.THROTTLE)
    rates: dict[str, str | None] = dict.fromkeys(keys)
    replicas: dict[str, str | None] = {f"{LEADER_THROTTLE}.replicas": None, f"{FOLLOWER_THROTTLE}.replicas": None}
    changes: dict[tuple[int, str], dict[str, str | None]] = {(BROKER, str(broker)): rates for broker in brokers}
    changes |= {(TOPIC, topic): replicas for topic in names}
    await _configure(client, changes)


async def _configure(client: ClusterClient, changes: Mapping[tuple[int, str], Mapping[str, str | None]]) -> None:
    for (kind, name), values in changes.items():
        configs = [{"name": n, "config_operation": DELETE if v is None else SET, "value": v} for n, v in values.items()]
        body = {
            "resources": [{"resource_type": kind, "resource_name": name, "configs": configs}],
            "validate_only": False,
        }
        answer = await client.request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, body, node=int(name) if kind == BROKER else None
        )
        if answer.responses[0].error_code:
            raise ToolFailed(f"configuring {name}: {answer_error(answer.responses[0])}")


async def verify(arguments: Arguments, client: ClusterClient) -> None:
    plan = read_plan(arguments["reassignment-json-file"])
    moving = await _moving(client)
    now = await current(client, (partition.topic for partition in plan))
    print("Status of partition reassignment:")
    for partition, wanted in sorted(plan.items()):
        if partition in moving:
            print(f"Reassignment of partition {partition} is still in progress.")
        elif partition not in now:
            print(f"There is no active reassignment of partition {partition}, but the partition does not exist.")
        elif now[partition] != wanted:
            found = ",".join(map(str, now[partition]))
            print(
                f"There is no active reassignment of partition {partition}, but replica set is {found} rather than "
                f"{','.join(map(str, wanted))}."
            )
        else:
            print(f"Reassignment of partition {partition} is completed.")
    targets = log_dir_moves.read_targets(arguments["reassignment-json-file"])
    places = await log_dir_moves.places(client, targets)
    print("\n".join(log_dir_moves.status(replica, targets[replica], places[replica]) for replica in sorted(targets)))
    moving_dirs = any(place.future is not None for place in places.values())
    if not moving and not moving_dirs and not arguments["preserve-throttles"]:
        await _clear_throttles(client, (partition.topic for partition in plan))


async def cancel(arguments: Arguments, client: ClusterClient) -> None:
    plan = read_plan(arguments["reassignment-json-file"])
    moving = {partition for partition in await _moving(client) if partition in plan}
    if not moving:
        print("None of the specified partition reassignments are active.")
    else:
        await _alter(client, dict.fromkeys(sorted(moving)))
        plural = "s" if len(moving) > 1 else ""
        print(f"Successfully cancelled partition reassignment{plural} for: {','.join(map(str, sorted(moving)))}")
    targets = log_dir_moves.read_targets(arguments["reassignment-json-file"])
    places = await log_dir_moves.places(client, targets)
    back = {replica: place.current for replica, place in places.items() if place.future and place.current}
    if back:
        await log_dir_moves.start(client, back, arguments["timeout"])
    else:
        print("None of the specified partition moves are active.")
    if not arguments["preserve-throttles"]:
        await _clear_throttles(client, (partition.topic for partition in plan))


async def list_moves(arguments: Arguments, client: ClusterClient) -> None:
    moving = await _moving(client)
    if not moving:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, move in sorted(moving.items()):
        parts = [f"replicas: {','.join(map(str, map(int, move.replicas)))}."]
        if move.adding_replicas:
            parts.append(f"adding: {','.join(map(str, map(int, move.adding_replicas)))}.")
        if move.removing_replicas:
            parts.append(f"removing: {','.join(map(str, map(int, move.removing_replicas)))}.")
        print(f"{partition}: {' '.join(parts)}")


TOOL = Tool("Move partitions between brokers.", OPTIONS, run, check=check)

if __name__ == "__main__":
    sys.exit(TOOL.main())
