"""What a reader commits and delivers when its group takes partitions away, with a consumer that the test plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.api import reader as reader_module
from headrace.api.reader import Decoder, GroupReader
from headrace.api.value_codec import codec_for


class Sent:
    """A message."""

    def __init__(self, partition: int, offset: int) -> None:
        self._place = partition, offset

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def value(self) -> bytes:
        return b"tea"

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def error(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


class PlayedConsumer:
    """Gives out `arrivals`, one for each poll: the messages, and what happens between the first of them and the
    others."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.arrivals: list[tuple[list[Sent], Callable[[], None]]] = []
        self.committed: dict[int, list[int]] = {}
        self.refuses = False
        self._rest: tuple[list[Sent], Callable[[], None]] = [], lambda: None

    def subscribe(self, topics: list[str], on_assign: Callable[..., None], on_revoke: Callable[..., None]) -> None:
        self._on_revoke = on_revoke

    def take_away(self, *partitions: int) -> None:
        self._on_revoke(self, [TopicPartition("orders", one) for one in partitions])

    def poll(self, wait_s: float) -> Sent | None:
        while self.arrivals:
            messages, event = self.arrivals.pop(0)
            if messages:
                self._rest = messages[1:], event
                return messages[0]
            event()
        return None

    def consume(self, count: int, wait_s: float) -> list[Sent]:
        (rest, event), self._rest = self._rest, ([], lambda: None)
        event()
        return rest

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
        for one in offsets:
            self.committed.setdefault(one.partition, []).append(one.offset)

    def close(self) -> None:
        self.take_away(0, 1)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "Consumer", PlayedConsumer)


def reader_of(guarantee: str = "at-least-once") -> tuple[GroupReader[Any], PlayedConsumer]:
    reader = GroupReader[Any]({}, "orders", Decoder(codec_for("orders", str, None, "avro")), guarantee, idle_s=0.0)
    reader._is_member = True
    consumer: Any = reader.consumer
    return reader, consumer


def nothing() -> None:
    return


def test_what_is_done_is_committed_before_the_partition_goes_and_never_after(played: None) -> None:
    reader, consumer = reader_of()
    seen_at_the_rebalance: list[dict[int, list[int]]] = []

    def rebalance() -> None:
        consumer.take_away(0)
        seen_at_the_rebalance.append({key: list(offsets) for key, offsets in consumer.committed.items()})

    consumer.arrivals = [
        ([Sent(0, 0), Sent(0, 1), Sent(1, 0)], nothing),
        ([], rebalance),
        ([Sent(1, 1)], nothing),
    ]
    assert len(list(reader)) == 4
    assert seen_at_the_rebalance == [{0: [2], 1: [1]}]
    assert consumer.committed == {0: [2], 1: [1, 2]}


def test_a_partition_that_was_taken_away_unseen_is_not_committed_later(played: None) -> None:
    reader, consumer = reader_of()

    def lost() -> None:
        consumer.refuses = True
        consumer.take_away(0)
        consumer.refuses = False

    consumer.arrivals = [([Sent(0, 0), Sent(1, 0)], nothing), ([], lost), ([Sent(1, 1)], nothing)]
    assert len(list(reader)) == 3
    assert consumer.committed == {1: [2]}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_message_whose_partition_goes_while_it_is_fetched_is_left_to_the_next_reader(
    played: None, guarantee: str
) -> None:
    reader, consumer = reader_of(guarantee)
    consumer.arrivals = [
        ([Sent(0, 7), Sent(1, 3)], lambda: consumer.take_away(0)),
        ([Sent(1, 4)], lambda: consumer.take_away(0)),
    ]
    seen = [(record.partition, record.offset) for batch in reader.batches() for record in batch]
    assert seen == [(1, 3), (1, 4)], "only what was taken away, and only then"
