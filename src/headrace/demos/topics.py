"""Reads whole topics, again and again: each call adds the new records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.records.builder import Record

# The result of a demo: what `check.py` computes and what the pipeline wrote, by any key.
Result: TypeAlias = dict[str, Any]
_SETTINGS = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=30, max_wait_ms=50)


class Contents:
    """The records of some topics, as far as they were read."""

    def __init__(self, client: BlockingClient, topics: Iterable[str]) -> None:
        self._client = client
        self.records: dict[str, list[Record]] = {topic: [] for topic in topics}
        known = client.topics(list(self.records))
        self._partitions = [(topic, index) for topic in self.records for index in known[topic].partitions]
        self._at = client.list_offsets(dict.fromkeys(self._partitions, EARLIEST))

    def read_new(self) -> int:
        """Reads up to the present end. Returns the number of new records."""
        ends = self._client.list_offsets(dict.fromkeys(self._partitions, LATEST), isolation=READ_COMMITTED)
        new = 0
        for partition in self._partitions:
            if ends[partition] > self._at[partition]:
                found = list(fetched_records(self._client, partition, self._at[partition], ends[partition], _SETTINGS))
                self.records[partition[0]] += found
                self._at[partition] = ends[partition]
                new += len(found)
        return new

    def rows(self, topic: str) -> Iterator[dict[str, Any]]:
        """The values of a topic that are JSON objects. Malformed values are left out, as the pipelines do."""
        for record in self.records[topic]:
            try:
                value = json.loads(record.value or b"null")
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value

    def latest(self, topic: str) -> dict[str, dict[str, Any]]:
        """The last value of every key, as a compacted topic keeps it."""
        found: dict[str, dict[str, Any]] = {}
        for record in self.records[topic]:
            key = (record.key or b"").decode()
            if record.value is None:
                found.pop(key, None)
            else:
                found[key] = json.loads(record.value)
        return found
