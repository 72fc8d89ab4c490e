"""A history of a transactional id on one broker, step by step, in names that all brokers share.

A step names a producer by its position in the history (brokers assign different ids), a topic by its role, and a batch
by the one it repeats. The answer has positions instead of ids, and no times.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import BatchView, batches
from headrace.records.builder import Record, build_batch
from headrace.records.control import read_control
from headrace.records.reader import read_records
from tests.differential.servers import Server
from tests.support.clock import PATIENCE_S, Stopwatch

PRODUCE, FETCH, LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR, CREATE_TOPICS, DELETE_RECORDS = 0, 1, 2, 9, 10, 19, 21
INIT, ADD_PARTITIONS, ADD_OFFSETS, END, MARKERS, OFFSET_COMMIT = 22, 24, 25, 26, 27, 28
DESCRIBE_PRODUCERS, DESCRIBE, LIST = 61, 65, 66
PARTITIONS = 3
NOBODY = 999_999_999
# Unknown partition, not leader (a new topic), load in progress, not available, not coordinator, not enough replicas (a
# transaction that cannot be verified yet), concurrent transactions: a client retries.
TRY_AGAIN = {3, 6, 14, 15, 16, 19, 51}
# If Kafka gives up, it never continues, so this history costs the whole time. That is rare.
SETTLED_S = 20.0


class StaysPrepared(Exception):
    """The markers of a transaction are never complete. Kafka gives up if another writer used a higher epoch."""


def whole_batches(records: bytes) -> Iterator[BatchView]:
    """Skips the incomplete last batch: Kafka fills the answer with a part of the next one."""
    with contextlib.suppress(CorruptBatch):
        yield from batches(memoryview(records))


@dataclass(frozen=True)
class Step:
    kind: str
    version: int
    producer: int = -1
    epoch: int = -1
    partition: int = 0
    commit: bool = True
    # Which of the two transactional ids on the same topic.
    who: str = ""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class TransactionHistory:
    """A topic, a group of the same name and the transactional ids that begin with it, and the producer ids so far."""

    server: Server
    name: str
    producers: list[int] = field(default_factory=list)
    # By producer, epoch and partition: first sequence and number of records of every accepted batch.
    taken: dict[tuple[int, int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def identity(self, place: int) -> int:
        return self.producers[place] if 0 <= place < len(self.producers) else NOBODY

    def place_of(self, producer_id: int) -> int:
        """Its position in the history, to which a new id is added. -1 for none."""
        if producer_id < 0 or producer_id == NOBODY:
            return -1
        if producer_id not in self.producers:
            self.producers.append(producer_id)
        return self.producers.index(producer_id)

    def take(self, step: Step) -> Any:
        """The answer, after retriable errors. Waits until a transaction that ends has ended."""
        watch = Stopwatch()
        final = step.more.get("final", ())
        while True:
            answer = getattr(self, step.kind)(step)
            if answer[0] not in TRY_AGAIN or answer[0] in final or watch.has_run(PATIENCE_S):
                break
            time.sleep(0.01)
        if step.kind in ("end", "init"):
            # Kafka answers before the markers are written. The next step must not race with them.
            self.settle()
        return answer

    def wait_for_leaders(self) -> None:
        """Waits, because a broker learns of a new topic after the controller has answered."""
        for partition in range(PARTITIONS):
            self.take(Step("describe_producers", 0, partition=partition))

    def settle(self) -> None:
        watch = Stopwatch()
        while any(state[1].startswith("Prepare") for state in self.state(Step("state", 1))[1]):
            if watch.has_run(SETTLED_S):
                raise StaysPrepared(f"{self.server.name}: {self.name} stays prepared")
            time.sleep(0.01)

    # Requests of a producer

    def init(self, step: Step) -> tuple[int, int, int]:
        known = step.producer >= 0 and step.version >= 3
        body = {
            "transactional_id": self.name + step.who,
            "transaction_timeout": step.more.get("timeout_ms", 60_000),
            "producer_id": self.identity(step.producer) if known else -1,
            "producer_epoch": step.epoch if known else -1,
        }
        answer = self.server.ask(INIT, step.version, body)
        return answer["error_code"], self.place_of(answer["producer_id"]), answer["producer_epoch"]

    def add(self, step: Step) -> tuple[Any, ...]:
        """Sent by a client up to v3, by a broker from v4."""
        partitions = [step.partition, *step.more.get("also", ())]
        topics = [{"name": self.name, "partitions": partitions}]
        if step.more.get("unknown_topic"):
            topics.append({"name": "no-such-topic", "partitions": [0]})
        body: dict[str, Any] = {
            "v3_and_below_transactional_id": self.name + step.who,
            "v3_and_below_producer_id": self.identity(step.producer),
            "v3_and_below_producer_epoch": step.epoch,
            "v3_and_below_topics": topics,
        }
        if step.version >= 4:
            transaction = {
                "transactional_id": self.name + step.who,
                "producer_id": self.identity(step.producer),
                "producer_epoch": step.epoch,
                "verify_only": step.more.get("verify_only", False),
                "topics": topics,
            }
            body = {"transactions": [transaction]}
        answer = self.server.ask(ADD_PARTITIONS, step.version, body)
        if step.version >= 4:
            (result,) = answer["results_by_transaction"]
            results = result["topic_results"]
        else:
            results = answer["results_by_topic_v3_and_below"]
        codes = sorted(
            (topic["name"] == self.name, each["partition_index"], each["partition_error_code"])
            for topic in results
            for each in topic["results_by_partition"]
        )
        return codes[-1][2], codes

    def add_offsets(self, step: Step) -> tuple[int, ...]:
        body = {
            "transactional_id": self.name + step.who,
            "producer_id": self.identity(step.producer),
            "producer_epoch": step.epoch,
            "group_id": self.name,
        }
        return (self.server.ask(ADD_OFFSETS, step.version, body)["error_code"],)

    def commit_offsets(self, step: Step) -> tuple[Any, ...]:
        partition = {
            "partition_index": step.partition,
            "committed_offset": step.more.get("offset", 5),
            "committed_leader_epoch": -1,
            "committed_metadata": "m" * step.more.get("metadata_bytes", 1),
        }
        body = {
            "transactional_id": self.name + step.who,
            "group_id": self.name,
            "producer_id": self.identity(step.producer),
            "producer_epoch": step.epoch,
            "generation_id": step.more.get("generation", -1),
            "member_id": step.more.get("member", ""),
            "group_instance_id": step.more.get("instance"),
            "topics": [{"name": self.name, "partitions": [partition]}],
        }
        answer = self.server.ask(OFFSET_COMMIT, step.version, body)
        return (answer["topics"][0]["partitions"][0]["error_code"],)

    def end(self, step: Step) -> tuple[int, ...]:
        body = {
            "transactional_id": self.name + step.who,
            "producer_id": self.identity(step.producer),
            "producer_epoch": step.epoch,
            "committed": step.commit,
        }
        answer = self.server.ask(END, step.version, body)
        if step.version < 5:
            return (answer["error_code"],)
        return answer["error_code"], self.place_of(answer["producer_id"]), answer["producer_epoch"]

    def produce(self, step: Step) -> tuple[int, ...]:
        """The next batch. With `repeats` = n it repeats the nth batch before it. With `off` the sequence number
        is wrong.
        """
        producer_id = self.identity(step.producer)
        taken = self.taken.setdefault((producer_id, step.epoch, step.partition), [])
        sequence, count = (taken[-1][0] + taken[-1][1] if taken else 0), step.more.get("count", 1)
        repeats = step.more.get("repeats", 0)
        if repeats and len(taken) >= repeats:
            sequence, count = taken[-repeats]
        sequence = max(0, sequence + step.more.get("off", 0))
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch(
            [Record(None, b"%d" % (sequence + i), timestamp_ms=now_ms) for i in range(count)],
            producer_id=producer_id,
            producer_epoch=step.epoch,
            base_sequence=sequence,
            transactional=step.more.get("transactional", True),
        )
        partition = {"index": step.partition, "records": batch}
        topic: dict[str, Any] = {"name": self.name, "partition_data": [partition]}
        if step.version >= 13:
            topic["topic_id"] = self.server.topic_id(self.name)
        body = {
            "transactional_id": None if step.more.get("unnamed") else self.name + step.who,
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [topic],
        }
        answer = self.server.ask(PRODUCE, step.version, body)
        result = answer["responses"][0]["partition_responses"][0]
        if not result["error_code"] and (sequence, count) not in taken:
            taken.append((sequence, count))
        return result["error_code"], result["base_offset"]

    # Requests of a broker or an administrator

    def write_markers(self, step: Step) -> tuple[Any, ...]:
        marker = {
            "producer_id": self.identity(step.producer),
            "producer_epoch": step.epoch,
            "transaction_result": step.commit,
            "topics": [{"name": self.name, "partition_indexes": [step.partition]}],
            "coordinator_epoch": step.more.get("coordinator_epoch", 0),
            "transaction_version": step.more.get("transaction_version", 0),
        }
        answer = self.server.ask(MARKERS, step.version, {"markers": [marker]})
        return (answer["markers"][0]["topics"][0]["partitions"][0]["error_code"],)

    def state(self, step: Step) -> tuple[Any, ...]:
        """State of these ids in ListTransactions."""
        body = {
            "state_filters": step.more.get("states", []),
            "producer_id_filters": [self.identity(place) for place in step.more.get("producers", ())],
            "duration_filter": step.more.get("longer_than_ms", -1),
            "transactional_id_pattern": step.more.get("pattern"),
        }
        answer = self.server.ask(LIST, step.version, body)
        found = sorted(
            (t["transactional_id"], t["transaction_state"], self.place_of(t["producer_id"]))
            for t in answer["transaction_states"]
            if t["transactional_id"].startswith(self.name)
        )
        return answer["error_code"], found, sorted(answer["unknown_state_filters"])

    def describe(self, step: Step) -> tuple[Any, ...]:
        answer = self.server.ask(DESCRIBE, 0, {"transactional_ids": [self.name + step.who]})
        (found,) = answer["transaction_states"]
        partitions = sorted((t["topic"], sorted(t["partitions"])) for t in found["topics"])
        begun = (found["transaction_start_time"] or 0) > 0
        return (
            found["error_code"],
            found["transaction_state"],
            found["transaction_timeout"],
            begun,
            self.place_of(found["producer_id"]),
            found["producer_epoch"],
            partitions,
        )

    def describe_producers(self, step: Step) -> tuple[Any, ...]:
        body = {"topics": [{"name": self.name, "partition_indexes": [step.partition]}]}
        (found,) = self.server.ask(DESCRIBE_PRODUCERS, 0, body)["topics"][0]["partitions"]
        fields = ("producer_epoch", "last_sequence", "coordinator_epoch", "current_txn_start_offset")
        active = sorted(
            (self.place_of(p["producer_id"]), *(p[name] for name in fields)) for p in found["active_producers"]
        )
        return found["error_code"], active

    def delete_records(self, step: Step) -> tuple[Any, ...]:
        partition = {"partition_index": step.partition, "offset": step.more.get("offset", -1)}
        body = {"topics": [{"name": self.name, "partitions": [partition]}], "timeout": 10_000}
        (found,) = self.server.ask(DELETE_RECORDS, step.version, body)["topics"][0]["partitions"]
        return found["error_code"], found["low_watermark"]

    # Requests of a consumer

    def fetch(self, step: Step) -> tuple[Any, ...]:
        asked = {
            "partition": step.partition,
            "current_leader_epoch": -1,
            "fetch_offset": step.more.get("offset", 0),
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": step.more.get("max_bytes", 1 << 20),
        }
        topic_id = self.server.topic_id(self.name) if step.version >= 13 else None
        body = {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 10 << 20,
            "isolation_level": step.more.get("isolation", 1),
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.name, "topic_id": topic_id, "partitions": [asked]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        (found,) = self.server.ask(FETCH, step.version, body)["responses"][0]["partitions"]
        read = [self._said(batch) for batch in whole_batches(found["records"] or b"")]
        aborted = found["aborted_transactions"]
        if aborted is not None:
            # Kafka also lists aborted transactions that begin after the returned records.
            end = read[-1][0] if read else -1
            aborted = sorted((self.place_of(a["producer_id"]), a["first_offset"]) for a in aborted)
            aborted = [each for each in aborted if each[1] <= end]
        return (
            found["error_code"],
            found["high_watermark"],
            # After DeleteRecords up to the middle of a batch, Kafka's value is the first offset of that batch.
            max(found["last_stable_offset"], found["log_start_offset"]),
            found["log_start_offset"],
            aborted,
            read,
        )

    def _said(self, batch: BatchView) -> tuple[Any, ...]:
        records = read_records(batch)
        content = (read_control(records[0]),) if batch.is_control else tuple(record.value for record in records)
        return (
            batch.base_offset,
            self.place_of(batch.producer_id),
            batch.producer_epoch,
            batch.base_sequence,
            batch.is_transactional,
            content,
        )

    def committed_offsets(self, step: Step) -> tuple[Any, ...]:
        topics = [{"name": self.name, "partition_indexes": [*range(PARTITIONS)]}]
        group = {"group_id": self.name, "topics": topics}
        stable = step.more.get("stable", False)
        answer = self.server.ask(OFFSET_FETCH, 8, {"groups": [group], "require_stable": stable})["groups"][0]
        found = [
            (p["partition_index"], p["committed_offset"], p["error_code"])
            for topic in answer["topics"]
            for p in topic["partitions"]
        ]
        return answer["error_code"], sorted(found)

    def ends(self) -> list[tuple[int, int, int]]:
        """First offset, high watermark and last stable offset of every partition."""
        found = []
        for partition in range(PARTITIONS):
            offsets = []
            for timestamp, isolation in ((-2, 0), (-1, 0), (-1, 1)):
                asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
                body = {
                    "replica_id": -1,
                    "isolation_level": isolation,
                    "topics": [{"name": self.name, "partitions": [asked]}],
                }
                answer = self.server.ask(LIST_OFFSETS, 5, body)
                offsets.append(answer["topics"][0]["partitions"][0]["offset"])
            first, high_watermark, stable = offsets
            found.append((first, high_watermark, max(first, stable)))
        return found
