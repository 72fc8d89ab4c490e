"""Records that a broker has written to an internal topic since the last read, without the values that it generated.

The tests compare bytes, not the output of our own codecs: names replace ids, times and addresses in the bytes, and
everything else must be equal on both brokers.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from headrace.coordinators.codec.rebalance_causes import HEADER
from headrace.kernel.ids import coordinator_partition
from headrace.records.batch import batches
from headrace.records.reader import read_records
from tests.differential.servers import Server
from tests.support.clock import PATIENCE_S, Stopwatch

FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
Written = tuple[str, bytes, bytes | None]


class InternalTopic:
    """One partition of an internal topic of one broker, read from its current end."""

    def __init__(self, server: Server, topic: str, key: str) -> None:
        self._server = server
        self._topic = topic
        body = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
        (found,) = server.ask(METADATA, 12, {**body, "include_topic_authorized_operations": False})["topics"]
        self._partition = coordinator_partition(key, len(found["partitions"]))
        self._next = self._end()
        self._since_ms = time.time_ns() // 1_000_000
        self.names: dict[bytes, bytes] = {}

    def call(self, value: str | uuid.UUID, name: str) -> None:
        """Replaces these bytes with the name, at the same length, so that records stay readable."""
        data = value.encode() if isinstance(value, str) else value.bytes
        self.names[data] = (b"<%s>" % name.encode()).ljust(len(data), b"-")[: len(data)]

    def _end(self) -> int:
        asked = {"partition_index": self._partition, "current_leader_epoch": -1, "timestamp": -1}
        topics = [{"name": self._topic, "partitions": [asked]}]
        answer = self._server.ask(LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": topics})
        return int(answer["topics"][0]["partitions"][0]["offset"])

    def written(self) -> list[Written]:
        """Kind of the batch, key and value of each record since the last read."""
        found: list[Written] = []
        while self._next < self._end():
            for batch in batches(memoryview(self._fetch())):
                if batch.base_offset < self._next:
                    continue
                kind = "plain" if not batch.is_transactional else "control" if batch.is_control else "transactional"
                for record in read_records(batch):
                    value = None if record.value is None else self._masked(record.value)
                    assert record.key is not None
                    # The only difference: why a member went (ADR 24). Kafka skips headers of these records.
                    assert all(name == HEADER for name, _ in record.headers)
                    found.append((kind, self._masked(record.key), value))
                self._next = batch.last_offset + 1
        return found

    def _fetch(self) -> bytes:
        asked = {
            "partition": self._partition,
            "current_leader_epoch": -1,
            "fetch_offset": self._next,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        body: dict[str, Any] = {
            "replica_id": -1,
            "max_wait": 100,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "forgotten_topics_data": [],
            "rack_id": "",
            "topics": [{"topic": self._topic, "partitions": [asked]}],
        }
        answer = self._server.ask(FETCH, 12, body)
        records: bytes = answer["responses"][0]["partitions"][0]["records"] or b""
        return bytes(records)

    def _masked(self, data: bytes) -> bytes:
        for value, name in self.names.items():
            data = data.replace(value, name)
        # A time during this test, in milliseconds: eight bytes with the same beginning.
        now = (self._since_ms >> 24).to_bytes(5, "big")
        later = ((self._since_ms >> 24) + 1).to_bytes(5, "big")
        return re.sub(b"(?s)(?:%s|%s)..." % (re.escape(now), re.escape(later)), b"<-time->", data)


def both_wrote(
    kafka: InternalTopic, ours: InternalTopic, adjusted: Callable[..., list[Written]], patience_s: float = PATIENCE_S
) -> tuple[list[Written], list[Written]]:
    """Records of both brokers, without an order: Kafka's order within a step is that of its maps. Some records
    may follow the answer, so the test reads again if the two differ.
    """
    theirs, mine = kafka.written(), ours.written()
    watch = Stopwatch()
    while True:
        both = adjusted(theirs, by="Kafka"), adjusted(mine, by="Headrace")
        if both[0] == both[1] or watch.has_run(patience_s):
            return both
        time.sleep(0.02)
        theirs += kafka.written()
        mine += ours.written()
