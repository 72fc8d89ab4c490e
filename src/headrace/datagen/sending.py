"""Sends the records of a plan at the planned rate, with librdkafka."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.datagen.generator import Generated, Generator
from headrace.datagen.plan import Plan
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from confluent_kafka import Producer

Produce: TypeAlias = Callable[..., None]
_topic: Final = attrgetter("topic")
_SETTINGS: Final = {
    "client.id": "headrace-datagen",
    "linger.ms": 20,
    "message.timeout.ms": 60_000,
    "acks": "all",
    # A lost answer must not write records twice.
    "enable.idempotence": True,
    # A call of Python for every acknowledged record would take as much time as the record itself.
    "delivery.report.only.error": True,
}
_TOPIC_EXISTS: Final = 36
_WAIT_S: Final = 0.05
_END_S: Final = 60


class NotSent(Exception):
    """A broker refused a topic or a record, or no broker answers."""


@dataclass
class Sent:
    """What was sent so far."""

    records: Counter[str] = field(default_factory=Counter)
    bytes_: int = 0
    seconds: float = 0.0
    behind_s: float = 0.0
    """How far the sending is behind the planned rate."""

    @property
    def total(self) -> int:
        return sum(self.records.values())


def create_topics(plan: Plan, settings: Mapping[str, Any], *, replication: int | None = None) -> list[str]:
    """Creates the missing topics of a plan with their partitions and configurations. Returns the new ones."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(dict(settings))
    wanted = [
        NewTopic(each.name, each.partitions, replication or each.replication, config=each.configs)
        for each in plan.topics
    ]
    made = []
    for name, created in admin.create_topics(wanted).items():
        try:
            created.result()
            made.append(name)
        except KafkaException as fault:
            error = fault.args[0]
            if error.code() != _TOPIC_EXISTS:
                raise NotSent(f"cannot create topic {name!r}: {error.str()}") from None
    return made


class Sender:
    """Sends until a limit is reached. `look` is called a few times a second."""

    def __init__(self, settings: Mapping[str, Any], *, paced: bool = True) -> None:
        self._settings, self._paced = settings, paced
        # By the name of the producer in the plan; topics without one share the producer "".
        self._producers: dict[str, Producer] = {}
        self._began: float | None = None
        # Of the last chunk, when a limit was reached in its middle. The next run goes on with it.
        self._left: list[Generated] = []
        self.sent = Sent()
        self._fault: str | None = None

    def run(
        self,
        generator: Generator,
        *,
        seconds: float | None = None,
        count: int | None = None,
        look: Callable[[Sent], None] = lambda sent: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Sent:
        """`seconds` limits the time of the plan, `count` the number of records since the first run. A second run
        goes on where the first one ended. Raises NotSent."""
        if self._began is None:
            self._began = time.monotonic()
        began = self._began
        produce = {topic.name: self._producer(topic.producer).produce for topic in generator.plan.topics}
        try:
            while not stop():
                chunk = self._within_limits(self._left or generator.chunk(), seconds, count)
                if self._paced:
                    self._send_paced(chunk, produce, began, stop)
                else:
                    self._send(chunk, produce)
                self.sent.seconds = time.monotonic() - began
                look(self.sent)
                if self._left:
                    break
        finally:
            left = sum(producer.flush(_END_S) for producer in self._producers.values())
        self._check()
        if left:
            raise NotSent(f"the brokers have not acknowledged {counted(left, 'record')} within {_END_S} s")
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def _producer(self, name: str) -> Producer:
        from confluent_kafka import KafkaException, Producer

        if name not in self._producers:
            own = {"client.id": f"headrace-datagen-{name}"} if name else {}
            try:
                self._producers[name] = Producer(
                    {**_SETTINGS, **self._settings, **own, "on_delivery": self._delivered}
                )  # fmt: skip
            except KafkaException as fault:
                raise NotSent(fault.args[0].str()) from None
        return self._producers[name]

    def _within_limits(self, chunk: list[Generated], seconds: float | None, count: int | None) -> list[Generated]:
        """The records before the first limit. The others are left for the next run. A chunk is sorted by time."""
        end = len(chunk)
        if count is not None:
            end = min(end, max(0, count - self.sent.total))
        if seconds is not None:
            end = min(end, bisect_right(chunk, seconds, key=attrgetter("at_s")))
        self._left = chunk[end:]
        return chunk[:end]

    def _send_paced(
        self, chunk: list[Generated], produce: Mapping[str, Produce], began: float, stop: Callable[[], bool]
    ) -> None:
        for at, record in enumerate(chunk):
            while (early := began + record.at_s - time.monotonic()) > 0:
                if stop():
                    self._left = chunk[at:] + self._left
                    return
                self._poll(min(early, _WAIT_S))
            self.sent.behind_s = -early
            self._send([record], produce)

    def _send(self, records: list[Generated], produce: Mapping[str, Produce]) -> None:
        for record in records:
            topic, key, value, timestamp_ms, _, headers = record
            try:
                if headers:
                    produce[topic](topic, value, key, timestamp=timestamp_ms, headers=list(headers))
                else:
                    # The common case names one argument, because each takes librdkafka's wrapper about 0.2 µs.
                    produce[topic](topic, value, key, timestamp=timestamp_ms)
            except BufferError:
                self._send_when_there_is_room(record, produce)
        sent = self.sent
        sent.records.update(map(_topic, records))
        sent.bytes_ += sum(len(record[1] or b"") + len(record[2] or b"") for record in records)
        self._poll(0)

    def _send_when_there_is_room(self, record: Generated, produce: Mapping[str, Produce]) -> None:
        headers = list(record.headers) or None
        while True:
            self._poll(0.1)
            with suppress(BufferError):
                produce[record.topic](
                    record.topic, record.value, record.key, timestamp=record.timestamp_ms, headers=headers
                )
                return

    def _poll(self, seconds: float) -> None:
        """Waits for errors of delivery. Only the first producer waits; the others tell what they have."""
        for producer in self._producers.values():
            producer.poll(seconds)
            seconds = 0
        self._check()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._fault is None:
            self._fault = f"topic {message.topic()!r}: {error.str()}"

    def _check(self) -> None:
        if self._fault is not None:
            raise NotSent(self._fault)
