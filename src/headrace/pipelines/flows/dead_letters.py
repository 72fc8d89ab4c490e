"""Lists dead letters with their errors, writes them back to their topics or drops them, without Spark.

The letters from the position of `settled_letters` on are waiting. A retry reads them and writes each back to its topic:
to its partition, with its key, value, headers and timestamp, and the number of retries in a header. One transaction
contains the records and the new position, so each dead letter is written back exactly once.

With a filter, the transaction also writes the letters that do not match to the end of `<topic>.dlq`. So they keep
waiting, although the position passes their old place, and no letter is ever skipped.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from headrace.client.blocking.client import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    BlockingClient,
    TopicMetadata,
    TopicPartitionPair,
)
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import BatchProducer, Section, Transaction
from headrace.kernel.ids import partition_for_key, uuid_to_text
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.dead_letter_headers import (
    ERROR_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    PREFIX,
    RETRIES_HEADER,
    SUFFIX,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)
from headrace.pipelines.sink.settled_letters import SettledLetters, group_of
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch

_LETTERS_AT_ONCE: Final = 500


@dataclass(frozen=True)
class DeadLetters:
    topic: str
    waiting: int
    total: int
    last_error: str | None


def _read(client: BlockingClient, partition: TopicPartitionPair, start: int, end: int) -> list[Record]:
    settings = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=10)
    return list(fetched_records(client, partition, start, end, settings))


def _header(record: Record, name: str) -> str | None:
    found = next((value for key, value in record.headers if key == name and value is not None), None)
    return None if found is None else found.decode(errors="replace")


@dataclass(frozen=True)
class LetterFilter:
    """Which letters a command takes: all conditions must hold. Partition and offset are those in the topic of dead
    letters."""

    error: str | None = None
    key: str | None = None
    partition: int | None = None
    offset: int | None = None

    @property
    def takes_all(self) -> bool:
        return self == LetterFilter()

    def takes(self, letter: Record, partition: int) -> bool:
        return (
            (self.error is None or self.error in (_header(letter, ERROR_HEADER) or ""))
            and (self.key is None or letter.key == self.key.encode())
            and (self.partition is None or partition == self.partition)
            and (self.offset is None or letter.offset == self.offset)
        )


ALL: Final = LetterFilter()


@dataclass(frozen=True)
class Letter:
    """One dead letter for a person. Bytes that are not text are in base64."""

    partition: int
    offset: int
    error: str
    retries: int
    topic: str
    from_partition: int | None
    from_offset: int | None
    timestamp: str
    key: str | None
    value: str | None
    headers: dict[str, str | None]


def list_dead_letters(client: BlockingClient) -> list[DeadLetters]:
    """One row per topic that has dead letters."""
    result, settled = [], SettledLetters(client)
    for name, topic in sorted(client.topics(None).items()):
        if not name.endswith(SUFFIX):
            continue
        pairs = [(name, index) for index in topic.partitions]
        starts = client.list_offsets(dict.fromkeys(pairs, EARLIEST))
        ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
        done = settled.positions(pairs, _id_of(topic), require_stable=False)
        waiting = total = 0
        last: Record | None = None
        for pair in pairs:
            letters = _read(client, pair, starts[pair], ends[pair])
            total += len(letters)
            waiting += sum(letter.offset >= done[pair] for letter in letters)
            if letters and (last is None or letters[-1].timestamp_ms >= last.timestamp_ms):
                last = letters[-1]
        result.append(DeadLetters(name, waiting, total, _header(last, ERROR_HEADER) if last else None))
    return result


def waiting_letters(client: BlockingClient, topic: str, chosen: LetterFilter = ALL) -> list[Letter]:
    """The letters that wait and match."""
    found = _waiting(client, topic, SettledLetters(client))
    return [
        _readable(letter, pair[1], found.name)
        for pair, (at, end) in found.spans.items()
        for letter in _read(client, pair, at, end)
        if chosen.takes(letter, pair[1])
    ]


def retry_dead_letters(
    client: BlockingClient, topic: str, chosen: LetterFilter = ALL, *, value: bytes | None = None
) -> int:
    """Writes the waiting dead letters of `topic` (with or without .dlq) back, with another value if one is given.
    Returns their number."""
    return _settle(client, topic, chosen, lambda letter, home: _original(letter, home, value))


def drop_dead_letters(client: BlockingClient, topic: str, chosen: LetterFilter = ALL) -> int:
    """Removes the waiting dead letters that match. Returns their number."""
    return _settle(client, topic, chosen, None)


@dataclass(frozen=True)
class _Waiting:
    """The topic of the letters, its id, and the range of waiting letters in each partition."""

    name: str
    topic_id: str
    spans: dict[TopicPartitionPair, tuple[int, int]]


def _id_of(topic: TopicMetadata) -> str:
    return "" if topic.topic_id is None else uuid_to_text(topic.topic_id)


def _waiting(client: BlockingClient, topic: str, settled: SettledLetters) -> _Waiting:
    name = topic if topic.endswith(SUFFIX) else topic + SUFFIX
    found = client.topics([name])
    if name not in found:
        raise PipelineError(f"topic {name!r} does not exist: there are no dead letters")
    pairs, topic_id = [(name, index) for index in found[name].partitions], _id_of(found[name])
    starts = client.list_offsets(dict.fromkeys(pairs, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
    done = settled.positions(pairs, topic_id)
    return _Waiting(name, topic_id, {pair: (max(done[pair], starts[pair]), ends[pair]) for pair in pairs})


_Restore: TypeAlias = Callable[[Record, "_Homes"], tuple[TopicPartitionPair, Record]]


def _settle(client: BlockingClient, topic: str, chosen: LetterFilter, restore: _Restore | None) -> int:
    """Takes the matching letters out of the waiting ones and writes them back with `restore`, or drops them."""
    positions = SettledLetters(client, writes=True)
    found = _waiting(client, topic, positions)
    homes, settled = _Homes(client, found.name), 0
    for pair in found.spans:
        transaction = Transaction(client, f"{group_of(found.name)}.{pair[1]}", timeout_ms=60_000)
        transaction.begin()
        # Read again: the last transaction of another command may have ended only now.
        now = _waiting(client, found.name, positions)
        at, end = now.spans[pair]
        letters = _read(client, pair, at, end)
        if not any(chosen.takes(letter, pair[1]) for letter in letters):
            continue
        for begin in range(0, len(letters), _LETTERS_AT_ONCE):
            if begin:
                transaction.begin()
            part = letters[begin : begin + _LETTERS_AT_ONCE]
            records: list[tuple[TopicPartitionPair, Record]] = []
            for letter in part:
                if not chosen.takes(letter, pair[1]):
                    records.append((pair, letter))
                    continue
                settled += 1
                if restore is not None:
                    records.append(restore(letter, homes))
            after = part[-1].offset + 1 if begin + _LETTERS_AT_ONCE < len(letters) else end
            records.append(positions.entry(pair, now.topic_id, after, len(part)))
            _write(client, transaction, records)
            positions.commit(transaction, pair, now.topic_id, after)
    return settled


class _Homes:
    """The topics that letters came from, and their partition counts."""

    def __init__(self, client: BlockingClient, name: str) -> None:
        self._client, self._default = client, name.removesuffix(SUFFIX)
        self._counts: dict[str, int] = {}

    def of(self, letter: Record) -> TopicPartitionPair:
        home = _header(letter, TOPIC_HEADER) or self._default
        if home not in self._counts:
            topics = self._client.topics([home])
            if home not in topics:
                raise PipelineError(
                    f"topic {home!r} of the dead letter at offset {letter.offset} does not exist any more: "
                    "create it, or drop the letter with 'headrace pipeline dlq drop'"
                )
            self._counts[home] = len(topics[home].partitions)
        count, before = self._counts[home], _header(letter, PARTITION_HEADER)
        if before is not None and before.isdigit() and int(before) < count:
            return home, int(before)
        return home, partition_for_key(letter.key, count) if letter.key is not None else letter.offset % count


def _original(letter: Record, homes: _Homes, value: bytes | None) -> tuple[TopicPartitionPair, Record]:
    tries = int(_header(letter, RETRIES_HEADER) or 0) + 1
    headers = tuple((name, content) for name, content in letter.headers if not name.startswith(PREFIX))
    at = _header(letter, TIMESTAMP_HEADER)
    return homes.of(letter), Record(
        letter.key,
        letter.value if value is None else value,
        (*headers, (RETRIES_HEADER, str(tries).encode())),
        timestamp_ms=int(at) if at and at.isdigit() else letter.timestamp_ms,
    )


def _write(
    client: BlockingClient, transaction: Transaction, records: Sequence[tuple[TopicPartitionPair, Record]]
) -> None:
    by_partition: dict[TopicPartitionPair, list[Record]] = {}
    for pair, record in records:
        by_partition.setdefault(pair, []).append(record)
    producer = BatchProducer(client, transaction=transaction)
    for pair, group in by_partition.items():
        sealed = build_batch(group)
        times = [record.timestamp_ms for record in group]
        producer.send(pair, Section(sealed[HEADER_BYTES:], len(group), times[0], max(times)))
    producer.flush()


def _readable(letter: Record, partition: int, name: str) -> Letter:
    before, offset, at = (_header(letter, one) for one in (PARTITION_HEADER, OFFSET_HEADER, TIMESTAMP_HEADER))
    when = int(at) if at and at.isdigit() else letter.timestamp_ms
    return Letter(
        partition=partition,
        offset=letter.offset,
        error=_header(letter, ERROR_HEADER) or "",
        retries=int(_header(letter, RETRIES_HEADER) or 0),
        topic=_header(letter, TOPIC_HEADER) or name.removesuffix(SUFFIX),
        from_partition=int(before) if before else None,
        from_offset=int(offset) if offset else None,
        timestamp=datetime.datetime.fromtimestamp(when / 1000, datetime.UTC).isoformat(timespec="milliseconds"),
        key=_text(letter.key),
        value=_text(letter.value),
        headers={key: _text(value) for key, value in letter.headers if not key.startswith(PREFIX)},
    )


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"
    return text if text.isprintable() or text.strip() else f"base64:{base64.b64encode(data).decode()}"


def value_from_text(text: str) -> bytes:
    """The inverse for an edited value."""
    if not text.startswith("base64:"):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix("base64:"), validate=True)
    except ValueError:
        raise PipelineError(f"{text[:40]!r} is not base64") from None
