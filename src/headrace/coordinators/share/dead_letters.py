"""Dead letters of share groups (KIP-1191): records that a member rejected, or that were delivered too often, are
written to a topic of the group's choice (`errors.deadletterqueue.topic.name`) before they are archived.

    source record ──rejected, or delivered too often──► letter written and committed ──► archived, durable

A letter has headers with the topic, partition and offset of the record, the group, the number of deliveries and the
reason. With `errors.deadletterqueue.copy.record.enable` it is a copy of the record. Letters of partition p go to
partition p modulo the number of partitions, as in Kafka 4.4.

At least once: if this broker dies between the letter and the archive, the next leader delivers the record again, and it
may become a letter again. A letter that cannot be written for `_PATIENCE_S` is given up with an error in the log, and
the record is archived without it, as in Kafka: otherwise a missing topic would stop the group.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.share.core.share_partition import DeadRecords
from headrace.coordinators.topic_writer import ACKS_ALL
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.records.batch import batches
from headrace.records.builder import Record
from headrace.records.reader import iter_records
from headrace.replication.partition import Partition

_log = logging.getLogger(__name__)

PERMISSION: Final = "errors.deadletterqueue.group.enable"
_PATIENCE_S: Final = 15.0
_PAUSE_S: Final = 0.2
_READ_BYTES: Final = 1 << 20
# Below the default of max.message.bytes (1 MB), with room for headers and for a record that is larger than the others.
_LETTERS_BYTES: Final = 256 << 10
_LETTERS: Final = 500
_TOO_LARGE: Final = frozenset((ErrorCode.message_too_large, ErrorCode.record_list_too_large))


class DeadLetterTopic(NamedTuple):
    """The choice of a group."""

    name: str
    copies: bool


@dataclass(frozen=True, slots=True)
class DeadLetterRules:
    """The choice of the brokers."""

    prefix: str = "dlq."
    creates_topics: bool = False


class Writer(Protocol):
    async def write(self, topic: str, index: int, records: list[Record], *, acks: int) -> None: ...


class DeadLetters:
    """Owned by the event loop."""

    def __init__(
        self,
        writer: Writer,
        view: ClusterView,
        rules: DeadLetterRules,
        create: Callable[[str], Awaitable[bool]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`create` creates a topic of dead letters. True when it exists."""
        self._writer = writer
        self._view = view
        self._rules = rules
        self._create = create
        self._clock = clock
        self._told: dict[str, str] = {}

    async def write(
        self, key: ShareKey, source: Partition, dead: Sequence[DeadRecords], topic: DeadLetterTopic
    ) -> None:
        """Returns when the letters are committed, or given up. Raises NotLeader if another broker may lead the source
        by now: it delivers the records again."""
        try:
            await self._check(topic.name, source.topic)
            index = key.partition % len(self._view.current.topics[topic.name].partitions)
            async for letters in self._letters(key, source, dead, topic.copies):
                await self._write_patiently(topic.name, index, letters)
        except Fault as fault:
            source.check_leads()
            self._tell(key, source, dead, topic.name, fault.message or fault.code.name)
        else:
            self._told.pop(key.group_id, None)

    async def _check(self, name: str, source: str) -> None:
        """Raises Refused if the brokers or the topic do not permit letters in this topic."""

        def refuse(why: str) -> Refused:
            return Refused(ErrorCode.invalid_config, why)

        if name == source:
            raise refuse("the records come from this topic themselves")
        if not name.startswith(self._rules.prefix) or name.startswith("__"):
            raise refuse(
                f"its name must begin with {self._rules.prefix!r} (errors.deadletterqueue.topic.name.prefix) and not "
                "with '__'"
            )
        if name not in self._view.current.topics and not (self._rules.creates_topics and await self._create(name)):
            raise refuse(
                "there is no such topic: create it, or set errors.deadletterqueue.auto.create.topics.enable=true"
            )
        if self._view.current.config_of("topic", name).get(PERMISSION, "false").lower() != "true":
            raise refuse(f"the topic does not permit it: set {PERMISSION}=true")

    def _tell(self, key: ShareKey, source: Partition, dead: Sequence[DeadRecords], name: str, why: str) -> None:
        """An error for each new reason of a group: the same reason may come with every record."""
        level = logging.DEBUG if self._told.get(key.group_id) == why else logging.ERROR
        self._told[key.group_id] = why
        where = ", ".join(str(one.first) if one.first == one.last else f"{one.first} to {one.last}" for one in dead)
        _log.log(
            level,
            "group %s: offsets %s of %s-%d are archived without a dead letter in %s: %s",
            *(key.group_id, where, source.topic, key.partition, name, why),
        )

    # Letters

    async def _letters(
        self, key: ShareKey, source: Partition, dead: Sequence[DeadRecords], copies: bool
    ) -> AsyncIterator[list[Record]]:
        for one in dead:
            first = one.first
            while first <= one.last:
                if copies:
                    last, originals = await _originals(source, first, one.last)
                else:
                    last, originals = min(one.last, first + _LETTERS - 1), None
                made = self._made(key, source.topic, one, range(first, last + 1), originals)
                for letters in _in_batches(made):
                    yield letters
                first = last + 1

    def _made(
        self, key: ShareKey, topic: str, dead: DeadRecords, offsets: range, originals: dict[int, Record] | None
    ) -> Iterator[Record]:
        now_ms = self._clock.wall_ms()
        for offset in offsets:
            original = Record(None, None) if originals is None else originals.get(offset)
            if original is not None:  # compaction has removed the others
                headers = context_headers(key, topic, offset, dead)
                yield Record(original.key, original.value, (*original.headers, *headers), now_ms)

    async def _write_patiently(self, topic: str, index: int, letters: list[Record]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_S
        while True:
            try:
                return await self._writer.write(topic, index, letters, acks=ACKS_ALL)
            except Fault as fault:
                if fault.code in _TOO_LARGE and len(letters) > 1:
                    break
                if fault.code in _TOO_LARGE and (letters[0].key or letters[0].value):
                    letters = [Record(None, None, letters[0].headers, letters[0].timestamp_ms)]
                elif fault.code in _TOO_LARGE or loop.time() + _PAUSE_S > deadline:
                    raise
            await asyncio.sleep(_PAUSE_S)
        for letter in letters:
            await self._write_patiently(topic, index, [letter])
        return None


def context_headers(key: ShareKey, topic: str, offset: int, dead: DeadRecords) -> tuple[tuple[str, bytes], ...]:
    """The headers of a letter, with Kafka's names and texts."""
    facts = {
        "topic": topic,
        "partition": key.partition,
        "offset": offset,
        "group": key.group_id,
        "delivery.count": dead.deliveries,
        "message": "Offset rejected by client."
        if dead.is_rejected
        else "Offset delivery count exceeded the threshold.",
    }
    return tuple((f"__dlq.errors.{name}", str(value).encode()) for name, value in facts.items())


def _in_batches(letters: Iterator[Record]) -> Iterator[list[Record]]:
    gathered: list[Record] = []
    size = 0
    for letter in letters:
        length = len(letter.key or b"") + len(letter.value or b"")
        if gathered and (size + length > _LETTERS_BYTES or len(gathered) >= _LETTERS):
            yield gathered
            gathered, size = [], 0
        gathered.append(letter)
        size += length
    if gathered:
        yield gathered


async def _originals(source: Partition, first: int, last: int) -> tuple[int, dict[int, Record]]:
    """The records from `first` on, and the last offset that they cover. A batch that cannot be decoded has records
    without content. Raises the faults of a read."""
    found = source.read(first, _READ_BYTES).slice
    if found is None or not found.length:
        return last, {}
    covered, records = await asyncio.to_thread(_decoded, found.file.fileno(), found.position, found.length, first, last)
    return min(last, max(covered, first)), records


def _decoded(descriptor: int, position: int, length: int, first: int, last: int) -> tuple[int, dict[int, Record]]:
    covered, records = first - 1, dict[int, Record]()
    for batch in batches(memoryview(os.pread(descriptor, length, position))):
        if batch.base_offset > last:
            return last, records
        covered = batch.last_offset
        if batch.is_control:
            continue
        wanted = range(max(first, batch.base_offset), min(last, batch.last_offset) + 1)
        try:
            records |= {record.offset: record for record in iter_records(batch) if record.offset in wanted}
        except Fault:
            records |= {offset: Record(None, None) for offset in wanted}
    return covered, records
