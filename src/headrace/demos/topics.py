"""The topics of a demo: their settings, and their records, read again and again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient, TopicMetadata
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.demos.lake import Lake
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.json_values import JsonObject
from headrace.records.builder import Record

# The result of a demo: what `check.py` computes and what the demo wrote, by any key.
Result: TypeAlias = JsonObject
_SETTINGS = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=30, max_wait_ms=50)
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class TopicSettings:
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


def compacted(partitions: int = 1) -> TopicSettings:
    """Keeps the last record of every key: a table."""
    return TopicSettings(partitions, {"cleanup.policy": "compact"})


def kept(days: float, partitions: int = 1, *, compact: bool = False) -> TopicSettings:
    """Keeps records for some days: a stream. With `compact` only the last record of every key."""
    policy = {"cleanup.policy": "compact,delete"} if compact else {}
    return TopicSettings(partitions, {**policy, "retention.ms": str(int(days * _DAY_MS))})


def kept_for_ever(partitions: int = 1) -> TopicSettings:
    """Keeps every record: the topic is the source of truth."""
    return TopicSettings(partitions, {"retention.ms": "-1"})


class Contents:
    """The records of some topics, as far as they were read."""

    def __init__(self, client: BlockingClient, topics: Iterable[str], lake: Lake | None = None) -> None:
        self._client, self._lake = client, lake
        self.records: dict[str, list[Record]] = {topic: [] for topic in topics}
        self._rows: dict[str, list[JsonObject]] = {topic: [] for topic in self.records}
        self._latest: dict[str, dict[str, JsonObject]] = {topic: {} for topic in self.records}
        known = client.retrying("waiting for topics", lambda: _known(client, list(self.records)))
        self._partitions = [(topic, index) for topic in self.records for index in known[topic].partitions]
        self._at = client.list_offsets(dict.fromkeys(self._partitions, EARLIEST)) if self._partitions else {}

    @property
    def lake(self) -> Lake:
        """The tables of the demo's pipeline."""
        assert self._lake is not None, "only the outputs of a demo have tables"
        return self._lake

    def read_new(self) -> int:
        """Reads up to the present end. Returns the number of new records."""
        if not self._partitions:
            return 0
        ends = self._client.list_offsets(dict.fromkeys(self._partitions, LATEST), isolation=READ_COMMITTED)
        new = 0
        for partition in self._partitions:
            if ends[partition] > self._at[partition]:
                found = list(fetched_records(self._client, partition, self._at[partition], ends[partition], _SETTINGS))
                self._take(partition[0], found)
                self._at[partition] = ends[partition]
                new += len(found)
        return new

    def _take(self, topic: str, found: list[Record]) -> None:
        self.records[topic] += found
        latest = self._latest[topic]
        for record in found:
            key, value = (record.key or b"").decode(errors="replace"), json_object(record.value)
            if value is not None:
                self._rows[topic].append(value)
                latest[key] = value
            elif record.value is None:
                latest.pop(key, None)

    def rows(self, topic: str) -> Iterator[JsonObject]:
        """The values of a topic that are JSON objects. Malformed values are left out, as the pipelines do."""
        return iter(self._rows[topic])

    def latest(self, topic: str) -> dict[str, JsonObject]:
        """The last value of every key, as a compacted topic keeps it."""
        return self._latest[topic]


def _known(client: BlockingClient, names: list[str]) -> dict[str, TopicMetadata]:
    """A broker of a cluster may hear of a new topic a moment after the broker that created it."""
    found = client.topics(names)
    for name in names:
        if name not in found:
            raise Refused(ErrorCode.leader_not_available, f"there is no topic {name!r}")
    return found


def json_object(value: bytes | None) -> JsonObject | None:
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
