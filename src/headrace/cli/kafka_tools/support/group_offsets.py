"""Committed offsets of a consumer group and log end offsets, for `--describe` and `--reset-offsets`.

The arithmetic of a reset is pure (`Reset.target`). The cluster client reads and commits offsets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.cli.kafka_tools.support.tool import ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?\Z"
)


@dataclass(frozen=True, slots=True)
class Position:
    """The committed offset of a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


def parse_duration(text: str) -> timedelta:
    """ISO-8601 durations as P1D or PT1H30M. Raises ToolFailed."""
    found = _DURATION.match(text)
    if found is None or text in ("P", "PT"):
        raise ToolFailed(f"duration {text!r}: must be like P1D, PT2H or PT30M")
    return timedelta(**{unit: float(number) for unit, number in found.groupdict().items() if number})


def parse_datetime(text: str) -> int:
    """`YYYY-MM-DDTHH:mm:SS.sss`, with or without a zone (then UTC), in milliseconds. Raises ToolFailed."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ToolFailed(f"datetime {text!r}: must be like 2026-01-31T12:00:00.000") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


async def committed(
    client: ClusterClient, group: str, topics: Mapping[str, list[int]] | None = None
) -> dict[TopicPartition, Position]:
    """All committed offsets of the group, or only those of these partitions."""
    asked = None
    if topics is not None:
        asked = [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
    group_body = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": asked}
    body = {"groups": [group_body], "group_id": group, "topics": asked, "require_stable": False}
    # Version 10 uses topic ids, but users give names.
    answer = await client.to_coordinator(group, ApiKey.OFFSET_FETCH, body, at_most=9)
    found = answer.groups[0] if hasattr(answer, "groups") else answer
    if found.error_code:
        raise ToolFailed(answer_error(found))
    return {
        TopicPartition(str(topic.name), int(p.partition_index)): Position(
            int(p.committed_offset), int(getattr(p, "committed_leader_epoch", -1)), p.metadata
        )
        for topic in found.topics
        for p in topic.partitions
        if p.committed_offset >= 0
    }


async def commit(client: ClusterClient, group: str, positions: Mapping[TopicPartition, int]) -> None:
    topics: dict[str, list[dict[str, object]]] = {}
    for partition, offset in positions.items():
        entry = {"partition_index": partition.partition, "committed_offset": offset, "committed_metadata": ""}
        topics.setdefault(partition.topic, []).append(entry)
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }
    answer = await client.to_coordinator(group, ApiKey.OFFSET_COMMIT, body, at_most=9)
    for topic in answer.topics:
        for result in topic.partitions:
            if result.error_code:
                code = ErrorCode(result.error_code).name
                raise ToolFailed(f"{topic.name}-{result.partition_index} of group {group}: {code}")


async def ends(
    client: ClusterClient, partitions: list[TopicPartition], time: int = LATEST
) -> dict[TopicPartition, FoundOffset | Fault]:
    leaders = await client.leaders(sorted({partition.topic for partition in partitions})) if partitions else {}
    return await list_offsets(client, dict.fromkeys(partitions, time), leaders)


@dataclass(frozen=True, slots=True)
class Reset:
    """How offsets change. At most one field is set; none means the committed offset."""

    earliest: bool = False
    latest: bool = False
    offset: int | None = None
    shift: int | None = None
    time_ms: int | None = None
    explicit: Mapping[TopicPartition, int] | None = None

    async def targets(
        self, client: ClusterClient, partitions: list[TopicPartition], current: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, int]:
        first = {p: _known(found) for p, found in (await ends(client, partitions, EARLIEST)).items()}
        last = {p: _known(found) for p, found in (await ends(client, partitions, LATEST)).items()}
        at_time: dict[TopicPartition, int] = {}
        if self.time_ms is not None:
            found = await ends(client, partitions, self.time_ms)
            for partition, answer in sorted(found.items()):
                offset = _known(answer)
                if offset < 0:
                    # No record at or after the time: the log end offset.
                    name = f"Partition {partition.partition} from topic {partition.topic}"
                    print(f"\nWarn: {name} is empty. Falling back to latest known offset.")
                    offset = last[partition]
                at_time[partition] = offset
        targets = {}
        for partition in partitions:
            wanted = self.target(
                partition, first[partition], last[partition], at_time.get(partition), current.get(partition)
            )
            targets[partition] = min(max(wanted, first[partition]), last[partition])
        return targets

    def target(
        self, partition: TopicPartition, first: int, last: int, at_time: int | None, current: Position | None
    ) -> int:
        """The new offset, before it is limited to the range of the log."""
        if self.earliest:
            return first
        if self.latest:
            return last
        if self.offset is not None:
            return self.offset
        if self.explicit is not None:
            return self.explicit[partition]
        if at_time is not None:
            return at_time
        if current is None:
            if self.shift is not None:
                raise ToolFailed(
                    f"Cannot shift offset for partition {partition} since there is no current committed offset"
                )
            return last
        return current.offset + (self.shift or 0)


def _known(found: FoundOffset | Fault) -> int:
    if isinstance(found, Fault):
        raise found
    return found.offset
