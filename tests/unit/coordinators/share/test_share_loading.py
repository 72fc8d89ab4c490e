"""Start offset of a share partition: decided once, by the newest settings of its group. Retries of the
initialisation.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import ClassVar, cast

import pytest

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_groups import NamedPartitions, StatePartitionMetadata
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.share.initialization import have_begun
from headrace.coordinators.runtime.runtime import LedPartitions
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.dead_letters import DeadLetters
from headrace.coordinators.share.initializer import ShareInitializer
from headrace.coordinators.share.led_share_partitions import LedSharePartitions
from headrace.coordinators.share.persister import Persister
from headrace.coordinators.share.settings import ShareSettings
from headrace.kernel.errors import ErrorCode, Refused

KEY = ShareKey("g", uuid.UUID(int=7), 0)


class OneLedPartition:
    """A partition of 7 records, led here since epoch 1, and the image that knows its topic."""

    topic_names: ClassVar = {KEY.topic_id: "t"}
    leader_epoch, log_start_offset, high_watermark = 1, 0, 7

    isr = object()

    def check_leads(self) -> None:
        """It does."""

    @property
    def current(self) -> OneLedPartition:
        return self

    def get(self, topic: str, index: int) -> OneLedPartition:
        return self


@dataclass
class Stored:
    start_offset: int

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareSnapshot:
        return ShareSnapshot(0, 0, leader_epoch, self.start_offset, 0, 0, ())

    async def write(self, *state: object) -> None:
        raise AssertionError("nothing changed")


@pytest.mark.parametrize(("stored", "begins_at"), [(NOT_STARTED, 0), (5, 5)])
def test_the_start_offset_uses_the_newest_group_settings(stored: int, begins_at: int) -> None:
    """Alter the group on one broker, fetch from another: the image there may not have the change yet."""
    known = [ShareSettings(auto_offset_reset="latest")]

    async def catch_up() -> None:
        known.append(ShareSettings(auto_offset_reset="earliest"))

    led = OneLedPartition()
    no_letters = cast("DeadLetters", None)
    share_partitions = LedSharePartitions(
        cast("LedPartitions", led), cast("ClusterView", led), Stored(stored), lambda _: known[-1], catch_up, no_letters
    )
    assert asyncio.run(share_partitions.load(KEY)).core.start_offset == begins_at
    assert len(known) == 1 + (stored == NOT_STARTED), "only a new share partition needs to ask"


class Group:
    """A group with three initialising share partitions, and the calls it receives."""

    def __init__(self) -> None:
        self.epoch = 4
        self.noted = StatePartitionMetadata(initializing={KEY.topic_id: ("t", frozenset({0, 1, 2}))})

    @property
    def initializing(self) -> NamedPartitions:
        return self.noted.initializing

    async def share_group(self, group_id: str) -> Group:
        return self

    async def share_partitions_begun(self, group_id: str, share_partitions: NamedPartitions) -> None:
        self.noted = have_begun(self.noted, share_partitions)


class States:
    def __init__(self) -> None:
        self.begun = {2: (1, 50)}
        self.away = {1}

    async def summary(self, key: ShareKey) -> object | None:
        if key.partition in self.away:
            raise Refused(ErrorCode.coordinator_not_available, "it moves")
        return self.begun.get(key.partition)

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        self.begun[key.partition] = (state_epoch, start_offset)


def test_failed_initialisations_are_retried_and_existing_share_partitions_stay() -> None:
    async def play() -> None:
        group, states = Group(), States()
        initializer = ShareInitializer(cast("GroupCoordinator", group), cast("Persister", states))
        await initializer.begin("g", waits=True)
        assert group.noted.initializing == {KEY.topic_id: ("t", frozenset({1}))}
        assert states.begun == {0: (4, NOT_STARTED), 2: (1, 50)}
        states.away.clear()
        await asyncio.gather(*(initializer.begin("g", waits=True) for _ in range(3)))
        assert not group.initializing and group.noted.initialized == {KEY.topic_id: ("t", frozenset({0, 1, 2}))}
        assert states.begun[1] == (4, NOT_STARTED)

    asyncio.run(play())
