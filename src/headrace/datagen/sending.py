"""Sends the records of a plan at the planned rate, with librdkafka."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.datagen.generator import Generated, Generator
from headrace.datagen.plan import Plan
from headrace.kernel.plurals import counted

_SETTINGS: Final = {
    "client.id": "headrace-datagen",
    "linger.ms": 20,
    "message.timeout.ms": 60_000,
    "acks": "all",
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
        from confluent_kafka import KafkaException, Producer

        try:
            self._producer = Producer({**_SETTINGS, **settings})
        except KafkaException as fault:
            raise NotSent(fault.args[0].str()) from None
        self._paced = paced
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
        try:
            while not stop():
                chunk, self._left = self._left or generator.chunk(), []
                ended = self._send(chunk, began, seconds, count, stop)
                self.sent.seconds = time.monotonic() - began
                look(self.sent)
                if ended:
                    break
        finally:
            left = self._producer.flush(_END_S)
        self._check()
        if left:
            raise NotSent(f"the brokers have not acknowledged {counted(left, 'record')} within {_END_S} s")
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def _send(
        self,
        chunk: list[Generated],
        began: float,
        seconds: float | None,
        count: int | None,
        stop: Callable[[], bool],
    ) -> bool:
        """True if a limit is reached."""
        produce, sent, total = self._producer.produce, self.sent, self.sent.total
        for at, record in enumerate(chunk):
            if (count is not None and total >= count) or (seconds is not None and record.at_s > seconds):
                self._left = chunk[at:]
                return True
            if self._paced:
                while (early := began + record.at_s - time.monotonic()) > 0:
                    if stop():
                        self._left = chunk[at:]
                        return True
                    self._producer.poll(min(early, _WAIT_S))
                sent.behind_s = -early
            while True:
                try:
                    produce(
                        record.topic,
                        record.value,
                        record.key,
                        timestamp=record.timestamp_ms,
                        headers=None if not record.headers else list(record.headers),
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
                    self._check()
            total += 1
            sent.records[record.topic] += 1
            sent.bytes_ += len(record.value or b"") + len(record.key or b"")
        self._producer.poll(0)
        self._check()
        return False

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._fault is None:
            self._fault = f"topic {message.topic()!r}: {error.str()}"

    def _check(self) -> None:
        if self._fault is not None:
            raise NotSent(self._fault)
