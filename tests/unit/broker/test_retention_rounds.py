"""A round of retention over hundreds of logs leaves turns to requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from headrace.broker.housekeeping import Housekeeping
from headrace.config import load_broker_config


class Logs:
    """A thousand logs, each of which loses a segment."""

    directories = ()

    def __init__(self) -> None:
        self.seen = 0
        self.when_deleted: list[object] = []

    def retention(self, now_ms: int) -> Iterator[int]:
        for _ in range(1000):
            self.seen += 1
            yield 1


def test_requests_get_turns_while_many_logs_lose_segments() -> None:
    async def go() -> None:
        logs: Any = Logs()
        round_of_retention = asyncio.create_task(
            Housekeeping(logs, lambda: load_broker_config({}), lambda log: 0)._retention()
        )
        turns = [0]
        while not round_of_retention.done():
            await asyncio.sleep(0)
            turns.append(logs.seen)
        assert logs.seen == 1000
        assert max(after - before for before, after in pairwise(turns)) <= 50

    asyncio.run(go())
