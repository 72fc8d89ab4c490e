"""Assertions that explain themselves: what was expected, what is there, and what the broker saw.

assert_records(headrace, "orders", ["tea", "coffee"])
eventually(lambda: cluster.groups.lag("kitchen")[0].records == 0)
assert topic_text(headrace, "orders") == Path("orders.golden").read_text()
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

T = TypeVar("T")
_POLL_S: Final = 0.02
_ASK_TIMEOUT_S: Final = 10.0
# Not "None": a program that writes str(None) would pass for one that writes a tombstone.
_NO_VALUE: Final = "a record without a value"


class HasBootstrap(Protocol):
    @property
    def bootstrap(self) -> str: ...


def eventually(condition: Callable[[], T], *, within: float = 5.0, message: str = "") -> T:
    """Returns the first true value of `condition`. An AssertionError inside it counts as not yet true."""
    deadline = time.monotonic() + within
    last = "it was never true"
    while True:
        try:
            found = condition()
        except AssertionError as error:
            last = str(error) or "an assertion without a message"
        else:
            if found:
                return found
            last = f"its last value was {found!r}"
        if time.monotonic() >= deadline:
            raise AssertionError(f"{message or 'the condition'} did not hold within {within:g} s: {last}")
        time.sleep(_POLL_S)


def topic_records(broker: HasBootstrap, topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """(partition, offset, key, value) of every committed record of a topic, by partition and offset."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"group.id": "headrace-assertions", "enable.auto.commit": False, "isolation.level": "read_committed"}
    quick = {"fetch.wait.max.ms": 5, "reconnect.backoff.ms": 10}  # an empty answer shows the end of a partition
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "enable.partition.eof": True, **settings, **quick})
    try:
        described = consumer.list_topics(topic, _ASK_TIMEOUT_S).topics[topic]
        if described.error is not None:
            raise AssertionError(f"topic {topic!r} cannot be read: {described.error.str()}")
        left = set(described.partitions)
        # Not offset 0: retention may have removed it, and librdkafka would go to the end without a word.
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in left])
        found = []
        while left:
            message = consumer.poll(_ASK_TIMEOUT_S)
            if message is None:
                raise AssertionError(f"topic {topic!r}: no answer from {broker.bootstrap} within {_ASK_TIMEOUT_S:g} s")
            error = message.error()
            if error is None:
                found.append((message.partition(), message.offset(), message.key(), message.value()))
            elif error.name() == "_PARTITION_EOF":
                left.discard(message.partition())
            else:
                raise AssertionError(f"topic {topic!r} cannot be read: {error.str()}")
        return sorted(found, key=lambda one: one[:2])
    finally:
        consumer.close()


def assert_records(
    broker: HasBootstrap, topic: str, expected: Sequence[object], *, within: float = 5.0, in_order: bool = True
) -> None:
    """Waits until the values of a topic are `expected`. A text stands for its bytes, a mapping or list for JSON."""
    wanted = [_shown(one) for one in expected]
    is_json = any(isinstance(one, dict | list | int | float) for one in expected)
    deadline = time.monotonic() + within
    while True:
        values = [value for _, _, _, value in topic_records(broker, topic)]
        there = [_as_expected(value, is_json=is_json) for value in values]
        if there == wanted if in_order else sorted(there) == sorted(wanted):
            return
        if time.monotonic() >= deadline:
            raise AssertionError(_difference(topic, wanted, there, within))
        time.sleep(_POLL_S)


def topic_text(broker: HasBootstrap, topic: str) -> str:
    """A topic as text for golden tests: a line for each record, without what differs between runs (offsets of control
    records, times)."""
    lines = []
    for partition, _, key, value in topic_records(broker, topic):
        lines.append(f"{partition} {_quoted(key)} {_quoted(value)}")
    return "".join(f"{line}\n" for line in lines)


def _quoted(data: bytes | None) -> str:
    return "-" if data is None else json.dumps(data.decode(errors="backslashreplace"), ensure_ascii=False)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if value is None:
        return _NO_VALUE
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)


def _as_expected(value: bytes | None, *, is_json: bool) -> str:
    """The value in the form of `_shown`: JSON is normalised if the test expects mappings or lists."""
    if value is not None and is_json:
        try:
            return json.dumps(json.loads(value), sort_keys=True)
        except ValueError:
            return _shown(value)
    return _shown(value)


def _difference(topic: str, wanted: list[str], there: list[str], within: float) -> str:
    missing = list(Counter(wanted) - Counter(there))
    more = list(Counter(there) - Counter(wanted))
    lines = [f"topic {topic} has {len(there)} records after {within:g} s, and {len(wanted)} were expected"]
    if missing:
        lines.append(f"  missing: {', '.join(missing)}")
    if more:
        lines.append(f"  not expected: {', '.join(more)}")
    if not missing and not more:
        lines.append(f"  in another order: {', '.join(there)}")
    return "\n".join(lines)
