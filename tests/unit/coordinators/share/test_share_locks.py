"""The lock of a record ends after its duration: a wall clock that is set back and a lost lease change no other lock."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot
from headrace.coordinators.share.core.acquisition import AcquireRequest
from headrace.coordinators.share.core.share_partition import Acknowledgement, AcknowledgeType
from headrace.coordinators.share.led_share_partitions import LedSharePartitions
from headrace.coordinators.share.settings import ShareSettings
from headrace.kernel.clock import Clock
from headrace.kernel.errors import NotLeader
from headrace.replication.replica import PartitionRead
from headrace.storage.files import SharedFile
from headrace.storage.segment.batch_scan import Slice
from tests.support.clock import wait_on_loop
from tests.support.logs import a_batch

KEY = ShareKey("g", uuid.UUID(int=7), 0)


class SetBack(Clock):
    set_back_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() - self.set_back_ms


class States:
    async def read(self, key: ShareKey, leader_epoch: int) -> ShareSnapshot:
        return ShareSnapshot(0, 0, leader_epoch, 0, 0, 0, ())

    async def write(self, *state: object) -> None:
        """Every change becomes durable."""


def a_led_partition(path: Path, count: int) -> Any:
    """It is its own topic and cluster, too."""
    path.write_bytes(a_batch(count))
    found = PartitionRead(Slice(SharedFile(path), 0, path.stat().st_size), count, count, 0)
    partition = SimpleNamespace(
        topic_names={KEY.topic_id: "t"},
        leader_epoch=1,
        log_start_offset=0,
        high_watermark=count,
        isr=object(),
        check_leads=lambda: None,
        read=lambda *_, **__: found,
    )
    partition.get = lambda *_: partition
    partition.current = partition
    return partition


def test_a_lock_ends_in_time_if_the_wall_clock_is_set_back(tmp_path: Path) -> None:
    async def play() -> None:
        led, clock = a_led_partition(tmp_path / "records", 5), SetBack()
        nothing = cast("Any", None)
        shares = LedSharePartitions(led, led, States(), lambda _: ShareSettings(lock_ms=20), nothing, nothing, clock)
        share_partition = await shares.load(KEY)

        def acquired_by(member: str) -> Sequence[object]:
            found = shares.hand_out(share_partition, AcquireRequest(member, 500, 500), 1 << 20)
            return [] if found is None else found.acquired

        assert acquired_by("a") and not acquired_by("b")
        clock.set_back_ms = 3_600_000
        await wait_on_loop(lambda: acquired_by("b"), "the records of the first member")
        shares.close()

    asyncio.run(play())


def test_a_lapse_of_the_lease_keeps_the_locks_of_other_members(tmp_path: Path) -> None:
    """It may return in the same leader epoch, and the records of a dropped share partition would go to others."""

    def without_lease() -> None:
        raise NotLeader("t-0: this broker lost its session")

    async def play() -> None:
        settings = {KEY.group_id: ShareSettings(lock_ms=20)}
        led, nothing = a_led_partition(tmp_path / "records", 5), cast("Any", None)
        shares = LedSharePartitions(led, led, States(), settings.__getitem__, nothing, nothing, SetBack())
        share_partition = await shares.load(KEY)
        for member, lock_ms in (("short", 20), ("long", 600_000)):
            settings[KEY.group_id] = ShareSettings(lock_ms=lock_ms)
            shares.is_open(share_partition)
            assert shares.hand_out(share_partition, AcquireRequest(member, 2, 2, strict=True), 1 << 20) is not None
        led.check_leads, has_lease = without_lease, led.check_leads
        with pytest.raises(NotLeader):
            await shares.acknowledge(KEY, "long", [])
        await wait_on_loop(lambda: share_partition.core.next_fetch_offset == 0, "the end of the short lock")
        led.check_leads = has_lease
        await shares.acknowledge(KEY, "long", [Acknowledgement(2, 3, (AcknowledgeType.ACCEPT,))])
        shares.close()

    asyncio.run(play())
