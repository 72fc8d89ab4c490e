"""Filters of readers whose conditions cannot be checked within their budget, or take long."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from headrace.client.cluster_client import ClusterClient
from headrace.client.places import Kind, Place
from headrace.client.record_fetch import FetchedRecords
from headrace.http.records import stream as reading
from headrace.http.records.filters import conditions
from headrace.http.records.stream import TopicStream, Wanted, ndjson, server_sent_events
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record

COSTLY = "value.a.all(x, value.a.all(y, x + y >= 0))"
RECORDS = [Record(None, json.dumps({"a": list(range(size))}).encode(), offset=n) for n, size in enumerate((2, 9000, 2))]


class OneFetch(TopicStream):
    """All records in the first fetch."""

    def __init__(self, expression: str) -> None:
        wanted = Wanted(
            "t", (0,), Place(Kind.BEGINNING), "auto", conditions(None, [], expression), None, False, None, 1
        )  # fmt: skip
        super().__init__(cast("ClusterClient", None), None, wanted)
        self._positions, self._ends = {TopicPartition("t", 0): 0}, {TopicPartition("t", 0): len(RECORDS)}

    async def _fetched(self, *, max_wait_ms: int) -> Any:
        return {TopicPartition("t", 0): FetchedRecords(RECORDS, len(RECORDS), len(RECORDS))}


async def _all(chunks: Any) -> list[bytes]:
    return [chunk async for chunk in chunks]


def test_a_reader_hears_that_a_filter_takes_too_many_steps() -> None:
    first, refused = map(json.loads, asyncio.run(_all(ndjson(OneFetch(COSTLY)))))
    assert first["offset"] == 0, "the records before it are shown"
    assert refused["error_code"] == 400
    assert "more than 400,000 steps" in refused["message"] and "(partition 0, offset 1)" in refused["message"]
    events = asyncio.run(_all(server_sent_events(OneFetch(COSTLY))))
    assert events[-1].startswith(b"event: error\n") and b"400,000 steps" in events[-1]


def test_conditions_are_checked_for_a_short_time_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread cannot be cancelled: a reader that went away must not keep one for a whole fetch."""
    monkeypatch.setattr(reading, "_SELECT_S", 0)
    stream = OneFetch("value.a.size() == 2")
    taken: list[int] = []
    select = stream._selected

    def noted(partition: TopicPartition, records: Any) -> Any:
        found = select(partition, records)
        taken.append(len(found.documents))
        return found

    monkeypatch.setattr(stream, "_selected", noted)
    found = asyncio.run(_all(ndjson(stream)))
    assert [json.loads(line)["offset"] for line in found] == [0, 2]
    assert taken == [1, 0, 1, 0]


def test_a_filter_that_is_nested_too_deep_is_refused_with_the_reason() -> None:
    nested = "true"
    for name in "abcd":
        nested = f"[1].all({name}, {nested})"
    with pytest.raises(Exception, match="nested in each other more than 3 times"):
        conditions(None, [], nested)
