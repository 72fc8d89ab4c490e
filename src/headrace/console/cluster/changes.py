"""Changes of topics: create, grow, empty, delete. Each raises Refused with the broker's message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from headrace.client.cluster_client import ClusterClient, check
from headrace.console.cluster.facts import Topic
from headrace.console.cluster.offsets import ends, partitions_of
from headrace.kernel.errors import ErrorCode
from headrace.wire.apis import ApiKey

_TIMEOUT_MS: Final = 30_000
_KNOWN_S: Final = 5.0
_PAUSE_S: Final = 0.02


async def create_topic(
    client: ClusterClient, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> None:
    """-1 partitions or replicas: the broker's default."""
    settings = [{"name": key, "value": value} for key, value in configs.items()]
    topic = {
        "name": name, "num_partitions": partitions, "replication_factor": replicas, "assignments": [],
        "configs": settings,
    }  # fmt: skip
    body = {"topics": [topic], "timeout": _TIMEOUT_MS, "validate_only": False}
    result = (await client.to_controller(ApiKey.CREATE_TOPICS, body)).topics[0]
    check(result.error_code, result.error_message, f"topic {name}")
    await _until_known(client, name)


async def _until_known(client: ClusterClient, name: str) -> None:
    """The controller answers first, and other brokers follow. The page of the topic may ask one of them. If the broker
    does not know the topic in time, the page says so: the topic was created all the same."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_KNOWN_S):
            while True:
                found = (await client.refresh([name])).topics.get(name)
                if found is not None and found.error_code != ErrorCode.unknown_topic_or_partition:
                    return
                await asyncio.sleep(_PAUSE_S)


async def grow_topic(client: ClusterClient, name: str, partitions: int) -> None:
    wanted = {"name": name, "count": partitions, "assignments": None}
    body = {"topics": [wanted], "timeout": _TIMEOUT_MS, "validate_only": False}
    result = (await client.to_controller(ApiKey.CREATE_PARTITIONS, body)).results[0]
    check(result.error_code, result.error_message, f"topic {name}")


async def delete_topic(client: ClusterClient, name: str) -> None:
    body = {"topics": [{"name": name, "topic_id": None}], "topic_names": [name], "timeout": _TIMEOUT_MS}
    result = (await client.to_controller(ApiKey.DELETE_TOPICS, body)).responses[0]
    check(result.error_code, getattr(result, "error_message", None), f"topic {name}")


async def empty_topic(client: ClusterClient, topic: Topic) -> None:
    """Deletes the records up to the end of each partition at this moment."""
    leaders = partitions_of([topic])
    for node in sorted(set(leaders.values())):
        parts = [
            {"partition_index": partition.partition, "offset": offset}
            for partition, offset in (await ends(client, [topic])).items()
            if leaders[partition] == node
        ]
        if parts:
            body = {"topics": [{"name": topic.name, "partitions": parts}], "timeout": _TIMEOUT_MS}
            for result in (await client.request(ApiKey.DELETE_RECORDS, body, node=node)).topics[0].partitions:
                check(result.error_code, None, f"{topic.name}-{result.partition_index}")
