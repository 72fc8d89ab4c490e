"""Users, transactions, quotas and reassignments of a cluster. Each raises Refused with the broker's message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.client.cluster_client import TRANSACTION, ClusterClient, check
from headrace.client.scram_users import described
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

_QUOTA_ORDER: Final = ("user", "client-id", "ip")


@dataclass(frozen=True, slots=True)
class Transaction:
    id: str
    state: str
    producer: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class Quota:
    entity: str
    key: str
    value: float


@dataclass(frozen=True, slots=True)
class Reassignment:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def users(client: ClusterClient) -> list[tuple[str, list[str]]]:
    """SCRAM users with their mechanisms."""
    answer = await client.request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})
    check(answer.error_code, answer.error_message, "users")
    return [(name, [mechanism for mechanism, _ in credentials]) for name, credentials in described(answer)]


async def transactions(client: ClusterClient) -> list[Transaction]:
    """Transactional ids of all coordinators."""
    body = {
        "state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": None,
    }  # fmt: skip
    nodes = sorted(client.metadata.nodes)
    answers = await asyncio.gather(*(client.request(ApiKey.LIST_TRANSACTIONS, body, node=node) for node in nodes))
    found = []
    for node, answer in zip(nodes, answers, strict=True):
        check(answer.error_code, None, f"transactions of broker {node}")
        found += [
            Transaction(str(t.transactional_id), str(t.transaction_state), int(t.producer_id), node)
            for t in answer.transaction_states
        ]
    return sorted(found, key=lambda one: one.id)


async def end_transaction(client: ClusterClient, name: str) -> None:
    """Aborts the open transaction and fences its producer."""
    body = {
        "transactional_id": name, "transaction_timeout": 1_000, "producer_id": -1, "producer_epoch": -1,
        "enable2_pc": False, "keep_prepared_txn": False,
    }  # fmt: skip
    answer = await client.to_coordinator(name, ApiKey.INIT_PRODUCER_ID, body, key_type=TRANSACTION)
    check(answer.error_code, None, f"transactional id {name}")


async def quotas(client: ClusterClient) -> list[Quota]:
    answer = await client.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False})
    check(answer.error_code, answer.error_message, "quotas")
    found = []
    for entry in answer.entries or ():
        parts = sorted(entry.entity, key=lambda one: _QUOTA_ORDER.index(str(one.entity_type)))
        entity = ", ".join(f"{one.entity_type} {one.entity_name or 'default'}" for one in parts)
        found += [Quota(entity, str(value.key), float(value.value)) for value in entry.values]
    return sorted(found, key=lambda quota: (quota.entity, quota.key))


async def reassignments(client: ClusterClient) -> list[Reassignment]:
    answer = await client.to_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout": 10_000, "topics": None})
    check(answer.error_code, answer.error_message, "reassignments")
    return [
        Reassignment(
            str(topic.name), int(part.partition_index), tuple(map(int, part.replicas)),
            tuple(map(int, part.adding_replicas)), tuple(map(int, part.removing_replicas)),
        )
        for topic in answer.topics
        for part in topic.partitions
    ]  # fmt: skip


async def reassign(client: ClusterClient, plan: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Starts to move partitions to these replicas; None cancels the move of a partition. Raises Refused."""
    topics: dict[str, list[dict[str, object]]] = {}
    for partition, replicas in plan.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(partition.topic, []).append({"partition_index": partition.partition, "replicas": wanted})
    body = {
        "timeout": 60_000, "allow_replication_factor_change": False,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }  # fmt: skip
    answer = await client.to_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, body)
    check(answer.error_code, answer.error_message, "reassignments")
    for topic in answer.responses:
        for part in topic.partitions:
            # A move that has ended meanwhile needs no cancellation.
            if part.error_code != ErrorCode.no_reassignment_in_progress:
                check(part.error_code, part.error_message, f"{topic.name}-{part.partition_index}")
