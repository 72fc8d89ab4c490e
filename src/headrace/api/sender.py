"""The producer of a cluster: one for each guarantee, shared by its topics.

A send only queues the record. When the queue is full, it waits for room. A record that could not be delivered raises
DeliveryFailed at the next send, flush or close; the message names the line that sent it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.api.errors import DeliveryFailed, NotPossible

GUARANTEES: Final = ("at-most-once", "at-least-once", "exactly-once")
_SETTINGS: Final[Mapping[str, Mapping[str, object]]] = {
    "at-most-once": {"acks": "1", "retries": 0},
    "at-least-once": {"acks": "all"},
    "exactly-once": {"acks": "all", "enable.idempotence": True},
}
_FULL_QUEUE_POLL_S: Final = 0.5
_CALLER: Final = 2
# Only reports of failures wait for a poll.
_POLL_EVERY: Final = 64
Report = Callable[[KafkaError | None, Message], None]

Key = str | bytes | None
SentHeaders = Mapping[str, bytes | str | None]


def check_guarantee(guarantee: str) -> None:
    if guarantee not in GUARANTEES:
        raise NotPossible(f"guarantee={guarantee!r}: choose one of {', '.join(GUARANTEES)}")


class Sender:
    """`exactly-once` writes each record once although requests are repeated; with reading, use a transaction."""

    def __init__(self, settings: Mapping[str, object], guarantee: str) -> None:
        check_guarantee(guarantee)
        self._producer = Producer({**settings, **_SETTINGS[guarantee], "delivery.report.only.error": True})
        self._produce = self._producer.produce
        self._sent = 0
        self._reports: dict[tuple[CodeType, int], Report] = {}
        self._lock = threading.Lock()
        self._failures: list[str] = []

    def send(
        self, topic: str, value: bytes | None, key: Key, headers: SentHeaders | None, partition: int | None
    ) -> None:
        """Raises DeliveryFailed for an earlier record."""
        if self._failures:
            self._raise()
        caller = sys._getframe(_CALLER)
        line = caller.f_code, caller.f_lineno
        failed = self._reports.get(line)
        if failed is None:
            failed = self._reports[line] = partial(self._failed, caller.f_code.co_filename, caller.f_lineno)
        try:
            if partition is None and not headers:
                self._produce(topic, value, key, on_delivery=failed)
            else:
                self._with_options(topic, value, key, headers, partition, failed)
        except BufferError:
            self._producer.poll(_FULL_QUEUE_POLL_S)
            self._again(topic, value, key, headers, partition, failed)
        except KafkaException as error:
            raise DeliveryFailed(f"topic {topic} takes no records: {error.args[0].str()}") from None
        self._sent += 1
        if not self._sent % _POLL_EVERY:
            self._producer.poll(0)

    def _again(
        self,
        topic: str,
        value: bytes | None,
        key: Key,
        headers: SentHeaders | None,
        partition: int | None,
        failed: Report,
    ) -> None:
        """The queue was full: waits for room."""
        while True:
            try:
                return self._with_options(topic, value, key, headers, partition, failed)
            except BufferError:
                self._producer.poll(_FULL_QUEUE_POLL_S)

    def _with_options(
        self,
        topic: str,
        value: bytes | None,
        key: Key,
        headers: SentHeaders | None,
        partition: int | None,
        failed: Report,
    ) -> None:
        more: dict[str, object] = {} if partition is None else {"partition": partition}
        if headers:
            more["headers"] = list(headers.items())
        self._produce(topic, value, key, on_delivery=failed, **more)

    def flush(self, timeout_s: float) -> None:
        """Waits until all records are delivered. Raises DeliveryFailed."""
        left = self._producer.flush(timeout_s)
        if self._failures:
            self._raise()
        if left:
            raise DeliveryFailed(f"{left} records were not delivered within {timeout_s:g} s: is the cluster reachable?")

    def _failed(self, file: str, line: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            reason = f"{error.str()} ({error.name()}): topic {message.topic()}, sent at {file}:{line}"
            with self._lock:
                self._failures.append(reason)

    def _raise(self) -> None:
        with self._lock:
            failures, self._failures = self._failures, []
        more = f"; and {len(failures) - 1} more" if len(failures) > 1 else ""
        raise DeliveryFailed(f"a record was not delivered: {failures[0]}{more}")
