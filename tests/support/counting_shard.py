"""A coordinator shard that counts, on a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.result import Answer
from headrace.coordinators.runtime.runtime import CoordinatorRuntime, LedPartitions, Result
from headrace.kernel.errors import ErrorCode, Refused
from headrace.records.builder import Record
from tests.support.clock import PATIENCE_S
from tests.support.coordinator_logs import MemoryLog


class Counters:
    """The value of each key is the last one written."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.pending: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.waiting: list[Any] = []
        self.loads = 0

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int, producer_epoch: int) -> None:
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append((key, value))
        else:
            self.values[key] = value

    def replay_end_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        for key, value in self.pending.pop(producer_id, []):
            if commit:
                self.values[key] = value

    def loaded(self, now_ms: int) -> Result:
        self.loads += 1
        return Result()

    def unloaded(self) -> list[Answer]:
        return self.refuse_waiting()

    def refuse_waiting(self) -> list[Answer]:
        return [(token, Refused(ErrorCode.not_coordinator, "gone")) for token in self.waiting]


class OnePartition:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log

    def get(self, topic: str, index: int) -> MemoryLog | None:
        return self.log if index == 0 else None


def runtime_on(log: MemoryLog, **more: Any) -> CoordinatorRuntime[Counters]:
    runtime: CoordinatorRuntime[Counters] = CoordinatorRuntime(
        InternalTopic("__state", 1, **more),
        cast("LedPartitions", OnePartition(log)),
        1,
        lambda _: Counters(),
        make_log=lambda *_: log,
    )
    runtime.elect(0, leader_epoch=5)
    return runtime


def put(key: bytes, value: bytes, **more: Any) -> Callable[[Counters, int], Result]:
    def operation(shard: Counters, now_ms: int) -> Result:
        seen = shard.values.get(key)
        return Result([Record(key, value)], reply=(seen, value), **more)

    return operation


def on_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(_as_coroutine(scenario), PATIENCE_S)

    asyncio.run(bounded())


async def _as_coroutine(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()
