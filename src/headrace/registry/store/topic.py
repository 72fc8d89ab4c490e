"""The topic `_schemas`: creates it, finds its leader and end, fetches its records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from headrace.client.cluster_client import ClusterClient, check
from headrace.client.errors import NoAnswer, Unreachable
from headrace.client.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.record_fetch import READ_COMMITTED, visible_records
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonValue
from headrace.records.builder import Record
from headrace.wire.apis import ApiKey

_REPLICATION_FACTOR: Final = 3
_PAUSE_S: Final = 0.1
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_controller,
        ErrorCode.concurrent_transactions,
        ErrorCode.broker_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
    }
)
T = TypeVar("T")


def is_retriable(fault: Fault) -> bool:
    return isinstance(fault, Unreachable | NoAnswer) or fault.code in _RETRIABLE


async def retrying(attempt: Callable[[], Awaitable[T]], timeout_s: float) -> T:
    """Retries until the time-out while leaders or coordinators change."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            return await attempt()
        except Fault as fault:
            if not is_retriable(fault) or asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(_PAUSE_S)


class SchemasTopic:
    """Has one partition. Each user needs its own client, because a waiting fetch blocks its connection."""

    def __init__(self, client: ClusterClient, name: str) -> None:
        self.client = client
        self.name = name
        self.partition = TopicPartition(name, 0)

    async def create(self) -> None:
        """Creates the topic unless it exists."""
        metadata = await self.client.refresh(topics=[self.name])
        topic = metadata.topics.get(self.name)
        if topic is not None and not topic.error_code:
            return
        body = {
            "topics": [
                {
                    "name": self.name,
                    "num_partitions": 1,
                    "replication_factor": min(_REPLICATION_FACTOR, len(metadata.nodes)),
                    "assignments": [],
                    "configs": [{"name": "cleanup.policy", "value": "compact"}],
                }
            ],
            "timeout": 30_000,
            "validate_only": False,
        }
        answer = (await self.client.to_controller(ApiKey.CREATE_TOPICS, body)).topics[0]
        if answer.error_code != ErrorCode.topic_already_exists:
            check(answer.error_code, answer.error_message, f"topic {self.name!r}")

    async def leader(self) -> int:
        leader = (await self.client.leaders([self.name])).get(self.partition, -1)
        if leader < 0:
            raise Refused(ErrorCode.leader_not_available, f"topic {self.name!r} has no leader")
        return leader

    async def earliest(self) -> int:
        return await self._offset(EARLIEST)

    async def end(self) -> int:
        """The offset after the last committed record."""
        return await self._offset(LATEST)

    async def _offset(self, time: int) -> int:
        leaders = {self.partition: await self.leader()}
        answers = await list_offsets(self.client, {self.partition: time}, leaders, isolation_level=READ_COMMITTED)
        found = answers[self.partition]
        if isinstance(found, Fault):
            raise found
        return found.offset

    async def fetch(self, leader: int, offset: int, *, max_wait_ms: int, max_bytes: int) -> tuple[list[Record], int]:
        """Committed records from `offset` on, and the next offset to fetch."""
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes, "log_start_offset": -1}
        body: dict[str, JsonValue] = {
            "replica_id": -1,
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": max_bytes,
            "isolation_level": READ_COMMITTED,
            "session_id": 0,
            "session_epoch": -1,
            "rack_id": "",
            "forgotten_topics_data": [],
            "topics": [{"topic": self.name, "partitions": [{**part, "current_leader_epoch": -1}]}],
        }
        answer = await self.client.request(ApiKey.FETCH, body, node=leader, at_most=11)
        check(answer.error_code, None, f"fetch of topic {self.name!r}")
        found = answer.responses[0].partitions[0]
        check(found.error_code, None, f"fetch of topic {self.name!r} at offset {offset}")
        aborted = [(int(each.producer_id), int(each.first_offset)) for each in found.aborted_transactions or ()]
        return visible_records(bytes(found.records or b""), aborted, offset)
