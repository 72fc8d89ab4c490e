"""A random client of share groups (KIP-932).

Members acquire records and accept, release, reject or renew them: mostly their own records, sometimes others. Sessions
are stale, begin again or end, add and forget partitions. Records return until they reach the delivery limit. Offsets of
empty groups change.

Some groups read one partition, with every limit. The others read three partitions of two topics and fetch everything:
which partition comes first when not all fit depends on Kafka's earlier reads.
"""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.differential.histories import Step, mostly
from tests.differential.share_fixtures import (
    ALL,
    MEMBERS,
    RECORDS,
    RELEASE,
    TOPIC,
    Partition,
    fetch_body,
    has_few_locks,
    heartbeat,
    partitions_of,
    topics_of,
)
from tests.support.group_requests import (
    SHARE_ACK,
    SHARE_ALTER,
    SHARE_BEAT,
    SHARE_DELETE,
    SHARE_DESCRIBE,
    SHARE_FETCH,
    SHARE_OFFSETS,
)

ACCEPT, REJECT, RENEW = 1, 3, 4
KINDS = (ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW)


def batches_of(records: bytes | None) -> list[tuple[int, int]]:
    """First and last offset of each batch, instead of the bytes."""
    found, at = [], 0
    data = bytes(records or b"")
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length <= len(data):  # Kafka may send the beginning of one more batch
            found.append((base, base + struct.unpack_from(">i", data, at + 23)[0]))
        at += 12 + length
    return found


def adjusted(step: Step, answer: Any) -> Any:
    if step.api == SHARE_DESCRIBE:  # Kafka initialises share partitions in the background with an epoch of their own
        for group in answer["groups"]:
            group |= {"group_epoch": "", "assignment_epoch": ""}
            for member in group["members"]:
                # The assignment depends on the hashes of ids. Only the number of partitions is compared.
                assigned = member["assignment"]["topic_partitions"]
                member |= {"member_epoch": "", "assignment": sum(len(topic["partitions"]) for topic in assigned)}
    # Kafka writes the start offset of a share partition with its next change
    if step.api == SHARE_OFFSETS and not step.who:
        for group in answer["groups"]:
            for topic in group["topics"]:
                topic["partitions"] = [{**p, "start_offset": ""} for p in topic["partitions"]]
                topic["partitions"].sort(key=lambda partition: partition["partition_index"])
            group["topics"].sort(key=lambda topic: str(topic["topic_name"]))
    if step.api == SHARE_ACK:
        answer["responses"].sort(key=lambda topic: str(topic["topic_id"]))
        for topic in answer["responses"]:
            topic["partitions"].sort(key=lambda partition: partition["partition_index"])
    if step.api != SHARE_FETCH:
        return answer
    for topic in answer["responses"]:
        topic["partitions"].sort(key=lambda partition: partition["partition_index"])
        for partition in topic["partitions"]:
            partition["records"] = batches_of(partition["records"])
    answer["responses"].sort(key=lambda topic: str(topic["topic_id"]))
    return answer


@dataclass
class Member:
    name: str
    epoch: int = 0
    # Records that it holds and records that it held; the partitions of its session.
    held: dict[Partition, set[int]] = field(default_factory=lambda: defaultdict(set))
    given: dict[Partition, set[int]] = field(default_factory=lambda: defaultdict(set))
    reads: set[Partition] = field(default_factory=set)

    @property
    def has_any(self) -> bool:
        return any(self.held.values())


