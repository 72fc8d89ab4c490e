"""The generations of a classic group, read from the coordinator's records: which members joined and left, and when.

A group that rebalances often looks healthy between two rebalances. Each generation is a record in the offsets topic
with its members, so the last records show what happened. Compaction keeps at least the newest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

from headrace.cli.kafka_tools.support.internal_records import describe_group_record
from headrace.cli.records.reader import Span, read
from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import EARLIEST, LATEST, list_offsets
from headrace.kernel.errors import Fault
from headrace.kernel.ids import GROUP_METADATA_TOPIC, TopicPartition, coordinator_partition

# Offset commits are between the generations. This many records cover some minutes of a busy group.
_TAIL_RECORDS: Final = 5_000
_GROUP_METADATA: Final = "2"


@dataclass(frozen=True, slots=True)
class Generation:
    number: int
    at_ms: int
    members: dict[str, str]  # member id → `client at host`
    rebalance_timeout_ms: int


async def tails(client: ClusterClient, groups: list[str]) -> dict[TopicPartition, Span]:
    """Offset ranges with the newest records of these groups; empty if the cluster has had no group yet."""
    topic = (await client.refresh([GROUP_METADATA_TOPIC])).topics.get(GROUP_METADATA_TOPIC)
    if topic is None or topic.error_code or not topic.partitions:
        return {}
    count = len(topic.partitions)
    wanted = sorted({TopicPartition(GROUP_METADATA_TOPIC, coordinator_partition(group, count)) for group in groups})
    leaders = await client.leaders([GROUP_METADATA_TOPIC])
    first = await list_offsets(client, dict.fromkeys(wanted, EARLIEST), leaders)
    last = await list_offsets(client, dict.fromkeys(wanted, LATEST), leaders)
    spans = {}
    for partition in wanted:
        low, high = first[partition], last[partition]
        if not isinstance(low, Fault) and not isinstance(high, Fault):
            spans[partition] = Span(max(low.offset, high.offset - _TAIL_RECORDS), high.offset)
    return spans


def generations(
    address: str, spans: dict[TopicPartition, Span], settings: Mapping[str, str]
) -> dict[str, list[Generation]]:
    """Generations by group, oldest first. Blocks while it reads."""
    found: dict[str, list[Generation]] = {}
    for record in read(address, spans, committed_only=False, client=settings):
        key, value = describe_group_record(record.key, record.value)
        if key is None or value is None or not key.startswith("{"):
            continue
        head = json.loads(key)
        if head["type"] == _GROUP_METADATA:
            found.setdefault(head["data"]["group"], []).append(
                _generation(json.loads(value)["data"], record.timestamp_ms)
            )
    return found


class _Member(TypedDict):
    memberId: str
    clientId: str
    clientHost: str
    rebalanceTimeout: int


class _GroupMetadata(TypedDict):
    generation: int
    members: list[_Member]


def _generation(data: _GroupMetadata, at_ms: int) -> Generation:
    members = {m["memberId"]: f"{m['clientId']} at {m['clientHost'].lstrip('/')}" for m in data["members"]}
    return Generation(
        data["generation"], at_ms, members, max((m["rebalanceTimeout"] for m in data["members"]), default=0)
    )


def change(before: Generation, after: Generation) -> tuple[list[str], list[str]]:
    """Members that joined and members that left between two generations, as text."""
    came = sorted(who for member, who in after.members.items() if member not in before.members)
    went = sorted(who for member, who in before.members.items() if member not in after.members)
    return came, went
