"""Requests while ZooKeeper does not answer do not block the event loop and do not pile up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.coordination.store import ConnectionLost, Node, SessionEvent, SessionExpired, StoreFailed
from headrace.coordination.zookeeper import ZooKeeperStore
from tests.support.zookeeper import ZooKeeperServer


@pytest.mark.needs("zookeeper")
def test_requests_wait_for_the_ensemble_and_cancelled_ones_are_not_queued(tmp_path: Path) -> None:
    async def use(server: ZooKeeperServer) -> None:
        store = ZooKeeperStore(server.connect, session_timeout=4)
        await store.connect(20)
        gone = asyncio.Event()
        store.on_session(lambda event: gone.set() if event is SessionEvent.SUSPENDED else None)
        await store.create("/n", b"0")
        await asyncio.to_thread(server.kill)
        await gone.wait()
        given_up = await asyncio.gather(*(store.get("/n") for _ in range(1000)), return_exceptions=True)
        assert {type(one) for one in given_up} == {ConnectionLost}
        assert not store._client._queue
        asked = [asyncio.create_task(store.get("/n")) for _ in range(50)]
        await asyncio.to_thread(server.start)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        while {type(one) for one in answers} == {ConnectionLost}:
            # The server took longer to start than a request waits. Requests work again once it serves.
            answers = await asyncio.gather(*(store.get("/n") for _ in range(50)), return_exceptions=True)
        # On a busy machine the session may have ended meanwhile; then all of them get that error.
        assert {type(one) for one in answers} in ({Node}, {SessionExpired})
        assert (await store.get("/n")).data == b"0"
        gone.clear()
        await asyncio.to_thread(server.kill)
        await gone.wait()
        waiting = asyncio.create_task(store.get("/n"))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreFailed):
            await waiting

    with ZooKeeperServer(tmp_path) as server:
        asyncio.run(use(server))