class ShareModel:
    def __init__(self, choice: random.Random, group: str) -> None:
        self.choice = choice
        self.group = group
        self.partitions = partitions_of(group)
        self.members = [Member(name) for name in MEMBERS]

    # Choose a step

    def next_step(self) -> Step:
        kinds = ["fetch", "acknowledge", "give_up", "close", "odd", "offsets", "describe", "alter", "delete"]
        kind = self.choice.choices(kinds, [40, 25, 15, 3, 10, 6, 2, 1, 1])[0]
        step: Step = getattr(self, f"_{kind}")()
        return step

    def _fetch(self) -> Step:
        choice = self.choice
        member = choice.choice(self.members)
        if member.epoch == 0:
            some = [each for each in self.partitions if choice.random() < 0.8] or self.partitions[:1]
            return self._fetching(member, 0, topics_of({partition: [] for partition in some}))
        # Kafka writes the releases of a fetch while it looks for more records. Chance decides whether the fetch finds
        # the released records, and whether locks are available by then.
        kinds = (RENEW,) if has_few_locks(self.group) else (ACCEPT, ACCEPT, REJECT, RENEW)
        said = self._acknowledgements(member, *kinds) if choice.random() < 0.4 else {}
        if choice.random() < 0.2:
            said |= {each: [] for each in self.partitions if each not in member.reads and choice.random() < 0.7}
        forgotten: list[Any] = []
        if len(self.partitions) > 1 and choice.random() < 0.1:
            name, partition = choice.choice(self.partitions)
            forgotten = [{"topic_id": f"<id of {name}>", "partitions": [partition]}]
        return self._fetching(member, member.epoch, topics_of(said), forgotten_topics_data=forgotten)

    def _fetching(self, member: Member, epoch: int, topics: list[Any], **changes: Any) -> Step:
        choice = self.choice
        body = fetch_body(self.group, member.name, epoch, topics, share_acquire_mode=choice.choice([0, 1]))
        is_single = len(self.partitions) == 1
        body["max_records"] = choice.choice([1, 2, 3, 5, 10, 20, 50, 150]) if is_single else ALL
        body["batch_size"] = choice.choice([1, 2, 3, 8, 500])
        if is_single and choice.random() < 0.2:
            body["max_bytes"] = choice.choice([1, 100, 150, 400, 1_000])
        if choice.random() < 0.1:
            body["min_bytes"] = choice.choice([0, 70, 200, 100_000])
        body["is_renew_ack"] = _renews(topics) and choice.random() < 0.9
        if body["is_renew_ack"]:
            nothing = {"max_records": 0, "max_bytes": 0, "min_bytes": 0, "max_wait": 0}
            body |= mostly(choice, nothing, *({**nothing, name: 1} for name in nothing), odds=0.2)
        return Step(SHARE_FETCH, 2, {**body, **changes}, connection=member.name, who=member.name)

    def _acknowledge(self) -> Step:
        member = self.choice.choice(self.members)
        if member.epoch <= 0 or not member.has_any:
            return self._fetch()
        return self._acknowledging(member, member.epoch, topics_of(self._acknowledgements(member, *KINDS)))

    def _give_up(self) -> Step:
        """Releases all records, so that they reach the delivery limit."""
        for member in self.choice.sample(self.members, len(self.members)):
            if member.epoch > 0 and member.has_any:
                said = {
                    partition: [
                        {"first_offset": first, "last_offset": last, "acknowledge_types": [RELEASE]}
                        for first, last in _runs(held)
                    ]
                    for partition, held in member.held.items()
                    if held
                }
                return self._acknowledging(member, member.epoch, topics_of(said))
        return self._fetch()

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

    def _acknowledgements(self, member: Member, *kinds: int) -> dict[Partition, list[dict[str, Any]]]:
        """Ranges of its records, each with one type for all or one for each."""
        choice = self.choice
        said: dict[Partition, list[dict[str, Any]]] = {}
        for partition, held in member.held.items():
            for first, last in _runs(held):
                if choice.random() < 0.3:
                    continue
                if choice.random() < 0.4:
                    first = choice.randint(first, last)
                    last = choice.randint(first, last)
                types = [choice.choice(kinds)]
                if choice.random() < 0.3:
                    gaps = (0,) if ACCEPT in kinds else ()
                    types = [choice.choice([*kinds, *gaps]) for _ in range(first, last + 1)]
                batch = {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                said.setdefault(partition, []).append(batch)
        return said

    def _close(self) -> Step:
        # Only of a member without records: Kafka releases a leaving member's records some time after its answer.
        member = self.choice.choice(self.members)
        if member.has_any:
            return self._acknowledge()
        return self.choice.choice([self._acknowledging(member, -1, []), self._fetching(member, -1, [])])

    def _odd(self) -> Step:
        """A wrong request: an old session, another member's records, invalid offsets, invalid types."""
        choice = self.choice
        member = choice.choice(self.members)
        epoch = choice.choice([member.epoch, member.epoch, member.epoch, member.epoch + 1, max(member.epoch - 1, 0), 0])
        first = choice.choice([0, *member.given[TOPIC, 0], *range(0, RECORDS, 9), RECORDS + 5])
        last = choice.choice([first, first + 1, first + 3, first - 1])
        types = choice.choice([[ACCEPT], [RELEASE], [9], [], [ACCEPT, ACCEPT], [ACCEPT] * (last - first + 1)])
        batches = [{"first_offset": first, "last_offset": last, "acknowledge_types": types}]
        if choice.random() < 0.2:
            batches = batches * 2
        partition = mostly(choice, (TOPIC, 0), ("missing", 0), (TOPIC, 3))
        topics = topics_of({partition: batches})
        if choice.random() < 0.6:
            return self._acknowledging(member, epoch, topics)
        # Kafka's fetch fails for a topic that does not exist. It may or may not deliver released records at once.
        if partition[0] == TOPIC and (epoch == 0 or RELEASE not in types):
            return self._fetching(member, epoch, topics)
        return self._acknowledging(member, epoch, topics)

    def _offsets(self, who: str = "") -> Step:
        topics = [{"topic_name": TOPIC, "partitions": [0]}] if who or self.choice.random() < 0.7 else None
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

    # Handle an answer

    def heard(self, step: Step, answer: Any) -> None:
        if step.api not in (SHARE_FETCH, SHARE_ACK):
            return
        member = next(each for each in self.members if each.name == step.who)
        epoch = step.body["share_session_epoch"]
        if answer["error_code"]:
            return
        if epoch == -1:
            self.members[self.members.index(member)] = Member(member.name)
            return
        member.epoch = epoch + 1
        if epoch == 0:
            member.held.clear()
            member.reads.clear()
        self._let_go(member, step, answer)
        if step.api == SHARE_FETCH:
            member.reads |= {partition for partition, _ in _said(step.body["topics"])}
            for topic in step.body["forgotten_topics_data"]:
                member.reads -= {(_name(topic["topic_id"]), each) for each in topic["partitions"]}
            for topic in answer["responses"]:
                for found in topic["partitions"]:
                    partition = _name(topic["topic_id"]), found["partition_index"]
                    for run in found["acquired_records"]:
                        taken = range(run["first_offset"], run["last_offset"] + 1)
                        member.held[partition].update(taken)
                        member.given[partition].update(taken)

    def _let_go(self, member: Member, step: Step, answer: Any) -> None:
        told = {
            (_name(topic["topic_id"]), each["partition_index"]): each
            for topic in answer["responses"]
            for each in topic["partitions"]
        }
        for partition, batches in _said(step.body["topics"]):
            found = told.get(partition)
            if found is not None and found.get("acknowledge_error_code", found["error_code"]):
                continue
            for batch in batches:
                types = batch["acknowledge_types"]
                for at, offset in enumerate(range(batch["first_offset"], batch["last_offset"] + 1)):
                    if types and types[at if len(types) > 1 else 0] != RENEW:
                        member.held[partition].discard(offset)

    # The end

    def last_steps(self) -> list[Step]:
        steps = [self._offsets()]
        for member in self.members:
            if member.epoch > 0:
                steps.append(self._fetching(member, -1, []))
        steps += [self._describe(), *(Step(SHARE_BEAT, 1, heartbeat(self.group, m, -1)) for m in MEMBERS)]
        steps += [self._offsets(), self._alter(), self._offsets("administrator"), self._delete(), self._offsets()]
        return steps


def _name(topic_id: str) -> str:
    return topic_id.removeprefix("<id of ").removesuffix(">")


def _said(topics: list[Any]) -> list[tuple[Partition, list[Any]]]:
    return [
        ((_name(topic["topic_id"]), each["partition_index"]), each["acknowledgement_batches"])
        for topic in topics
        for each in topic["partitions"]
    ]


def _renews(topics: list[Any]) -> bool:
    return any(RENEW in batch["acknowledge_types"] for _, batches in _said(topics) for batch in batches)


def _runs(offsets: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
