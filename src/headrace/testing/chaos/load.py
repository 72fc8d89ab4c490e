"""Writes the input of the application, and watches what it writes."""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from headrace.testing.chaos.history import ANY_OFFSET, Place, Value
from headrace.testing.chaos.plan import Plan, PlanError
from headrace.testing.chaos.tokens import PLACEHOLDER, Tokens

_QUIET: Final = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 500}
_TIMEOUT_S: Final = 30.0
_FLUSH_S: Final = 90.0
_BURST_S: Final = 0.02


class Writer:
    """Numbered records by key, with an idempotent producer: what it doubles or loses is no fault of the input."""

    def __init__(self, plan: Plan, bootstrap: str, tokens: Tokens, began_at: float) -> None:
        self._plan = plan
        self._tokens = tokens
        self._began_at = began_at
        self.acked: dict[Value, Place] = {}
        self.acked_at: dict[Value, float] = {}
        self.refused: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 120_000, **_QUIET}
        )

    def write(self, stopped: threading.Event) -> None:
        """Until the duration of the plan is over."""
        count = 0
        while not stopped.is_set() and (passed := time.monotonic() - self._began_at) < self._plan.duration_s:
            while count < passed * self._plan.rate:
                self._send(count)
                count += 1
            self._producer.poll(_BURST_S)
        if self._producer.flush(_FLUSH_S):
            self.refused.append(f"not every record was answered within {_FLUSH_S:g} s")

    def _send(self, count: int) -> None:
        value = Value(f"k{count % self._plan.keys:02}", count // self._plan.keys)
        text = self._plan.value.replace(PLACEHOLDER, self._tokens.text(value))

        def answered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.refused.append(error.str())
                return
            # A retry that the broker knew already may be acknowledged without its offset.
            offset = message.offset()
            self.acked[value] = Place(message.partition() or 0, ANY_OFFSET if offset is None else offset)
            self.acked_at[value] = time.monotonic() - self._began_at

        self._producer.produce(self._plan.input, text, key=value.producer, on_delivery=answered)


class Watcher:
    """Reads the committed records of a topic from where it ended when the run began."""

    def __init__(self, bootstrap: str, topic: str, tokens: Tokens, began_at: float) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._tokens = tokens
        self._began_at = began_at
        self.seen_at: dict[Value, float] = {}
        self.others = 0
        self._consumer = self._open()
        self._starts = [
            Partition(topic, index, self._consumer.get_watermark_offsets(Partition(topic, index), _TIMEOUT_S)[1])
            for index in self._partitions(self._consumer)
        ]
        self._consumer.assign(self._starts)

    def _open(self) -> Consumer:
        settings = {"group.id": "headrace-chaos", "enable.auto.commit": False, "isolation.level": "read_committed"}
        return Consumer({"bootstrap.servers": self._bootstrap, "fetch.wait.max.ms": 50, **settings, **_QUIET})

    def _partitions(self, consumer: Consumer) -> list[int]:
        found = consumer.list_topics(self._topic, _TIMEOUT_S).topics[self._topic]
        if found.error is not None:
            raise PlanError(f"topic {self._topic!r} cannot be read: {found.error.str()}")
        return sorted(found.partitions)

    def watch(self, stopped: threading.Event) -> None:
        while not stopped.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            value = self._tokens.find(message.value(), message.key())
            if value is None:
                self.others += 1
            else:
                self.seen_at.setdefault(value, time.monotonic() - self._began_at)
        self._consumer.close()

    def final(self) -> dict[int, list[tuple[int, Value]]]:
        """The records of this run, per partition, read again from the start of the run."""
        consumer = self._open()
        try:
            found: dict[int, list[tuple[int, Value]]] = {one.partition: [] for one in self._starts}
            ends = {
                one.partition: consumer.get_watermark_offsets(Partition(self._topic, one.partition), _TIMEOUT_S)[1]
                for one in self._starts
            }
            left = {one.partition: ends[one.partition] for one in self._starts if one.offset < ends[one.partition]}
            consumer.assign([one for one in self._starts if one.partition in left])
            deadline = time.monotonic() + _FLUSH_S
            while left:
                if time.monotonic() > deadline:
                    raise PlanError(f"topic {self._topic!r} cannot be read to its end: a transaction may be open")
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    value = self._tokens.find(message.value(), message.key())
                    if value is not None:
                        found[message.partition() or 0].append((message.offset() or 0, value))
                for at in consumer.position([Partition(self._topic, index) for index in left]):
                    if at.offset >= left[at.partition]:
                        del left[at.partition]
            return found
        except KafkaException as error:
            raise PlanError(f"topic {self._topic!r} cannot be read: {error.args[0].str()}") from None
        finally:
            consumer.close()


class Group:
    """What the group of the application has committed."""

    def __init__(self, bootstrap: str, name: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
        self._name = name
        self._topic = topic

    def delivered(self, acked: dict[Value, Place]) -> set[Value]:
        """The records before the committed offset of their partition."""
        asked = [ConsumerGroupTopicPartitions(self._name)]
        try:
            found = self._admin.list_consumer_group_offsets(asked)[self._name].result(_TIMEOUT_S).topic_partitions
        except KafkaException:
            return set()
        committed = {one.partition: one.offset for one in found or [] if one.topic == self._topic}
        return {value for value, place in acked.items() if place.offset < committed.get(place.partition, 0)}
