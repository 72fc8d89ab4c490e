"""An ensemble of three: the loss of one server, even the leader, ends no session and loses no write."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from headrace.coordination.store import ConnectionLost, SessionEvent
from headrace.coordination.zookeeper import ZooKeeperStore
from tests.support.clock import PATIENCE_S
from tests.support.zookeeper import ZooKeeperEnsemble

pytestmark = pytest.mark.needs("zookeeper")


def test_a_session_outlives_the_ensembles_leader(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path) as ensemble:

        async def use() -> None:
            store = ZooKeeperStore(f"{ensemble.connect}/c", session_timeout=10)
            await store.connect(20)
            await store.make_chroot()
            events: list[SessionEvent] = []
            store.on_session(events.append)
            await store.create("/live", b"", ephemeral=True)
            await store.create("/n", b"0")
            session = store.session_id
            leader = await asyncio.to_thread(ensemble.leader)
            await asyncio.to_thread(leader.kill)
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        await store.set("/n", b"1")
                        break
                    except ConnectionLost:
                        await asyncio.sleep(0.1)
            assert (await store.get("/live")).session_id == session == store.session_id
            assert (await store.get("/n")).data == b"1"
            assert SessionEvent.EXPIRED not in events
            assert store.lease_ends_at() > time.monotonic()
            await store.close()

        asyncio.run(use())
