"""Where a queue begins: decided once, by what its group was told last."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import ClassVar, cast

import pytest

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.queues import Queues
from headrace.coordinators.share.settings import QueueSettings

KEY = ShareKey("g", uuid.UUID(int=7), 0)


class OneLedPartition:
    """A partition of 7 records, led here since epoch 1, and the image that knows its topic."""

    topic_names: ClassVar = {KEY.topic_id: "t"}
    isr, leader_epoch, log_start_offset, high_watermark = (), 1, 0, 7

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
def test_a_queue_begins_by_what_its_group_was_told_last_even_on_another_broker(stored: int, begins_at: int) -> None:
    """Alter the group on one broker, fetch from another: the image there may not have the change yet."""
    known = [QueueSettings(auto_offset_reset="latest")]

    async def catch_up() -> None:
        known.append(QueueSettings(auto_offset_reset="earliest"))

    led = OneLedPartition()
    queues = Queues(led, cast("ClusterView", led), Stored(stored), lambda _: known[-1], catch_up)
    assert asyncio.run(queues.load(KEY)).core.start_offset == begins_at
    assert len(known) == 1 + (stored == NOT_STARTED), "only a queue that begins needs to ask"
