"""Producer ids come from blocks of the controller and are never allocated twice."""

from __future__ import annotations

import asyncio

import pytest

from headrace.coordinators.txn.producer_ids import ProducerIdBlock, ProducerIds
from headrace.kernel.errors import ErrorCode, NotLeader, Refused
from tests.support.clock import wait_on_loop


class Controller:
    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.given = 0
        self.failures = 0

    async def allocate(self) -> ProducerIdBlock:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise NotLeader("no controller")
        block = ProducerIdBlock(self.given * self.size, self.size)
        self.given += 1
        return block


def test_ids_are_unique_over_many_blocks_and_many_callers() -> None:
    async def scenario() -> list[int]:
        ids = ProducerIds(Controller().allocate)
        return list(await asyncio.gather(*(ids.take() for _ in range(95))))

    taken = asyncio.run(scenario())
    assert len(set(taken)) == 95


def test_the_next_block_is_fetched_before_the_current_one_is_used_up() -> None:
    async def scenario() -> None:
        controller = Controller()
        ids = ProducerIds(controller.allocate)
        for _ in range(9):
            await ids.take()
        await wait_on_loop(lambda: controller.given == 2, "the second block")
        assert [ids.take_now() for _ in range(3)] == [9, 10, 11]

    asyncio.run(scenario())


def test_without_a_block_from_the_controller_clients_get_a_retriable_error() -> None:
    async def scenario() -> None:
        controller = Controller()
        controller.failures = 1
        ids = ProducerIds(controller.allocate)
        with pytest.raises(Refused) as refused:
            await ids.take()
        assert refused.value.code is ErrorCode.coordinator_load_in_progress
        assert await ids.take() == 0

    asyncio.run(scenario())
