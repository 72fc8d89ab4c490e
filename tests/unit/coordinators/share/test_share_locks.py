"""The lock of a record ends after its duration: a wall clock that is set back and a lost lease change no other lock."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot
from headrace.coordinators.share import dead_letters, led_share_partitions
from headrace.coordinators.share.core.acquisition import AcquireRequest
from headrace.coordinators.share.core.share_partition import Acknowledgement, AcknowledgeType
from headrace.coordinators.share.dead_letters import PERMISSION, DeadLetterRules, DeadLetters, DeadLetterTopic
from headrace.coordinators.share.led_share_partitions import LedSharePartitions
from headrace.coordinators.share.settings import ShareSettings
from headrace.kernel.clock import Clock
from headrace.kernel.errors import ErrorCode, NotLeader, Refused
from headrace.records.builder import Record
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
    """Every change becomes durable."""

    def __init__(self) -> None:
        self.written: list[tuple[object, ...]] = []

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareSnapshot:
        return ShareSnapshot(0, 0, leader_epoch, 0, 0, 0, ())

    async def write(self, *state: object) -> None:
        self.written.append(state)


def a_led_partition(path: Path, count: int) -> Any:
    """It is its own topic and cluster, too."""
    path.write_bytes(a_batch(count))
    found = PartitionRead(Slice(SharedFile(path), 0, path.stat().st_size), count, count, 0)
    partition = SimpleNamespace(
        topic="t",
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


class Lease:
    """Of the broker that leads the partition."""

    def __init__(self, led: Any) -> None:
        self.is_held, self.refusals = True, 0
        read, led.check_leads = led.read, self.check
        led.read = lambda *asked, **more: self.check() or read(*asked, **more)

    def check(self) -> None:
        if not self.is_held:
            self.refusals += 1
            raise NotLeader("t-0: this broker lost its session")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(led_share_partitions, "_LEASE_PAUSE_S", 0.01)
    monkeypatch.setattr(dead_letters, "_PATIENCE_S", 0)


def test_a_lapse_of_the_lease_keeps_the_locks_of_other_members(tmp_path: Path) -> None:
    """It may return in the same leader epoch, and the records of a dropped share partition would go to others."""

    async def play() -> None:
        settings = {KEY.group_id: ShareSettings(lock_ms=20)}
        led, nothing = a_led_partition(tmp_path / "records", 5), cast("Any", None)
        lease = Lease(led)
        shares = LedSharePartitions(led, led, States(), settings.__getitem__, nothing, nothing, SetBack())
        share_partition = await shares.load(KEY)
        for member, lock_ms in (("short", 20), ("long", 600_000)):
            settings[KEY.group_id] = ShareSettings(lock_ms=lock_ms)
            shares.is_open(share_partition)
            assert shares.hand_out(share_partition, AcquireRequest(member, 2, 2, strict=True), 1 << 20) is not None
        lease.is_held = False
        with pytest.raises(NotLeader):
            await shares.acknowledge(KEY, "long", [])
        await wait_on_loop(lambda: lease.refusals > 2, "the end of the short lock, without the lease")
        lease.is_held = True
        await wait_on_loop(lambda: share_partition.core.next_fetch_offset == 0, "the records of the short lock")
        await shares.acknowledge(KEY, "long", [Acknowledgement(2, 3, (AcknowledgeType.ACCEPT,))])
        shares.close()

    asyncio.run(play())


class LetterTopic:
    """Takes the letters, and is the image with their topic. Loses the lease `before` it answers a write."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.before = before
        self.letters: list[bytes | None] = []
        self.topics = {"dlq.t": SimpleNamespace(partitions=[None])}
        self.current = self

    def config_of(self, kind: str, name: str) -> dict[str, str]:
        return {PERMISSION: "true"}

    async def write(self, topic: str, index: int, records: list[Record], *, acks: int) -> None:
        self.before()
        self.letters += [record.value for record in records]


def with_letters(led: Any, states: States, topic: LetterTopic, lock_ms: int) -> LedSharePartitions:
    """Every record is delivered once, and then it is a dead letter, as a copy."""
    settings = ShareSettings(lock_ms=lock_ms, max_deliveries=1, dead_letters=DeadLetterTopic("dlq.t", copies=True))
    nothing, anything = cast("Any", None), cast("Any", topic)
    letters = DeadLetters(anything, anything, DeadLetterRules(), nothing)
    return LedSharePartitions(led, led, states, lambda _: settings, nothing, letters, SetBack())


def test_no_record_is_archived_without_its_dead_letter_when_a_lock_ends_without_the_lease(tmp_path: Path) -> None:
    async def play() -> None:
        led, states, topic = a_led_partition(tmp_path / "records", 5), States(), LetterTopic()
        lease, shares = Lease(led), with_letters(led, states, topic, lock_ms=20)
        share_partition = await shares.load(KEY)
        assert shares.hand_out(share_partition, AcquireRequest("a", 500, 500), 1 << 20) is not None
        lease.is_held = False
        await wait_on_loop(lambda: lease.refusals > 2, "the end of the locks, without the lease")
        assert not states.written and not share_partition.letters
        lease.is_held = True
        await wait_on_loop(lambda: states.written, "the end of the records")
        assert len(topic.letters) == 5
        shares.close()

    asyncio.run(play())


@pytest.mark.parametrize("leaves", [False, True])
def test_no_record_is_archived_without_its_dead_letter_if_the_lease_ends_meanwhile(
    tmp_path: Path, leaves: bool
) -> None:
    async def play() -> None:
        def fails_once() -> None:
            topic.before = lambda: None
            lease.is_held = False
            raise Refused(ErrorCode.invalid_topic_exception, "any error")

        led, states, topic = a_led_partition(tmp_path / "records", 5), States(), LetterTopic(fails_once)
        lease, shares = Lease(led), with_letters(led, states, topic, lock_ms=600_000)
        share_partition = await shares.load(KEY)
        assert shares.hand_out(share_partition, AcquireRequest("a", 500, 500), 1 << 20) is not None
        rejected = [Acknowledgement(0, 4, (AcknowledgeType.REJECT,))]
        with pytest.raises(NotLeader):
            await (shares.release(KEY, "a") if leaves else shares.acknowledge(KEY, "a", rejected))
        assert not states.written
        lease.is_held = True
        await shares.acknowledge(KEY, "a", rejected)
        assert states.written and len(topic.letters) == 5
        shares.close()

    asyncio.run(play())
