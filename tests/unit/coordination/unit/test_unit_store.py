"""Sessions of several processes with the embedded store of a unit: how they end, what they see of each other, and what
is left after the store's process dies."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import (
    BadVersion,
    ConnectionLost,
    Create,
    NodeExists,
    SessionEvent,
    SessionExpired,
    Set,
    StoreFailed,
    StoreFault,
)
from headrace.coordination.unit.messages import Kind, frame
from headrace.coordination.unit.server import StoreServer
from headrace.coordination.unit.store import LEASE_SHARE, SocketStore, open_socket_store
from tests.support.clock import PATIENCE_S, Stopwatch, wait_on_loop
from tests.support.effort import rounds


@contextlib.asynccontextmanager
async def unit(directory: Path) -> AsyncIterator[StoreServer]:
    store = EmbeddedStore(directory / "store")
    server = StoreServer(store)
    try:
        yield server
    finally:
        await server.close()
        await store.close()


def cut(store: SocketStore) -> None:
    """As a kernel does with the sockets of a killed process."""
    assert store._connection is not None and store._connection._transport is not None
    store._connection._transport.abort()


def test_the_nodes_of_a_killed_process_disappear_at_once_and_a_sibling_sees_it(tmp_path: Path) -> None:
    async def use() -> None:
        async with unit(tmp_path) as server:
            first = await open_socket_store(await server.connect(), 60)
            second = await open_socket_store(await server.connect(), 60)
            await first.create("/first", b"", ephemeral=True)
            await second.create("/second", b"", ephemeral=True)
            gone = asyncio.Event()
            assert await second.exists("/first", watch=gone.set) is not None
            watch = Stopwatch()
            cut(first)
            await asyncio.wait_for(gone.wait(), PATIENCE_S)
            watch.at_most(30, because="it does not wait for the session timeout of 60 s")
            assert await second.exists("/first") is None
            assert await second.exists("/second") is not None
            await second.close()

    asyncio.run(use())


def test_a_silent_process_loses_its_session_after_its_lease_and_gets_a_new_one(tmp_path: Path) -> None:
    async def use() -> None:
        async with unit(tmp_path) as server:
            silent = await open_socket_store(await server.connect(), 0.6)
            other = await open_socket_store(await server.connect(), 60)
            events: list[SessionEvent] = []
            silent.on_session(events.append)
            await silent.create("/live", b"", ephemeral=True)
            former = silent.session_id
            assert silent._beating is not None and silent._connection is not None
            silent._beating.cancel()  # as if it were stopped: it sends nothing
            watch, gone = Stopwatch(), asyncio.Event()
            assert await other.exists("/live", watch=gone.set) is not None
            await asyncio.wait_for(gone.wait(), PATIENCE_S)
            watch.at_least(LEASE_SHARE * 0.6)  # the process had stopped serving before others replace it
            with pytest.raises(SessionExpired):
                await silent.create("/late", b"")
            assert await other.exists("/late") is None
            await wait_on_loop(lambda: silent.session_id != 0, "a new session")
            assert silent.session_id > former
            assert events == [SessionEvent.CONNECTED, SessionEvent.EXPIRED, SessionEvent.CONNECTED]
            await silent.create("/live", b"", ephemeral=True)
            await silent.close()
            assert await other.exists("/live") is None
            await other.close()

    asyncio.run(use())


def test_a_write_that_waits_when_its_session_ends_does_not_happen(tmp_path: Path) -> None:
    async def use() -> None:
        store = EmbeddedStore(tmp_path / "store")
        session = await store.open_session()
        first = asyncio.create_task(store.multi_of_session(session, [Create("/a", b"", ephemeral=True)]))
        await asyncio.sleep(0)  # the first is on its way to the disk, the second waits for it
        second = asyncio.create_task(store.multi_of_session(session, [Create("/b", b"", ephemeral=True)]))
        await asyncio.sleep(0)
        await store.end_session(session)
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert isinstance(results[1], SessionExpired)
        assert await store.children("/") == []
        with pytest.raises(SessionExpired):
            await store.multi_of_session(session, [Create("/c", b"")])
        await store.close()

    asyncio.run(use())


def test_a_process_sees_its_own_earlier_write_also_if_it_does_not_wait_for_its_answer(tmp_path: Path) -> None:
    async def use() -> None:
        async with unit(tmp_path) as server:
            store = await open_socket_store(await server.connect(), 60)
            for number in range(20):
                writing = asyncio.create_task(store.create(f"/{number}", b""))
                await asyncio.sleep(0)
                writing.cancel()
                assert await store.exists(f"/{number}") is not None
                assert str(number) in await store.children("/")
                writing = asyncio.create_task(store.set(f"/{number}", b"new"))
                await asyncio.sleep(0)
                assert await store.data_of([f"/{number}"]) == [b"new"]
                await writing
            # Reads that arrive in the moment in which a write ends are answered, too.
            for number in range(200):
                writing = asyncio.create_task(store.set("/0", b"%d" % number))
                reading = []
                while not writing.done():
                    reading.append(asyncio.create_task(store.get("/0")))
                    await asyncio.sleep(0)
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.gather(writing, *reading)
            await store.close()

    asyncio.run(use())


def test_without_its_store_a_process_holds_no_lease_and_the_outcome_of_its_write_is_unknown(tmp_path: Path) -> None:
    async def use() -> None:
        async with unit(tmp_path) as server:
            store = await open_socket_store(await server.connect(), 60)
            events: list[SessionEvent] = []
            store.on_session(events.append)
            writing = asyncio.create_task(store.create("/a", b""))
            await asyncio.sleep(0)
            await server.close()
            with pytest.raises((ConnectionLost, StoreFailed)):
                await writing
            await wait_on_loop(lambda: store.lease_ends_at() == 0.0, "the end of the lease")
            assert events[-1] is SessionEvent.EXPIRED
            with pytest.raises(StoreFailed, match="is gone"):
                await store.get("/a")
            await store.close()

    asyncio.run(use())


@pytest.mark.parametrize(
    "bytes_", [b"\xff" * 64, frame(1, Kind.DONE), frame(1, Kind.GET), frame(1, Kind.HELLO, b"x"), b"\0\0\0\1x"]
)
def test_bytes_that_are_no_request_close_the_connection(tmp_path: Path, bytes_: bytes) -> None:
    async def use() -> None:
        async with unit(tmp_path) as server:
            end = await server.connect()
            end.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(end, bytes_)
            assert await asyncio.wait_for(loop.sock_recv(end, 100), PATIENCE_S) == b""
            end.close()
            other = await open_socket_store(await server.connect(), 60)
            await other.create("/still", b"serves")
            await other.close()

    asyncio.run(use())


def test_a_multi_that_cannot_be_read_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def use() -> None:
        async with unit(tmp_path) as server:
            store = await open_socket_store(await server.connect(), 60)
            with pytest.raises(StoreFault, match="cannot be read"):
                await store._call(Kind.MULTI, b"\0\0\0\2" + b"\1" * 5)
            assert await store.children("/") == []
            await store.close()

    asyncio.run(use())


@pytest.mark.parametrize("seed", range(rounds(short=3, long=60)))
def test_siblings_that_die_at_random_lose_and_double_no_write(tmp_path: Path, seed: int) -> None:
    """Each process increments a counter by compare-and-set. Processes die, and the store's process too: it opens the
    directory again. The counter has every acknowledged increment, and no more than those plus the unanswered ones."""
    chance = random.Random(seed)
    acknowledged = unanswered = leaders = 0

    async def count(store: SocketStore, name: str) -> None:
        nonlocal acknowledged, unanswered, leaders
        while True:
            try:
                await store.multi([Create("/leader", name.encode(), ephemeral=True)])
                leaders += 1
                holder = await store.exists("/leader")
                assert holder is None or holder.session_id == store.session_id
                await store.delete("/leader")
            except NodeExists:
                pass
            node = await store.get("/counter")
            sent = False
            try:
                sent = True
                await store.multi([Set("/counter", str(int(node.data) + 1).encode(), node.version)])
                acknowledged += 1
            except BadVersion:
                sent = False
            except (ConnectionLost, asyncio.CancelledError):
                unanswered += sent
                raise

    async def one_life(generation: int) -> None:
        store = EmbeddedStore(tmp_path / "store", snapshot_after_bytes=2000)
        server = StoreServer(store)
        assert await store.exists("/leader") is None, "the nodes of former processes are gone"
        if generation == 0:
            await store.create("/counter", b"0")
        stores = [await open_socket_store(await server.connect(), 60) for _ in range(3)]
        tasks = [asyncio.create_task(count(one, f"{generation}-{at}")) for at, one in enumerate(stores)]
        for _ in range(3):
            enough = acknowledged + chance.randint(3, 12)
            await wait_on_loop(lambda enough=enough: acknowledged >= enough, "some writes")
            await asyncio.sleep(chance.uniform(0, 0.003))
            victim = chance.randrange(3)
            cut(stores[victim])
            await asyncio.gather(tasks[victim], return_exceptions=True)
            stores[victim] = await open_socket_store(await server.connect(), 60)
            tasks[victim] = asyncio.create_task(count(stores[victim], f"{generation}-{victim}"))
        for connection in tuple(server._connections):
            connection.hang_up()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, StoreFault) for one in results), results
        await server.close()
        await store.close()

    async def use() -> None:
        for generation in range(3):
            await one_life(generation)
        store = EmbeddedStore(tmp_path / "store")
        counted = int((await store.get("/counter")).data)
        assert acknowledged <= counted <= acknowledged + unanswered
        assert acknowledged > 20 and leaders > 20, "the processes did something"
        await store.close()

    asyncio.run(use())
