"""kafka-transactions: lists and describes transactions, finds hanging ones, aborts or force-terminates them."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import TRANSACTION, ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_producers import ProducerState
    from headrace.wire.messages.answers.describe_transactions import TransactionState

ACTIONS = ("list", "describe", "describe-producers", "abort", "find-hanging", "forceTerminateTransaction")
OPTIONS = (
    *CONNECTION,
    Option("transactional-id", "The transactional id.", "id", also=("transactionalId",)),
    Option("topic", "The topic.", "topic"),
    Option("partition", "The partition.", "number", int),
    Option("broker-id", "The broker to look at.", "number", int),
    Option("start-offset", "Where the hanging transaction begins.", "offset", int),
    Option("producer-id", "The producer's id.", "number", int),
    Option("producer-epoch", "The producer's epoch.", "number", int),
    Option("coordinator-epoch", "The coordinator's epoch.", "number", int),
    Option("max-transaction-timeout", "How long a transaction may last at the most.", "minutes", int, default=15),
    Option("duration-filter", "Only transactions older than this.", "ms", int, default=-1),
    Option("transactional-id-pattern", "Only ids that match.", "regex"),
)


def check(arguments: Arguments) -> None:
    if len(arguments.rest) != 1 or arguments.rest[0] not in ACTIONS:
        raise UsageError(f"One of {', '.join(ACTIONS)} must be given")
    needed = {
        "describe": ("transactional-id",),
        "describe-producers": ("topic", "partition"),
        "forceTerminateTransaction": ("transactional-id",),
        "abort": ("topic", "partition"),
    }
    if arguments.rest[0] == "find-hanging":
        _check_scope(arguments)
    if arguments.rest[0] == "abort" and arguments["start-offset"] is None:
        needed["abort"] += ("producer-id", "producer-epoch", "coordinator-epoch")
        if arguments["producer-id"] is None:
            raise UsageError(
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) "
                "or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
            )
    for name in needed.get(arguments.rest[0], ()):
        if arguments[name] is None:
            raise UsageError(f"Missing required argument --{name}")


def _check_scope(arguments: Arguments) -> None:
    if arguments["broker-id"] is None and arguments["topic"] is None:
        raise UsageError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if arguments["partition"] is not None and arguments["topic"] is None:
        raise UsageError("The --partition argument requires --topic to be provided")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    actions = {
        "list": list_transactions,
        "describe": describe,
        "describe-producers": describe_producers,
        "abort": abort,
        "find-hanging": find_hanging,
        "forceTerminateTransaction": force_end,
    }
    await actions[arguments.rest[0]](arguments, client)


def table(heading: list[str], rows: list[list[object]]) -> None:
    """Columns as wide as their widest cell, separated by a tab, as Kafka's tool prints them."""
    lines: list[list[object]] = [[*heading], *rows]
    widths = [max(len(str(line[at])) for line in lines) for at in range(len(heading))]
    for row in lines:
        print("".join(f"{cell!s:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


async def list_transactions(arguments: Arguments, client: ClusterClient) -> None:
    body = {
        "state_filters": [],
        "producer_id_filters": [],
        "duration_filter": arguments["duration-filter"],
        "transactional_id_pattern": arguments["transactional-id-pattern"],
    }
    rows: list[list[object]] = []
    for node in sorted(client.metadata.nodes):
        answer = await client.request(ApiKey.LIST_TRANSACTIONS, body, node=node)
        if answer.error_code:
            raise ToolFailed(answer_error(answer))
        rows += [
            [str(t.transactional_id), node, int(t.producer_id), str(t.transaction_state)]
            for t in answer.transaction_states
        ]
    table(["TransactionalId", "Coordinator", "ProducerId", "TransactionState"], rows)


async def _state(client: ClusterClient, transactional_id: str) -> tuple[int, TransactionState]:
    node = await client.coordinator(transactional_id, TRANSACTION)
    answer = await client.request(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": [transactional_id]}, node=node)
    return node, answer.transaction_states[0]


async def describe(arguments: Arguments, client: ClusterClient) -> None:
    name = arguments["transactional-id"]
    node, found = await _state(client, name)
    if found.error_code == ErrorCode.transactional_id_not_found:
        raise ToolFailed(
            f"Failed to describe transaction state of transactional-id `{name}`: the ID could not be found."
        )
    if found.error_code:
        raise ToolFailed(f"Failed to describe transaction state of transactional-id `{name}`: {answer_error(found)}")
    started = int(found.transaction_start_time.timestamp() * 1000) if found.transaction_start_time else -1
    duration: object = "None" if started < 0 else int(time.time() * 1000) - started
    partitions = ",".join(f"{t.topic}-{p}" for t in found.topics for p in t.partitions)
    described: dict[str, object] = {
        "CoordinatorId": node,
        "TransactionalId": name,
        "ProducerId": int(found.producer_id),
        "ProducerEpoch": int(found.producer_epoch),
        "TransactionState": str(found.transaction_state),
        "TransactionTimeoutMs": int(found.transaction_timeout.total_seconds() * 1000),
        "CurrentTransactionStartTimeMs": "None" if started < 0 else started,
        "TransactionDurationMs": duration,
        "TopicPartitions": partitions,
    }
    table(list(described), [list(described.values())])


async def _producers(client: ClusterClient, partition: TopicPartition, node: int | None = None) -> list[ProducerState]:
    leader = (await client.leaders([partition.topic])).get(partition) if node is None else node
    if leader is None:
        raise ToolFailed(f"topic {partition.topic} has no partition {partition.partition}")
    body = {"topics": [{"name": partition.topic, "partition_indexes": [partition.partition]}]}
    answer = await client.request(ApiKey.DESCRIBE_PRODUCERS, body, node=leader)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise ToolFailed(
            f"Failed to describe producers for partition {partition} on broker {leader}: {answer_error(found)}"
        )
    return list(found.active_producers)


async def describe_producers(arguments: Arguments, client: ClusterClient) -> None:
    partition = TopicPartition(arguments["topic"], arguments["partition"])
    rows: list[list[object]] = [
        [
            int(p.producer_id), int(p.producer_epoch), "None" if p.coordinator_epoch < 0 else int(p.coordinator_epoch),
            int(p.last_sequence), int(p.last_timestamp),
            "None" if p.current_txn_start_offset < 0 else int(p.current_txn_start_offset),
        ]
        for p in await _producers(client, partition, arguments["broker-id"])
    ]  # fmt: skip
    heading = [
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    ]
    table(heading, rows)


async def abort(arguments: Arguments, client: ClusterClient) -> None:
    partition = TopicPartition(arguments["topic"], arguments["partition"])
    producer_id, epoch = arguments["producer-id"], arguments["producer-epoch"]
    coordinator_epoch = arguments["coordinator-epoch"]
    if arguments["start-offset"] is not None:
        producers = await _producers(client, partition)
        found = next((p for p in producers if p.current_txn_start_offset == arguments["start-offset"]), None)
        if found is None:
            start = arguments["start-offset"]
            raise ToolFailed(
                f"Could not find any open transactions starting at offset {start} on partition {partition}"
            )
        producer_id, epoch = found.producer_id, found.producer_epoch
        # Without a marker in this partition the coordinator epoch is not known yet.
        coordinator_epoch = max(0, int(found.coordinator_epoch))
    marker = {
        "producer_id": int(producer_id),
        "producer_epoch": int(epoch),
        "transaction_result": False,
        "topics": [{"name": partition.topic, "partition_indexes": [partition.partition]}],
        "coordinator_epoch": int(coordinator_epoch),
    }
    leader = (await client.leaders([partition.topic])).get(partition)
    if leader is None:
        raise ToolFailed(f"topic {partition.topic} has no partition {partition.partition}")
    answer = await client.request(ApiKey.WRITE_TXN_MARKERS, {"markers": [marker]}, node=leader)
    result = answer.markers[0].topics[0].partitions[0]
    if result.error_code:
        raise ToolFailed(
            f"Failed to abort the transaction of producer {producer_id} on {partition}: {answer_error(result)}"
        )


async def find_hanging(arguments: Arguments, client: ClusterClient) -> None:
    """Transactions that are open longer than the maximum time-out and unknown to their coordinator."""
    if arguments["topic"] is not None:
        await client.leaders([arguments["topic"]])
    await client.refresh(None)
    partitions = []
    for name, topic in client.metadata.topics.items():
        for part in topic.partitions:
            partition = TopicPartition(name, int(part.partition_index))
            wanted = arguments["topic"] in (None, name) and arguments["partition"] in (None, partition.partition)
            if wanted and arguments["broker-id"] in (None, int(part.leader_id)):
                partitions.append(partition)
    now_ms = int(time.time() * 1000)
    limit_ms = arguments["max-transaction-timeout"] * 60_000
    known = await _known_producers(client)
    rows: list[list[object]] = []
    answers = await asyncio.gather(*(_producers(client, partition) for partition in partitions))
    for partition, producers in zip(partitions, answers, strict=True):
        for p in producers:
            age_ms = now_ms - int(p.last_timestamp)
            open_here = p.current_txn_start_offset >= 0 and age_ms > limit_ms
            if open_here and partition not in known.get(int(p.producer_id), set()):
                offset, minutes = int(p.current_txn_start_offset), age_ms // 60_000
                row = [partition.topic, partition.partition, int(p.producer_id), int(p.producer_epoch)]
                rows.append([*row, int(p.coordinator_epoch), offset, int(p.last_timestamp), minutes])
    heading = [
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    ]
    table(heading, sorted(rows, key=lambda row: (row[0], row[1], row[2])))


async def _known_producers(client: ClusterClient) -> dict[int, set[TopicPartition]]:
    """Producer id → partitions in its ongoing transaction, according to the coordinator."""
    found: dict[int, set[TopicPartition]] = {}
    for node in client.metadata.nodes:
        answer = await client.request(
            ApiKey.LIST_TRANSACTIONS, {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}, node=node
        )
        for transaction in answer.transaction_states:
            _, state = await _state(client, str(transaction.transactional_id))
            partitions = {TopicPartition(str(t.topic), int(p)) for t in state.topics for p in t.partitions}
            found.setdefault(int(transaction.producer_id), set()).update(partitions)
    return found


async def force_end(arguments: Arguments, client: ClusterClient) -> None:
    """Initialises the transactional id: the new epoch fences its producer and aborts its open transaction."""
    name = arguments["transactional-id"]
    body = {"transactional_id": name, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
    answer = await client.to_coordinator(name, ApiKey.INIT_PRODUCER_ID, body, key_type=TRANSACTION)
    if answer.error_code and answer.error_code != ErrorCode.concurrent_transactions:
        raise ToolFailed(f"Failed to force terminate transactionalId `{name}`: {answer_error(answer)}")


TOOL = Tool(
    f"Look at transactions: {', '.join(ACTIONS)}.", OPTIONS, run, failure_prefix="", check=check, allow_rest=True
)

if __name__ == "__main__":
    sys.exit(TOOL.main())
