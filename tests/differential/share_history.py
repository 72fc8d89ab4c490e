"""A random client of share groups (KIP-932): members that take records and accept, release, reject or renew them,
mostly those they have, at times others; sessions that are stale, begin anew or end; offsets moved under an empty group.
"""

from __future__ import annotations

import random
import struct
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from headrace.records.builder import Record, build_batch
from tests.differential.histories import Side, Step, Tossed, mostly
from tests.support.group_requests import (
    SHARE_ACK,
    SHARE_ALTER,
    SHARE_BEAT,
    SHARE_DELETE,
    SHARE_DESCRIBE,
    SHARE_FETCH,
    SHARE_OFFSETS,
)

PRODUCE, ALTER_CONFIGS, GROUP = 0, 44, 32
TOPIC = "q"
BATCHES = (3, 1, 5, 2, 4, 1, 1, 6, 2, 3, 10, 1, 2)
RECORDS = sum(BATCHES)
MEMBERS = tuple(str(uuid.UUID(int=number)) for number in (1, 2, 3))
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
# From half the limit of ten on, Kafka hands out what was given back in ever smaller portions.
PORTIONED_FROM = 5
KINDS = (ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW)


def fill(side: Side) -> None:
    for count in BATCHES:
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch([Record(None, b"x", timestamp_ms=now_ms) for _ in range(count)])
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
        body = {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": data}
        answer = side.ask(PRODUCE, 9, body)
        assert not answer.responses[0].partition_responses[0].error_code, answer


def begin(side: Side, group: str) -> None:
    """The group reads from the first record, its members have the partition, and its queue is loaded."""
    # With a limit of two nothing is ever on its way to it; with ten hardly anything gets there: in between Kafka hands
    # out what has failed often in small portions.
    limit = "2" if group.split("-")[1][-1] in "02468" else "10"
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": "60000",
        "share.delivery.count.limit": limit,
    }
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    answer = side.ask(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    assert not answer.responses[0].error_code, answer
    deadline = time.monotonic() + 30
    for member in MEMBERS:
        epoch = 0
        while True:
            answer = side.ask(SHARE_BEAT, 1, heartbeat(group, member, epoch))
            assert not answer.error_code and time.monotonic() < deadline, answer
            if answer.assignment is not None and answer.assignment.topic_partitions:
                break
            epoch = answer.member_epoch
            time.sleep(0.05)
    visitor = str(uuid.UUID(int=9))
    asked = [{"topic_id": f"<id of {TOPIC}>", "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}]
    for epoch in range(100):
        body = fetch_body(group, visitor, epoch, asked if epoch == 0 else [], max_wait=300)
        client = side.send(Step(SHARE_FETCH, 2, body, connection="visitor"))
        answer = side.read(client, SHARE_FETCH, 2)
        assert not answer.error_code and time.monotonic() < deadline, answer
        if any(partition.acquired_records for topic in answer.responses for partition in topic.partitions):
            break
    side.read(side.send(Step(SHARE_FETCH, 2, fetch_body(group, visitor, -1, []), connection="visitor")), SHARE_FETCH, 2)


def heartbeat(group: str, member: str, epoch: int) -> dict[str, Any]:
    names = [TOPIC] if epoch == 0 else None
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": names,
    }


def fetch_body(group: str, member: str, epoch: int, topics: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait": 20,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "max_records": 10,
        "batch_size": 10,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": topics,
        "forgotten_topics_data": [],
        **more,
    }


def batches_of(records: bytes | None) -> list[tuple[int, int]]:
    """First and last offset of each batch, instead of the bytes."""
    found, at = [], 0
    data = bytes(records or b"")
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        found.append((base, base + struct.unpack_from(">i", data, at + 23)[0]))
        at += 12 + length
    return found


def adjusted(step: Step, answer: Any) -> Any:
    if step.api == SHARE_DESCRIBE:  # Kafka gives out what it has set up in the background by an epoch of its own
        for group in answer["groups"]:
            group |= {"group_epoch": "", "assignment_epoch": ""}
            group["members"] = [{**member, "member_epoch": ""} for member in group["members"]]
    if step.api == SHARE_OFFSETS and not step.who:  # Kafka writes down how far a queue is with its next change
        for group in answer["groups"]:
            for topic in group["topics"]:
                topic["partitions"] = [{**p, "start_offset": ""} for p in topic["partitions"]]
    if step.api != SHARE_FETCH:
        return answer
    for topic in answer["responses"]:
        for partition in topic["partitions"]:
            partition["records"] = batches_of(partition["records"])
            partition["acquired_records"] = _joined(partition["acquired_records"])
    return answer


@dataclass
class Member:
    name: str
    epoch: int = 0
    # Offsets that are its own, and those that were.
    held: set[int] = field(default_factory=set)
    given: set[int] = field(default_factory=set)


class ShareModel:
    def __init__(self, choice: random.Random, group: str) -> None:
        self.choice = choice
        self.group = group
        self.members = [Member(name) for name in MEMBERS]

    # --- choosing ---------------------------------------------------------------------------------------------------

    def next_step(self) -> Step:
        kinds = ["fetch", "acknowledge", "close", "odd", "offsets", "describe", "alter", "delete"]
        kind = self.choice.choices(kinds, [40, 30, 3, 10, 6, 2, 1, 1])[0]
        step: Step = getattr(self, f"_{kind}")()
        return step

    def _fetch(self) -> Step:
        choice = self.choice
        member = choice.choice(self.members)
        # What a fetch gives back, Kafka writes down while it looks for more: whether it finds that is chance.
        kinds = (ACCEPT, ACCEPT, REJECT, RENEW)
        acknowledged = self._acknowledgements(member, *kinds) if member.epoch > 0 and choice.random() < 0.4 else []
        topics = [self._topic(acknowledged)] if member.epoch == 0 or acknowledged else []
        return self._fetching(member, member.epoch, topics)

    def _fetching(self, member: Member, epoch: int, topics: list[Any], **changes: Any) -> Step:
        choice = self.choice
        # Strictly as many records as asked for: otherwise each broker rounds up to what it keeps together.
        body = fetch_body(self.group, member.name, epoch, topics, share_acquire_mode=1)
        body["max_records"] = choice.choice([1, 2, 3, 5, 10, 20])
        body["is_renew_ack"] = _renews(topics) and choice.random() < 0.9
        if body["is_renew_ack"]:
            nothing = {"max_records": 0, "max_bytes": 0, "min_bytes": 0, "max_wait": 0}
            body |= mostly(choice, nothing, *({**nothing, name: 1} for name in nothing), odds=0.2)
        return Step(SHARE_FETCH, 2, {**body, **changes}, connection=member.name, who=member.name)

    def _acknowledge(self) -> Step:
        member = self.choice.choice(self.members)
        if member.epoch <= 0 or not member.held:
            return self._fetch()
        return self._acknowledging(member, member.epoch, [self._topic(self._acknowledgements(member, *KINDS))])

    def _acknowledging(self, member: Member, epoch: int, topics: list[Any]) -> Step:
        version = self.choice.choice([1, 2, 2])
        body = {
            "group_id": self.group,
            "member_id": member.name,
            "share_session_epoch": epoch,
            "is_renew_ack": version == 2 and _renews(topics) and self.choice.random() < 0.9,
            "topics": topics,
        }
        return Step(SHARE_ACK, version, body, connection=member.name, who=member.name)

    def _topic(self, acknowledged: list[Any], name: str = TOPIC, partition: int = 0) -> dict[str, Any]:
        partitions = [{"partition_index": partition, "acknowledgement_batches": acknowledged}]
        return {"topic_id": f"<id of {name}>", "partitions": partitions}

    def _acknowledgements(self, member: Member, *kinds: int) -> list[dict[str, Any]]:
        """Runs of what it has, each with one type for all or one for each."""
        choice = self.choice
        batches = []
        for first, last in _runs(member.held):
            if choice.random() < 0.3:
                continue
            if choice.random() < 0.4:
                first = choice.randint(first, last)
                last = choice.randint(first, last)
            types = [choice.choice(kinds)]
            if choice.random() < 0.3:
                types = [choice.choice([*kinds, 0]) for _ in range(first, last + 1)]
            batches.append({"first_offset": first, "last_offset": last, "acknowledge_types": types})
        return batches

    def _close(self) -> Step:
        # Of one that has nothing: what it has, Kafka gives back some time after it has answered.
        member = self.choice.choice(self.members)
        if member.held:
            return self._acknowledge()
        return self.choice.choice([self._acknowledging(member, -1, []), self._fetching(member, -1, [])])

    def _odd(self) -> Step:
        """Somebody is mistaken: a session that is over, records of another, offsets that are none, types that are."""
        choice = self.choice
        member = choice.choice(self.members)
        epoch = choice.choice([member.epoch, member.epoch, member.epoch, member.epoch + 1, max(member.epoch - 1, 0), 0])
        first = choice.choice([0, *member.given, *range(0, RECORDS, 5), RECORDS + 5])
        last = choice.choice([first, first + 1, first + 3, first - 1])
        types = choice.choice([[ACCEPT], [RELEASE], [9], [], [ACCEPT, ACCEPT], [ACCEPT] * (last - first + 1)])
        batches = [{"first_offset": first, "last_offset": last, "acknowledge_types": types}]
        if choice.random() < 0.2:
            batches = batches * 2
        topic = mostly(choice, self._topic(batches), self._topic(batches, "missing"), self._topic(batches, TOPIC, 3))
        if choice.random() < 0.6:
            return self._acknowledging(member, epoch, [topic])
        # Of a topic that is none Kafka's fetch falls over; what it gives back it may or may not find at once.
        if topic["topic_id"] == f"<id of {TOPIC}>" and (epoch == 0 or RELEASE not in types):
            return self._fetching(member, epoch, [topic])
        return self._acknowledging(member, epoch, [topic])

    def _offsets(self, who: str = "") -> Step:
        topics = [{"topic_name": TOPIC, "partitions": [0]}] if self.choice.random() < 0.7 else None
        return Step(SHARE_OFFSETS, 0, {"groups": [{"group_id": self.group, "topics": topics}]}, who=who)

    def _describe(self) -> Step:
        return Step(SHARE_DESCRIBE, 1, {"group_ids": [self.group], "include_authorized_operations": False})

    def _alter(self) -> Step:
        partitions = [{"partition_index": 0, "start_offset": self.choice.randrange(RECORDS)}]
        return Step(
            SHARE_ALTER, 0, {"group_id": self.group, "topics": [{"topic_name": TOPIC, "partitions": partitions}]}
        )

    def _delete(self) -> Step:
        return Step(SHARE_DELETE, 0, {"group_id": self.group, "topics": [{"topic_name": TOPIC}]})

    # --- hearing ----------------------------------------------------------------------------------------------------

    def heard(self, step: Step, answer: Any) -> None:
        if step.api not in (SHARE_FETCH, SHARE_ACK):
            return
        member = next(each for each in self.members if each.name == step.who)
        epoch = step.body["share_session_epoch"]
        if answer["error_code"]:
            return
        if epoch == -1:
            member.epoch, member.held = 0, set()
            return
        member.epoch = epoch + 1
        if epoch == 0:
            member.held = set()
        self._let_go(member, step, answer)
        if step.api == SHARE_FETCH:
            for topic in answer["responses"]:
                for partition in topic["partitions"]:
                    for run in partition["acquired_records"]:
                        if run["delivery_count"] >= PORTIONED_FROM:
                            raise Tossed
                        taken = range(run["first_offset"], run["last_offset"] + 1)
                        member.held.update(taken)
                        member.given.update(taken)

    def _let_go(self, member: Member, step: Step, answer: Any) -> None:
        for topic in step.body["topics"]:
            for partition in topic["partitions"]:
                told = [
                    p
                    for t in answer["responses"]
                    if t["topic_id"] == topic["topic_id"]
                    for p in t["partitions"]
                    if p["partition_index"] == partition["partition_index"]
                ]
                if told and told[0].get("acknowledge_error_code", told[0]["error_code"]):
                    continue
                for batch in partition["acknowledgement_batches"]:
                    types = batch["acknowledge_types"]
                    for at, offset in enumerate(range(batch["first_offset"], batch["last_offset"] + 1)):
                        if types and types[at if len(types) > 1 else 0] != RENEW:
                            member.held.discard(offset)

    # --- the end ----------------------------------------------------------------------------------------------------

    def last_steps(self) -> list[Step]:
        steps = [self._offsets()]
        for member in self.members:
            if member.epoch > 0:
                steps.append(self._fetching(member, -1, []))
        steps += [self._describe(), *(Step(SHARE_BEAT, 1, heartbeat(self.group, m, -1)) for m in MEMBERS)]
        steps += [self._offsets(), self._alter(), self._offsets("administrator"), self._delete(), self._offsets()]
        return steps


def _joined(acquired: list[dict[str, int]]) -> list[dict[str, int]]:
    """Kafka tells apart what lies in different batches; to a client it is the same."""
    joined: list[dict[str, int]] = []
    for run in sorted(acquired, key=lambda each: each["first_offset"]):
        before = joined[-1] if joined else run
        follows = before["last_offset"] + 1 == run["first_offset"]
        if follows and before["delivery_count"] == run["delivery_count"]:
            joined[-1] = {**before, "last_offset": run["last_offset"]}
        else:
            joined.append(run)
    return joined


def _renews(topics: list[Any]) -> bool:
    return any(
        RENEW in batch["acknowledge_types"]
        for topic in topics
        for partition in topic["partitions"]
        for batch in partition["acknowledgement_batches"]
    )


def _runs(offsets: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
