"""Settings of housekeeping that change while the broker runs apply from the next round."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.broker.housekeeping import Housekeeping
from headrace.config import load_broker_config


class Logs:
    directories = ()

    def __init__(self) -> None:
        self.when_deleted: list[object] = []
        self.when_moved: list[object] = []
        self.idle_ms: list[int] = []

    def expire_producers(self, now_ms: int, idle_ms: int) -> int:
        self.idle_ms.append(idle_ms)
        return 0


def test_the_next_round_expires_producers_after_the_changed_time() -> None:
    async def go() -> None:
        config, logs = load_broker_config({}), Logs()
        any_logs: Any = logs
        housekeeping = Housekeeping(any_logs, lambda: config, lambda log: 0)
        await housekeeping._expire()
        config = config.with_dynamic(cluster_default={"producer.id.expiration.ms": "5000"})
        await housekeeping._expire()
        assert logs.idle_ms == [86_400_000, 5000]

    asyncio.run(go())
