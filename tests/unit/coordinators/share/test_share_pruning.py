"""The share coordinator deletes the records before the oldest snapshot in use, when that snapshot is committed."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, cast

from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.share.state_coordinator import ShareStateCoordinator
from headrace.kernel.ids import SHARE_GROUP_STATE_TOPIC
from tests.support.clock import wait_on_loop
from tests.support.coordinator_logs import MemoryLog

KEY = ShareKey("g", uuid.UUID(int=1 << 64), 0)


class Pruned(MemoryLog):
    """The log and its partition in one."""

    topic, index, log_start_offset = SHARE_GROUP_STATE_TOPIC, 0, 0

    @property
    def log_end_offset(self) -> int:
        return self.end_offset

    @property
    def high_watermark(self) -> int:
        return self.committed_offset

    def get(self, topic: str, index: int) -> Pruned | None:
        return self if index == 0 else None

    def delete_records_before(self, offset: int) -> None:
        assert self.log_start_offset < offset <= self.committed_offset
        self.log_start_offset = offset


def coordinator_on(log: Pruned) -> ShareStateCoordinator:
    """Every second record of a share partition is a snapshot."""
    topic = InternalTopic(SHARE_GROUP_STATE_TOPIC, 1)
    coordinator = ShareStateCoordinator(cast("Any", log), 1, topic, updates_per_snapshot=2)
    coordinator.runtime._make_log = cast("Any", lambda *_: log)
    coordinator.runtime.elect(0, leader_epoch=5)
    return coordinator


async def begun(coordinator: ShareStateCoordinator) -> None:
    await coordinator.initialize(KEY, 0, 0)
    await written(coordinator, 2)


async def written(coordinator: ShareStateCoordinator, count: int) -> None:
    for offset in range(count):
        await coordinator.write(KEY, 0, 1, offset, 0, ())


def test_records_before_a_snapshot_stay_until_it_is_committed() -> None:
    async def play() -> None:
        log = Pruned()
        coordinator = coordinator_on(log)
        await begun(coordinator)
        coordinator._prune()
        assert log.log_start_offset == 2, "the snapshot"
        log.commits_at_once = False
        writing = asyncio.gather(written(coordinator, 1), written(coordinator, 1))
        await wait_on_loop(lambda: log.end_offset == 5, "an update and a snapshot")
        coordinator._prune()
        await asyncio.sleep(0)
        assert log.log_start_offset == 2, "if the second snapshot is lost, the next leader needs the first one"
        log.commit()
        await writing
        await wait_on_loop(lambda: log.log_start_offset == 4, "the end of the older records")
        coordinator.close()

    asyncio.run(play())


def test_nothing_is_deleted_after_a_lost_commit() -> None:
    async def play() -> None:
        log = Pruned()
        coordinator = coordinator_on(log)
        await begun(coordinator)
        log.commits_at_once = False
        writing = asyncio.ensure_future(coordinator.write(KEY, 0, 1, 3, 0, ()))
        await wait_on_loop(lambda: log._waiters, "the wait for the commit")
        coordinator._prune()
        log.lose_leadership()
        await asyncio.gather(writing, return_exceptions=True)
        assert log.log_start_offset == 0
        coordinator.close()

    asyncio.run(play())


def test_nothing_is_deleted_without_the_lease() -> None:
    async def play() -> None:
        log = Pruned()
        coordinator = coordinator_on(log)
        await begun(coordinator)
        for log.is_led in (False, True):
            coordinator._prune()
            assert log.log_start_offset == (2 if log.is_led else 0)
        coordinator.close()

    asyncio.run(play())
