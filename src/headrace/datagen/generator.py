"""The records of a plan, in the order in which they arrive. The same plan and seed give the same records.

Records are made in chunks. A record refers only to records of earlier chunks, so what it refers to exists already.
While a topic has nothing to refer to, its turns go to the topic that it refers to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from operator import attrgetter
from random import Random
from typing import Final, NamedTuple

from headrace.datagen.fields import Row, Rows, Value
from headrace.datagen.linked import RECENT, Template
from headrace.datagen.plan import Plan, TopicPlan

_FIRST_CHUNK: Final = 8
_CHUNK: Final = 512


class Generated(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    at_s: float
    """When it is sent, in seconds from the start. A late record is sent after records with later event times."""
    headers: tuple[tuple[str, bytes], ...] = ()


_sending_time: Final = attrgetter("at_s")
# Makes the bytes of the values of one topic from rows; None leaves JSON to the generator.
Encoder = Callable[[str, list[Row]], list[bytes]]


@dataclass
class _Stream:
    plan: TopicPlan
    recent: deque[Row]
    key: Template | None
    is_referred_to: bool
    made: list[Row] = field(default_factory=list)
    """Records of this chunk. Later chunks can refer to them."""


class Generator:
    def __init__(self, plan: Plan, *, start_ms: int, seed: int | None = None, encode: Encoder | None = None) -> None:
        self.plan, self._start_ms, self._encode = plan, start_ms, encode
        self._random = Random(plan.seed if seed is None else seed)
        referred = {topic for each in plan.topics for topic in each.refers_to}
        self._streams = {
            each.name: _Stream(
                each,
                deque(maxlen=RECENT),
                Template(f"topics.{each.name}.key", each.key) if each.key is not None and "{" in each.key else None,
                each.name in referred,
            )
            for each in plan.topics
        }
        self._weights = list(accumulate(each.weight for each in plan.topics))
        self._second = 0.0
        # The first chunks are small, so that topics which refer to others begin soon.
        self._size = _FIRST_CHUNK
        self._late: list[Generated] = []
        self._has_late = any(each.late for each in plan.topics)

    def __iter__(self) -> Iterator[Generated]:
        """Never ends."""
        while True:
            yield from self.chunk()

    def chunk(self) -> list[Generated]:
        """The next records, sorted by the time at which they are sent."""
        count, self._size = self._size, min(2 * self._size, _CHUNK)
        moments = self.plan.arrivals.times_after(self._second, count)
        self._second = moments[-1]
        turns: dict[str, list[float]] = {}
        names = self._random.choices(self.plan.topics, cum_weights=self._weights, k=count)
        able = {each.name: self._able(each) for each in self.plan.topics}
        for plan, moment in zip(names, moments, strict=True):
            turns.setdefault(able[plan.name], []).append(moment)
        found: list[Generated] = []
        for plan in self.plan.topics:
            if plan.name in turns:
                found += self._records(self._streams[plan.name], turns[plan.name])
        for stream in self._streams.values():
            stream.recent.extend(stream.made)
            stream.made.clear()
        if self._has_late:
            found, self._late = self._split_late(found)
        if self._has_late or len(turns) > 1:
            found.sort(key=_sending_time)
        return found

    def _able(self, plan: TopicPlan) -> str:
        """The topic itself, or the topic that needs a record first."""
        for topic in sorted(plan.refers_to):
            if not self._streams[topic].recent:
                return self._able(self._streams[topic].plan)
        return plan.name

    def _records(self, stream: _Stream, moments: list[float]) -> list[Generated]:
        plan, random = stream.plan, self._random
        start_ms = self._start_ms
        times_ms = [start_ms + int(moment * 1000) for moment in moments]
        recent = {topic: self._streams[topic].recent for topic in plan.refers_to}
        rows = Rows(times_ms, random, {}, recent)
        for name in plan.order:
            rows.columns[name] = plan.fields[name].values(rows)
        records: list[Row] = []
        if stream.is_referred_to or self._encode is not None:
            names = list(plan.fields)
            records = [
                dict(zip(names, row, strict=True)) for row in zip(*(rows.columns[n] for n in names), strict=True)
            ]
        keys, values = self._keys(stream, rows), self._values(plan, rows, records)
        found = list(map(Generated, repeat(plan.name), keys, values, times_ms, moments, repeat(plan.headers)))
        if stream.is_referred_to:
            stream.made += records
        if plan.late or plan.duplicates or plan.malformed or plan.tombstones:
            return self._with_faults(plan, found)
        return found

    def _keys(self, stream: _Stream, rows: Rows) -> list[bytes] | list[None]:
        key = stream.plan.key
        if key is None:
            return [None] * rows.count
        values: list[Value] = rows.columns[key] if stream.key is None else stream.key.values(rows)
        return [str(value).encode() for value in values]

    def _values(self, plan: TopicPlan, rows: Rows, records: list[Row]) -> list[bytes]:
        if self._encode is not None and plan.form not in ("json", "text"):
            if len(plan.written) < len(plan.fields):
                records = [{name: record[name] for name in plan.written} for record in records]
            return self._encode(plan.name, records)
        if plan.form == "text":
            (name,) = plan.written
            return [str(value).encode() for value in rows.columns[name]]
        form = "{" + ",".join(f'"{name}":%s' for name in _escaped(plan)) + "}"
        texts = [plan.fields[name].texts(rows.columns[name]) for name in plan.written]
        return [(form % row).encode() for row in zip(*texts, strict=True)]

    def _with_faults(self, plan: TopicPlan, records: list[Generated]) -> list[Generated]:
        chance, found = self._random.random, []
        for each in records:
            record = each
            if plan.tombstones and record.key is not None and chance() < plan.tombstones:
                record = record._replace(value=None)
            elif plan.malformed and record.value and chance() < plan.malformed:
                # Half a document, as a program leaves it that is killed while it writes.
                record = record._replace(value=record.value[: max(1, len(record.value) // 2)])
            if plan.late and chance() < plan.late:
                record = record._replace(at_s=record.at_s + plan.late_by_s * chance())
            found.append(record)
            if plan.duplicates and chance() < plan.duplicates:
                found.append(record)
        return found

    def _split_late(self, found: list[Generated]) -> tuple[list[Generated], list[Generated]]:
        """Records that are sent now, and records that are sent in a later chunk."""
        due: list[Generated] = []
        later: list[Generated] = []
        for record in [*self._late, *found]:
            (later if record.at_s > self._second else due).append(record)
        return due, later


def _escaped(plan: TopicPlan) -> list[str]:
    return [name.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") for name in plan.written]
