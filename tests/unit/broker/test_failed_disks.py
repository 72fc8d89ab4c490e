"""Reports of a failed disk are repeated until the controller confirms."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker import failed_disks
from headrace.broker.failed_disks import FailedDisks
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition
from tests.support.clock import PATIENCE_S

LOST = [TopicPartition("t", 1)]


class Controller:
    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked = 0
        self.heard: asyncio.Queue[list[TopicPartition]] = asyncio.Queue()

    async def replicas_lost(self, lost: list[TopicPartition]) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            raise Refused(ErrorCode.stale_broker_epoch, "registered anew meanwhile")
        self.heard.put_nowait(lost)


def test_a_refused_report_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_disks, "_PAUSE_S", 0.0)

    async def run() -> None:
        controller = Controller(refusals=2)
        disks = FailedDisks(controller, LOST.copy)
        disks.tell()
        assert await asyncio.wait_for(controller.heard.get(), PATIENCE_S) == LOST
        assert controller.asked == 3
        await disks.close()

    asyncio.run(run())


def test_after_a_new_registration_only_failed_disks_are_reported_again() -> None:
    async def run() -> None:
        controller = Controller(refusals=0)
        disks = FailedDisks(controller, LOST.copy)
        disks.tell()
        assert await asyncio.wait_for(controller.heard.get(), PATIENCE_S) == LOST
        disks.tell()
        assert await asyncio.wait_for(controller.heard.get(), PATIENCE_S) == LOST
        whole = FailedDisks(controller, list)
        whole.tell()
        assert controller.asked == 2
        await disks.close()

    asyncio.run(run())
