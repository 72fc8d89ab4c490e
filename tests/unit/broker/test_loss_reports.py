"""Reports of replicas that lack records are repeated until the controller confirms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from uuid import UUID

import pytest

from headrace.broker import loss_reports
from headrace.broker.loss_reports import LossReports
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.clock import PATIENCE_S

LOST = ReplicaLosses(frozenset({(UUID(int=5), 1)}))


class Controller:
    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.asked = 0
        self.heard: asyncio.Queue[ReplicaLosses] = asyncio.Queue()

    async def report_losses(self, losses: ReplicaLosses) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            raise Refused(ErrorCode.stale_broker_epoch, "registered anew meanwhile")
        self.heard.put_nowait(losses)

    async def hears(self) -> ReplicaLosses:
        return await asyncio.wait_for(self.heard.get(), PATIENCE_S)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loss_reports, "_PAUSE_S", 0.0)
    yield


def test_a_refused_report_is_repeated() -> None:
    async def run() -> None:
        controller = Controller(refusals=2)
        reports = LossReports(controller, lambda: LOST)
        reports.tell()
        assert await controller.hears() == LOST
        assert controller.asked == 3
        await reports.close()

    asyncio.run(run())


def test_each_change_is_reported_once() -> None:
    async def run() -> None:
        controller, now = Controller(), [NO_LOSSES]
        reports = LossReports(controller, lambda: now[0])
        reports.tell()
        reports.registered(NO_LOSSES)
        now[0] = LOST
        reports.tell()
        assert await controller.hears() == LOST
        reports.tell()
        now[0] = NO_LOSSES
        reports.tell_later()
        reports.tell_later()
        assert await controller.hears() == NO_LOSSES
        assert controller.asked == 2
        await reports.close()

    asyncio.run(run())


def test_after_a_registration_with_losses_there_is_a_report() -> None:
    """A controller of an earlier release does not know the losses of a registration."""

    async def run() -> None:
        controller, now = Controller(), [LOST]
        reports = LossReports(controller, lambda: now[0])
        for _ in range(2):
            reports.registered(LOST)
            assert await controller.hears() == LOST
        now[0] = NO_LOSSES
        reports.registered(LOST)
        assert await controller.hears() == NO_LOSSES, "it found the records meanwhile"
        await reports.close()

    asyncio.run(run())


def test_a_new_controller_gets_the_losses_too() -> None:
    """A controller of an earlier release did not store them."""

    async def run() -> None:
        controller, now = Controller(), [LOST]
        reports = LossReports(controller, lambda: now[0])
        images = [ClusterImage(controller_epoch=epoch) for epoch in (1, 1, 2)]
        reports.registered(LOST)
        assert await controller.hears() == LOST
        for old, new in pairwise(images):
            reports.follow(old, new)
        assert await controller.hears() == LOST
        now[0] = NO_LOSSES
        reports.tell()
        assert await controller.hears() == NO_LOSSES
        reports.follow(images[2], images[0])
        assert controller.asked == 3, "without losses there is nothing to say"
        await reports.close()

    asyncio.run(run())


def test_no_report_before_the_registration() -> None:
    """The controller would refuse it, and the one after the registration would wait for the next attempt."""

    async def run() -> None:
        controller = Controller()
        reports = LossReports(controller, lambda: LOST)
        reports.follow(ClusterImage(), ClusterImage(controller_epoch=1))
        await asyncio.sleep(0)
        assert controller.asked == 0
        reports.registered(LOST)
        assert await controller.hears() == LOST
        await reports.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_new_controller_hears_that_nothing_is_lost_any_more(is_refused: bool) -> None:
    """The former one had stored the losses, and was not told that they have ended: the report was about to begin, or
    was refused. The replicas would never count as complete."""

    async def run() -> None:
        controller, now = Controller(), [LOST]
        reports = LossReports(controller, lambda: now[0])
        reports.registered(LOST)
        assert await controller.hears() == LOST
        now[0] = NO_LOSSES
        if is_refused:
            controller.asked, controller.refusals = 0, 1
            reports.tell()
            await asyncio.sleep(0)
        reports.tell_later()
        reports.follow(ClusterImage(controller_epoch=1), ClusterImage(controller_epoch=2))
        assert await controller.hears() == NO_LOSSES
        await reports.close()

    asyncio.run(run())


def test_a_bug_in_one_report_does_not_stop_the_next() -> None:
    async def run() -> None:
        controller, now = Controller(), [LOST]
        reports = LossReports(controller, lambda: now[0])
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        heard, controller.report_losses = controller.report_losses, _fails  # type: ignore[method-assign]
        reports.tell()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        controller.report_losses = heard  # type: ignore[method-assign]
        reports.tell()
        assert await controller.hears() == LOST
        await reports.close()

    asyncio.run(run())


async def _fails(losses: ReplicaLosses) -> None:
    raise ZeroDivisionError
