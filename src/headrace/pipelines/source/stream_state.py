"""State of a streaming query besides its offsets: topic ids, and the number of records it missed.

Spark's checkpoint keeps offsets as `{"topic": {"0": 23}}`. Monitoring programs parse this format, so the source cannot
add other data to it. Spark gives a Python source no other place in the checkpoint, not even its path. The topic id is
necessary: without it the query cannot detect a topic that was deleted, created again and filled past the old offset,
and would skip its first records.

The source therefore writes notes to the compacted topic `__streams` of the cluster that it reads:

    {"query": id, "topic": "orders", "partition": 0}
        → {"topic_id": …, "batch": 17, "begins_again": false}
    {"query": id, "topic": "orders", "partition": 0, "batch": 17, "start": 23}
        → {"missed": 5}

The query's id is the one in its checkpoint. Tasks write the notes, because only tasks get the id from Spark. A note has
the number of the batch that wrote it. If Spark repeats that batch after a failure, it finds its own note and does the
same again.

If the notes cannot be written (missing ACLs, no leader), the query logs a warning and continues. It then detects a
recreated topic only while it runs, or if the topic is shorter than the offset, as Spark's own connector does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient, TopicPartitionPair
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import write_records
from headrace.kernel.errors import Fault
from headrace.pipelines.errors import DataLossError
from headrace.pipelines.spark.running_batch import RunningBatch
from headrace.records.builder import Record

NOTES_TOPIC: Final = "__streams"
_PARTITION: Final = (NOTES_TOPIC, 0)
_PAUSE_S: Final = 60.0


@dataclass(frozen=True)
class TopicNote:
    topic_id: str
    # The batch that wrote this note. If `begins_again`, it reads the partition from its beginning.
    batch_id: int
    begins_again: bool


@dataclass(frozen=True)
class _Key:
    query_id: str
    partition: TopicPartitionPair


class StreamNotes:
    """The notes in one cluster, read on demand. Owned by one worker process."""

    def __init__(self, client: BlockingClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._exists = False
        self._next_offset: int | None = None
        self._topics: dict[_Key, TopicNote] = {}
        self._missed: dict[_Key, dict[tuple[int, int], int]] = {}
        self._paused_until = 0.0

    def begins_again(
        self, batch: RunningBatch, partition: TopicPartitionPair, topic_id: str, *, accepts_loss: bool
    ) -> bool:
        """Whether this batch reads the partition from its beginning, because the topic was recreated since the query
        last read it. Raises DataLossError in this case if the query does not accept loss."""
        key = _Key(batch.query_id, partition)
        known = self._topics.get(key)
        if known is None or known.topic_id != topic_id:
            # Another worker may have read the partition before.
            self._guarded(self._read_new)
            known = self._topics.get(key) or self._note_of_sibling(key, topic_id)
        if known is not None and known.topic_id == topic_id:
            return known.begins_again and known.batch_id == batch.batch_id
        if known is not None and not accepts_loss:
            raise DataLossError(
                f"topic {partition[0]!r} was deleted and created again (its id was {known.topic_id} and is "
                f"{topic_id}); set failOnDataLoss=false to read the new topic from its beginning, or start again with "
                "a new checkpointLocation"
            )
        note = TopicNote(topic_id, batch.batch_id, begins_again=known is not None)
        self._guarded(lambda: self._write_topic(key, note))
        return note.begins_again

    def _note_of_sibling(self, key: _Key, topic_id: str) -> TopicNote | None:
        """For a partition without a note: a note of another partition of the topic with another topic id."""
        query, topic = key.query_id, key.partition[0]
        return next(
            (
                note
                for other, note in self._topics.items()
                if (other.query_id, other.partition[0]) == (query, topic) and note.topic_id != topic_id
            ),
            None,
        )

    def accept(self, query_id: str, topic_ids: Mapping[TopicPartitionPair, str]) -> None:
        """Makes the query accept these topic ids. Raises the faults of reading and writing notes."""
        self._read_new()
        for partition, topic_id in topic_ids.items():
            key = _Key(query_id, partition)
            known = self._topics.get(key) or self._note_of_sibling(key, topic_id)
            if known is not None and known.topic_id != topic_id:
                self._write_topic(key, TopicNote(topic_id, -1, begins_again=False))

    def add_missed(self, batch: RunningBatch, partition: TopicPartitionPair, start: int, count: int) -> None:
        """`count` records from `start` on no longer existed when the batch tried to read them."""
        key = {**_key_of(_Key(batch.query_id, partition)), "batch": batch.batch_id, "start": start}
        self._guarded(lambda: self._write(key, {"missed": count}))

    def missed(self, query_id: str) -> int:
        """Number of records that were deleted before the query read them, since its first start."""
        self._guarded(self._read_new)
        return sum(sum(lost.values()) for key, lost in self._missed.items() if key.query_id == query_id)

    def _guarded(self, action: Callable[[], None]) -> None:
        """After a fault notes are neither read nor written for a while. The query continues."""
        if self._clock() < self._paused_until:
            return
        try:
            action()
        except Fault as fault:
            self._paused_until = self._clock() + _PAUSE_S
            print(
                f"headrace: {NOTES_TOPIC} cannot be used ({fault.message or fault.code.name}): the query will not "
                "notice a topic that is created again while the query is stopped",
                file=sys.stderr,
            )

    def _read_new(self) -> None:
        self._exists = NOTES_TOPIC in self._client.topics([NOTES_TOPIC])
        if not self._exists:
            return
        end = self._client.list_offsets({_PARTITION: LATEST})[_PARTITION]
        if self._next_offset is None or end < self._next_offset:
            self._next_offset = self._client.list_offsets({_PARTITION: EARLIEST})[_PARTITION]
        for record in fetched_records(
            self._client, _PARTITION, self._next_offset, end, FetchSettings(stall_timeout_s=5)
        ):
            self._take(record)
        self._next_offset = end

    def _take(self, record: Record) -> None:
        try:
            key, value = json.loads(record.key or b""), json.loads(record.value or b"")
            place = _Key(key["query"], (key["topic"], int(key["partition"])))
            if "missed" in value:
                self._missed.setdefault(place, {})[(int(key["batch"]), int(key["start"]))] = int(value["missed"])
            else:
                self._topics[place] = TopicNote(value["topic_id"], int(value["batch"]), bool(value["begins_again"]))
        except (ValueError, KeyError, TypeError):
            return  # a record of another program

    def _write_topic(self, key: _Key, note: TopicNote) -> None:
        self._topics[key] = note
        value = {"topic_id": note.topic_id, "batch": note.batch_id, "begins_again": note.begins_again}
        self._write(_key_of(key), value)

    def _write(self, key: dict[str, object], value: dict[str, object]) -> None:
        if not self._exists:
            self._client.create_topic(NOTES_TOPIC, 1, configs={"cleanup.policy": "compact"})
            self._exists = True
        record = Record(json.dumps(key).encode(), json.dumps(value).encode(), timestamp_ms=int(time.time() * 1000))
        write_records(self._client, _PARTITION, [record])


def _key_of(key: _Key) -> dict[str, object]:
    return {"query": key.query_id, "topic": key.partition[0], "partition": key.partition[1]}
