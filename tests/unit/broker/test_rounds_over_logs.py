"""Rounds over hundreds of logs (retention, epoch checkpoints) do not block requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from headrace.broker.housekeeping import Housekeeping
from headrace.config import load_broker_config


class Logs:
    """A thousand logs, each of which loses a segment."""

    directories = ()

    def __init__(self) -> None:
        self.seen = 0
        self.when_deleted: list[object] = []
        self.when_moved: list[object] = []

    def retention(self, now_ms: int) -> Iterator[int]:
        for _ in range(1000):
            self.seen += 1
            yield 1

    def logs(self) -> list[Logs]:
        return [self] * 1000

    def save_epochs(self) -> bool:
        self.seen += 1
        return True


@pytest.mark.parametrize(("duty", "at_a_stretch"), [("_retention", 50), ("_save_epochs", 8)])
def test_requests_are_served_during_a_round_over_many_logs(duty: str, at_a_stretch: int) -> None:
    async def go() -> None:
        logs: Any = Logs()
        housekeeping = Housekeeping(logs, lambda: load_broker_config({}), lambda log: 0)
        under_way = asyncio.create_task(getattr(housekeeping, duty)())
        turns = [0]
        while not under_way.done():
            await asyncio.sleep(0)
            turns.append(logs.seen)
        assert logs.seen == 1000
        assert max(after - before for before, after in pairwise(turns)) <= at_a_stretch

    asyncio.run(go())
