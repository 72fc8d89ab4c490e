"""When a follower fetches: at once for a partition with a new leader, and as soon as a throttled partition is due."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from headrace.client.errors import Unreachable
from headrace.kernel.errors import ErrorCode
from headrace.replication.fetcher import FetchSettings, LeaderFetcher
from headrace.replication.leader_channel import ReplicaFetch
from headrace.wire.replica_fetch import AnsweredPartition, FetchAnswer
from tests.support.clock import PATIENCE_S

TOPIC = uuid.UUID(int=5)


class Leader:
    """Holds every request until the test sets the answer."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[ReplicaFetch] = asyncio.Queue()
        self.answer: asyncio.Future[FetchAnswer] | None = None
        self.opened = 0
        self.closed = False

    async def open(self, *_: Any, **__: Any) -> Leader:
        self.opened += 1
        self.closed = False
        return self

    async def fetch(self, request: ReplicaFetch, timeout_s: float) -> FetchAnswer:
        self.answer = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(request)
        return await self.answer

    def close(self) -> None:
        self.closed = True
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(Unreachable("closed by us"))


def partition(index: int, leader_epoch: int) -> Any:
    return SimpleNamespace(
        topic="orders",
        topic_id=TOPIC,
        index=index,
        leader_epoch=leader_epoch,
        log_end_offset=0,
        log_start_offset=0,
        last_epoch=lambda: -1,
        log=SimpleNamespace(offline_reason=None),
    )


def following(check: Callable[[LeaderFetcher, Leader], Awaitable[None]]) -> None:
    async def run() -> None:
        leader = Leader()
        quiet: Any = SimpleNamespace(is_on=False, copied=lambda *_: None)
        settings = FetchSettings(wait_max_ms=500, backoff_ms=1000)
        fetcher = LeaderFetcher(2, lambda: ("here", 1), lambda: (1, 7), settings, quiet, leader.open)  # type: ignore[arg-type]
        fetcher.add(partition(0, leader_epoch=0))
        async with asyncio.timeout(PATIENCE_S):
            await check(fetcher, leader)
        await fetcher.close()

    asyncio.run(run())


def named(request: ReplicaFetch) -> list[int]:
    return sorted(index for _, index in request.session.named)


def test_partition_with_a_new_leader_cancels_the_waiting_request() -> None:
    async def check(fetcher: LeaderFetcher, leader: Leader) -> None:
        assert named(await leader.asked.get()) == [0]
        fetcher.add(partition(1, leader_epoch=3))
        fetcher.add(partition(2, leader_epoch=4))
        assert named(await leader.asked.get()) == [0, 1, 2]
        assert leader.opened == 2, "one new connection for all that one image brought"

    following(check)


def test_new_partition_does_not_cancel_the_waiting_request() -> None:
    """Topics that are created one after the other must not cost a connection each."""

    async def check(fetcher: LeaderFetcher, leader: Leader) -> None:
        await leader.asked.get()
        fetcher.add(partition(1, leader_epoch=0))
        await asyncio.sleep(0)
        assert leader.answer is not None
        leader.answer.set_result(FetchAnswer(0, 9, []))
        assert named(await leader.asked.get()) == [1]
        assert leader.opened == 1

    following(check)


def test_max_wait_of_a_fetch_ends_when_a_throttled_partition_is_due() -> None:
    async def check(fetcher: LeaderFetcher, leader: Leader) -> None:
        await leader.asked.get()
        fetcher.add(partition(1, leader_epoch=0))
        not_yet = AnsweredPartition(TOPIC, 0, int(ErrorCode.not_leader_or_follower), 0, 0, None, memoryview(b""))
        assert leader.answer is not None
        leader.answer.set_result(FetchAnswer(0, 9, [not_yet]))
        second = await leader.asked.get()
        assert named(second) == [1]
        assert second.limits.max_wait_ms <= 51, second.limits

    following(check)


def test_large_response_yields_to_other_tasks() -> None:
    """One response may contain hundreds of partitions that changed leaders at once."""
    taken: list[int] = []

    async def check(fetcher: LeaderFetcher, leader: Leader) -> None:
        await leader.asked.get()
        many = [partition(index, leader_epoch=0) for index in range(1, 1001)]
        for one in many:
            one.append_as_follower = lambda *_, index=one.index: taken.append(index)
            fetcher.add(one)
        assert leader.answer is not None
        leader.answer.set_result(FetchAnswer(0, 9, []))
        assert len(named(await leader.asked.get())) == 1000
        leader.answer.set_result(
            FetchAnswer(0, 9, [AnsweredPartition(TOPIC, one.index, 0, 0, 0, None, memoryview(b"")) for one in many])
        )
        seen = [0]
        while len(taken) < 1000:
            await asyncio.sleep(0)
            seen.append(len(taken))
        assert max(after - before for before, after in pairwise(seen)) <= 64
        assert taken == sorted(taken)

    following(check)


def test_partition_that_leaves_during_the_question_for_the_log_start_does_not_end_the_fetcher() -> None:
    """A new replica asks where the leader's log starts. Meanwhile the partition gets another leader or is deleted."""

    async def check(fetcher: LeaderFetcher, leader: Leader) -> None:
        await leader.asked.get()
        gone = partition(1, leader_epoch=0)

        async def earliest_offset(*_: Any) -> tuple[ErrorCode, int]:
            fetcher.remove(gone)
            return ErrorCode.not_leader_or_follower, -1

        leader.earliest_offset = earliest_offset  # type: ignore[attr-defined]
        fetcher.add(gone)
        assert leader.answer is not None
        leader.answer.set_result(FetchAnswer(0, 9, []))
        assert named(await leader.asked.get()) == [1]
        too_late = AnsweredPartition(TOPIC, 1, int(ErrorCode.offset_out_of_range), -1, -1, None, memoryview(b""))
        leader.answer.set_result(FetchAnswer(0, 9, [too_late]))
        await leader.asked.get()
        await asyncio.sleep(0.1)  # longer than the pause after a temporary error
        fetcher.add(partition(2, leader_epoch=0))
        leader.answer.set_result(FetchAnswer(0, 9, []))
        assert named(await leader.asked.get()) == [2]

    following(check)
