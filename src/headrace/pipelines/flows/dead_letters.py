"""Lists dead letters with their errors and writes them back to their topics, without Spark.

A retry reads `<topic>.dlq` from where the last retry stopped and writes each dead letter back to its topic. One
transaction contains the records and the new offset of the group `headrace-dlq.<topic>`, so each dead letter is written
back exactly once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient, TopicPartitionPair
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import BatchProducer, Section, Transaction
from headrace.kernel.ids import partition_for_key
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.dead_letter_headers import ERROR_HEADER, RETRIES_HEADER, SUFFIX, TOPIC_HEADER
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch

_LETTERS_AT_ONCE: Final = 500


@dataclass(frozen=True)
class DeadLetters:
    topic: str
    waiting: int
    total: int
    last_error: str | None


def _group(topic: str) -> str:
    return f"headrace-dlq.{topic}"


def _read(client: BlockingClient, partition: TopicPartitionPair, start: int, end: int) -> list[Record]:
    settings = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=10)
    return list(fetched_records(client, partition, start, end, settings))


def _header(record: Record, name: str) -> str | None:
    return next((value.decode() for key, value in record.headers if key == name and value is not None), None)


def list_dead_letters(client: BlockingClient) -> list[DeadLetters]:
    """One row per topic that has dead letters."""
    result = []
    for name, topic in sorted(client.topics(None).items()):
        if not name.endswith(SUFFIX):
            continue
        pairs = [(name, index) for index in topic.partitions]
        starts = client.list_offsets(dict.fromkeys(pairs, EARLIEST))
        ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
        done = client.committed_offsets(_group(name), pairs)
        waiting = total = 0
        last: Record | None = None
        for pair in pairs:
            letters = _read(client, pair, starts[pair], ends[pair])
            total += len(letters)
            waiting += sum(letter.offset >= done.get(pair, (0, ""))[0] for letter in letters)
            if letters and (last is None or letters[-1].timestamp_ms >= last.timestamp_ms):
                last = letters[-1]
        result.append(DeadLetters(name, waiting, total, _header(last, ERROR_HEADER) if last else None))
    return result


def retry_dead_letters(client: BlockingClient, topic: str) -> int:
    """Writes the waiting dead letters of `topic` (with or without .dlq) back. Returns their number."""
    name = topic if topic.endswith(SUFFIX) else topic + SUFFIX
    found = client.topics([name])
    if name not in found:
        raise PipelineError(f"topic {name!r} does not exist: there are no dead letters")
    pairs = [(name, index) for index in found[name].partitions]
    starts = client.list_offsets(dict.fromkeys(pairs, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
    sent = 0
    for pair in pairs:
        transaction = Transaction(client, f"{_group(name)}.{pair[1]}", timeout_ms=60_000)
        transaction.begin()
        done = client.committed_offsets(_group(name), [pair], require_stable=True)
        at = max(done.get(pair, (0, ""))[0], starts[pair])
        letters = _read(client, pair, at, ends[pair])
        for begin in range(0, len(letters), _LETTERS_AT_ONCE):
            if begin:
                transaction.begin()
            part = letters[begin : begin + _LETTERS_AT_ONCE]
            _send_back(client, transaction, part)
            after = part[-1].offset + 1 if begin + _LETTERS_AT_ONCE < len(letters) else ends[pair]
            transaction.commit(_group(name), {pair: (after, "")})
            sent += len(part)
    return sent


def _send_back(client: BlockingClient, transaction: Transaction, letters: list[Record]) -> None:
    by_partition: dict[TopicPartitionPair, list[Record]] = {}
    counts: dict[str, int] = {}
    for letter in letters:
        home = _header(letter, TOPIC_HEADER)
        if home is None:
            raise PipelineError(f"the dead letter at offset {letter.offset} does not say where it came from")
        if home not in counts:
            topics = client.topics([home])
            if home not in topics:
                raise PipelineError(
                    f"topic {home!r} of the dead letter at offset {letter.offset} does not exist any more"
                )
            counts[home] = len(topics[home].partitions)
        index = partition_for_key(letter.key, counts[home]) if letter.key is not None else letter.offset % counts[home]
        tries = int(_header(letter, RETRIES_HEADER) or 0) + 1
        again = Record(
            letter.key, letter.value, ((RETRIES_HEADER, str(tries).encode()),), timestamp_ms=int(time.time() * 1000)
        )
        by_partition.setdefault((home, index), []).append(again)
    producer = BatchProducer(client, transaction=transaction)
    for pair, records in by_partition.items():
        sealed = build_batch(records)
        times = [record.timestamp_ms for record in records]
        producer.send(pair, Section(sealed[HEADER_BYTES:], len(records), times[0], max(times)))
    producer.flush()
