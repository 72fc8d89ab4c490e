"""The producer of a cluster: one for each guarantee, shared by its topics.

A send only queues the record. When the queue is full, it waits for room. A record that could not be delivered raises
DeliveryFailed at the next send, flush or close; the message names the line that sent it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.api.errors import DeliveryFailed, NotPossible
from headrace.kernel.plurals import counted

DEFAULT_GUARANTEE: Final = "at-least-once"
GUARANTEES: Final = ("at-most-once", "at-least-once", "exactly-once")
_SETTINGS: Final[Mapping[str, Mapping[str, object]]] = {
    "at-most-once": {"acks": "1", "retries": 0},
    "at-least-once": {"acks": "all"},
    "exactly-once": {"acks": "all", "enable.idempotence": True},
}
_FULL_QUEUE_POLL_S: Final = 0.5
# Reports of failures wait for a poll.
POLL_EVERY: Final = 64
# What a producer raises that takes no record: RuntimeError after its end.
REFUSALS: Final = (BufferError, KafkaException, RuntimeError)
Report = Callable[[KafkaError | None, Message], None]

Key = str | bytes | None
SentHeaders = Mapping[str, bytes | str | None]
Line = tuple[CodeType, int]
"""A function and the place in its bytecode: cheaper to ask for than the number of the line."""
Home = tuple[CodeType | None, int, Callable[..., None], Sequence[str]]
"""The line that sends most records of a topic, the call that queues one, and the failures that have not been raised."""


def _not_yet(*_: object) -> None:
    raise AssertionError("no line of code is None")


NO_HOME: Final[Home] = (None, -1, _not_yet, ())


def check_guarantee(guarantee: str) -> None:
    if guarantee not in GUARANTEES:
        raise NotPossible(f"guarantee={guarantee!r}: choose one of {', '.join(GUARANTEES)}")


class Sender:
    """`exactly-once` writes each record once although requests are repeated; with reading, use a transaction.

    Most topics are written by one line of a program. Its records take the callback of the producer, which costs nothing
    for each record; the records of other lines take a callback of their own."""

    def __init__(self, settings: Mapping[str, object], guarantee: str) -> None:
        check_guarantee(guarantee)
        reports = {"delivery.report.only.error": True, "on_delivery": self._failed_at_home}
        self._producer = Producer({**settings, **_SETTINGS[guarantee], **reports})
        self._produce = self._producer.produce
        self._homes: dict[str, Line] = {}
        self._reports: dict[Line, Report] = {}
        self._lock = threading.Lock()
        self._failures: list[str] = []

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: Key,
        headers: SentHeaders | None,
        partition: int | None,
        caller: FrameType,
    ) -> None:
        """`caller`: the frame that sends. Raises DeliveryFailed for an earlier record."""
        if self._failures:
            self._raise()
        home = self._homes.get(topic)
        if home is None:
            home = self._homes[topic] = caller.f_code, caller.f_lasti
        if headers is not None or partition is not None or caller.f_code is not home[0] or caller.f_lasti != home[1]:
            self._with_options(topic, value, key, headers, partition, (caller.f_code, caller.f_lasti))
            return
        try:
            self._produce(topic, value, key)
        except REFUSALS as error:
            self.retry(error, topic, partial(self._produce, topic, value, key))
        self.poll()

    def home(self, topic: str) -> Home:
        """For a caller that sends without `send`: it compares the line, calls the function, and polls now and then."""
        return *self._homes[topic], self._produce, self._failures

    def poll(self) -> None:
        """Takes the reports of failures."""
        self._producer.poll(0)

    def _with_options(
        self,
        topic: str,
        value: bytes | None,
        key: Key,
        headers: SentHeaders | None,
        partition: int | None,
        line: Line,
    ) -> None:
        failed = self._reports.get(line)
        if failed is None:
            failed = self._reports[line] = partial(self._failed, line)
        more: dict[str, object] = {} if partition is None else {"partition": partition}
        if headers:
            more["headers"] = list(headers.items())
        produce = partial(self._produce, topic, value, key, on_delivery=failed, **more)
        try:
            produce()
        except REFUSALS as error:
            self.retry(error, topic, produce)
        self.poll()

    def retry(self, error: Exception, topic: str, produce: Callable[[], object]) -> None:
        """Waits for room if the queue is full. Raises NotPossible if the cluster is closed, and DeliveryFailed for any
        other reason."""
        while isinstance(error, BufferError):
            self._producer.poll(_FULL_QUEUE_POLL_S)
            try:
                produce()
                return
            except REFUSALS as again:
                error = again
        if isinstance(error, RuntimeError):
            raise NotPossible(f"topic {topic}: the connection to the cluster is closed: connect again") from None
        raise DeliveryFailed(f"topic {topic} takes no records: {error.args[0].str()}") from None

    def flush(self, timeout_s: float) -> None:
        """Waits until all records are delivered. Raises DeliveryFailed."""
        left = self._producer.flush(timeout_s)
        if self._failures:
            self._raise()
        if left:
            raise DeliveryFailed(
                f"not delivered within {timeout_s:g} s: {counted(left, 'record')}; is the cluster reachable?"
            )

    def close(self) -> None:
        """Ends the producer: its threads and connections, and what it asks of topics that it knows."""
        self._producer.close()

    def _failed_at_home(self, error: KafkaError | None, message: Message) -> None:
        self._failed(self._homes.get(message.topic() or ""), error, message)

    def _failed(self, line: Line | None, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            reason = f"{error.str()} ({error.name()}): topic {message.topic()}, sent at {_place(line)}"
            with self._lock:
                self._failures.append(reason)

    def _raise(self) -> None:
        with self._lock:
            failures = self._failures.copy()
            self._failures.clear()
        more = f"; and {len(failures) - 1} more" if len(failures) > 1 else ""
        raise DeliveryFailed(f"a record was not delivered: {failures[0]}{more}")


def _place(line: Line | None) -> str:
    """The file and the line."""
    if line is None:
        return "an unknown line"
    code, at = line
    number = next(
        (number for start, end, number in code.co_lines() if start <= at < end and number), code.co_firstlineno
    )
    return f"{code.co_filename}:{number}"
