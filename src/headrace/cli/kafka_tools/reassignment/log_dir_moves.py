"""The `log_dirs` of a reassignment plan: moves of replicas between the log directories of their broker."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from headrace.cli.kafka_tools.support import json_files
from headrace.cli.kafka_tools.support.tool import ToolFailed
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.wire.apis import ApiKey

ANY = "any"
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
_PAUSE_S = 0.1


class ReplicaName(NamedTuple):
    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class Places(NamedTuple):
    """The log directories of one replica. `future` is the one that it moves to."""

    current: str | None = None
    future: str | None = None


Targets = dict[ReplicaName, str]


def read_targets(path: str) -> Targets:
    """The directory of each replica for which the plan names one."""
    targets: Targets = {}
    for entry in json_files.partitions(path, "topic", "partition", "replicas"):
        partition = json_files.topic_partition(path, entry)
        brokers, directories = entry["replicas"], entry.get("log_dirs")
        if directories is None:
            continue
        if not isinstance(brokers, list) or not isinstance(directories, list) or len(brokers) != len(directories):
            raise ToolFailed(
                f"Size of replicas list {brokers} is different from size of log dirs list {directories} for partition "
                f"{partition}"
            )
        for broker, directory in zip(brokers, directories, strict=True):
            if directory != ANY:
                number = json_files.whole_number(path, "replicas", broker)
                targets[ReplicaName(partition.topic, partition.partition, number)] = str(directory)
    return targets


async def start(client: ClusterClient, targets: Targets, timeout_ms: int) -> None:
    """Asks the brokers until every move has begun: a replica that a reassignment brings is not there at once."""
    left, deadline = dict(targets), time.monotonic() + timeout_ms / 1000
    while left:
        for replica in sorted(await _begun(client, left)):
            print(
                f"Successfully started moving log directory to {left.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker} "
            )
        if left and time.monotonic() >= deadline:
            plural = "s" if len(left) > 1 else ""
            names = ",".join(map(str, sorted(left)))
            raise ToolFailed(f"Timed out before log directory move{plural} could be started for: {names}")
        if left:
            await asyncio.sleep(_PAUSE_S)


async def _begun(client: ClusterClient, targets: Targets) -> list[ReplicaName]:
    begun = []
    for broker in sorted({replica.broker for replica in targets}):
        by_path: dict[str, dict[str, list[int]]] = {}
        for replica, path in targets.items():
            if replica.broker == broker:
                by_path.setdefault(path, {}).setdefault(replica.topic, []).append(replica.partition)
        dirs = [
            {"path": path, "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()]}
            for path, topics in by_path.items()
        ]
        answer = await client.request(ApiKey.ALTER_REPLICA_LOG_DIRS, {"dirs": dirs}, node=broker)
        for topic in answer.results:
            for part in topic.partitions:
                replica = ReplicaName(str(topic.topic_name), int(part.partition_index), broker)
                if not part.error_code:
                    begun.append(replica)
                elif part.error_code != ErrorCode.replica_not_available:
                    why = ErrorCode(part.error_code).name
                    raise ToolFailed(f"Failed to alter dir for {replica} to {targets[replica]}: {why}")
    return begun


async def places(client: ClusterClient, replicas: Targets) -> dict[ReplicaName, Places]:
    """Where the replicas are now; without those of which the broker has no log directory."""
    found: dict[ReplicaName, Places] = {}
    for broker in sorted({replica.broker for replica in replicas}):
        answer = await client.request(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node=broker)
        for directory in answer.results:
            for topic in directory.topics:
                for part in topic.partitions:
                    replica = ReplicaName(str(topic.name), int(part.partition_index), broker)
                    known, path = found.get(replica, Places()), str(directory.log_dir)
                    found[replica] = known._replace(**{"future" if part.is_future_key else "current": path})
    return {replica: found.get(replica, Places()) for replica in replicas}


def status(replica: ReplicaName, target: str, place: Places) -> str:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if place.current is None:
        return (
            f"{partition} is not found in any live log dir on broker {replica.broker}. There is likely an offline log "
            "directory on the broker."
        )
    if place.future is None:
        if place.current == target:
            return f"Reassignment of replica {replica} completed successfully."
        return f"{partition} on broker {replica.broker} is not being moved from log dir {place.current} to {target}."
    if place.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    return f"{partition} on broker {replica.broker} is being moved to log dir {place.future} instead of {target}."
