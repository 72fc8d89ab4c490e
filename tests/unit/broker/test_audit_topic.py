"""Denied requests as records: nothing is lost while the topic has no leader, and a flood stays bounded."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.broker import audit_topic
from headrace.broker.audit_topic import MAX_WAITING, AuditTopic
from headrace.kernel.errors import NotLeader
from headrace.records.batch import BatchView
from headrace.records.reader import read_records
from tests.support.clock import PATIENCE_S


class Leader:
    """The partition of the topic on this broker; away for the first writes."""

    def __init__(self, away_for: int, expected: int) -> None:
        self.away_for = away_for
        self.expected = expected
        self.has_all = asyncio.Event()
        self.written: list[dict[str, Any]] = []

    def led(self, topic: str, index: int) -> Leader:
        assert (topic, index) == ("__audit", 1)
        return self

    def append(self, data: memoryview, *, acks: int, now_ms: int) -> None:
        if self.away_for:
            self.away_for -= 1
            raise NotLeader("elected elsewhere")
        self.written += [json.loads(record.value or b"") for record in read_records(BatchView(data))]
        if len(self.written) >= self.expected:
            self.has_all.set()


class Creation:
    async def ensure(self, name: str) -> bool:
        return True


def audit(leader: Leader) -> AuditTopic:
    topic = SimpleNamespace(partitions=[SimpleNamespace(leader=1), SimpleNamespace(leader=3)])
    view = SimpleNamespace(current=SimpleNamespace(topics={"__audit": topic}))
    return AuditTopic("__audit", 3, cast("Any", view), cast("Any", leader), cast("Any", None), Creation())


def test_denials_wait_for_the_leader_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "_PAUSE_S", 0.001)
    leader = Leader(away_for=3, expected=1200)

    async def play() -> None:
        topic = audit(leader)
        for number in range(1200):
            topic.add({"number": number})
        await asyncio.wait_for(leader.has_all.wait(), PATIENCE_S)
        await topic.close()

    asyncio.run(play())
    assert [denial["number"] for denial in leader.written] == list(range(1200))
    assert leader.written[0]["broker"] == 3


def test_a_flood_of_denials_is_counted_instead_of_queued() -> None:
    leader = Leader(away_for=0, expected=MAX_WAITING + 1)

    async def play() -> None:
        topic = audit(leader)
        for _ in range(MAX_WAITING + 42):
            topic.add({})
        await asyncio.wait_for(leader.has_all.wait(), PATIENCE_S)
        await topic.close()

    asyncio.run(play())
    (counted,) = [denial for denial in leader.written if "not_recorded" in denial]
    assert counted["not_recorded"] == 42


def test_long_names_do_not_make_a_batch_that_the_topic_refuses() -> None:
    """Else a client could stop the audit: the refused batch is written again for ever, before all others."""
    leader = Leader(away_for=0, expected=501)
    largest = 0

    def append(data: memoryview, *, acks: int, now_ms: int) -> None:
        nonlocal largest
        largest = max(largest, len(data))
        Leader.append(leader, data, acks=acks, now_ms=now_ms)

    leader.append = append  # type: ignore[method-assign]

    async def play() -> None:
        topic = audit(leader)
        for _ in range(500):
            topic.add({"resource_name": "\1" * 30_000, "principal": "User:" + "\U0001f512" * 8_000})
        topic.add({"resource_name": "orders"})
        await asyncio.wait_for(leader.has_all.wait(), PATIENCE_S)
        await topic.close()

    asyncio.run(play())
    assert largest < 1_048_588
    assert [len(denial["resource_name"]) for denial in leader.written] == [1001] * 500 + [6]
