"""The contract of all stores: the same operations, versions, faults and watches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Set,
    Store,
    StoreFault,
    ensure_path,
)
from headrace.coordination.unit.server import StoreServer
from headrace.coordination.unit.store import open_socket_store
from headrace.coordination.zookeeper import ZooKeeperStore
from tests.support.clock import PATIENCE_S
from tests.support.zookeeper import ZooKeeperServer

OpenStore = Callable[[], contextlib.AbstractAsyncContextManager[Store]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture(params=["embedded", "socket", pytest.param("zookeeper", marks=pytest.mark.needs("zookeeper"))])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the same store again and again; each opening is another session."""
    if request.param == "embedded":

        @contextlib.asynccontextmanager
        async def embedded() -> AsyncIterator[Store]:
            store = EmbeddedStore(tmp_path / "store")
            yield store
            await store.close()

        return embedded
    if request.param == "socket":

        @contextlib.asynccontextmanager
        async def through_a_socket() -> AsyncIterator[Store]:
            embedded = EmbeddedStore(tmp_path / "store")
            server = StoreServer(embedded)
            store = await open_socket_store(await server.connect(), session_timeout=6)
            yield store
            await store.close()
            await server.close()
            await embedded.close()

        return through_a_socket
    running: ZooKeeperServer = request.getfixturevalue("server")
    tree = running.chroot()

    @contextlib.asynccontextmanager
    async def zookeeper() -> AsyncIterator[Store]:
        store = ZooKeeperStore(tree, session_timeout=6)
        await store.connect(PATIENCE_S)
        await store.make_chroot()
        yield store
        await store.close()

    return zookeeper


def run(open_store: OpenStore, use: Callable[[Store], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with open_store() as store:
            await use(store)

    asyncio.run(opened())


def test_reads_return_the_written_data_and_versions_count_the_writes(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await store.create("/a", b"one")
        first = await store.get("/a")
        await store.set("/a", b"two")
        await store.set("/a", b"three", version=1)
        node = await store.get("/a")
        assert (first.data, first.version, node.data, node.version) == (b"one", 0, b"three", 2)
        assert node.created_id == first.created_id > 0

    run(open_store, use)


def test_many_nodes_are_read_at_once_in_the_order_of_their_paths(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await store.create("/a", b"one")
        await store.create("/b", b"")
        assert await store.data_of(["/b", "/none", "/a", "/a"]) == [b"", None, b"one", b"one"]
        assert await store.data_of([]) == []

    run(open_store, use)


def test_invalid_operations_raise_their_fault(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await store.create("/a", b"")
        await store.create("/a/b", b"")
        with pytest.raises(NodeExists):
            await store.create("/a", b"")
        with pytest.raises(NoNode):
            await store.create("/x/y", b"")
        with pytest.raises(NoNode):
            await store.get("/x")
        with pytest.raises(NoNode):
            await store.children("/x")
        with pytest.raises(BadVersion):
            await store.set("/a", b"", version=3)
        with pytest.raises(NoNode):
            await store.set("/x", b"")
        with pytest.raises(NotEmpty):
            await store.delete("/a")
        with pytest.raises(BadVersion):
            await store.delete("/a/b", version=9)
        await store.create("/e", b"", ephemeral=True)
        with pytest.raises(StoreFault):
            await store.create("/e/child", b"")
        assert await store.exists("/x") is None
        assert await store.children("/a") == ["b"]

    run(open_store, use)


def test_a_multi_is_atomic(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await store.create("/epoch", b"1")
        await store.multi([Check("/epoch", 0), Create("/t", b""), Create("/t/p", b"x"), Set("/t/p", b"y", 0)])
        assert (await store.get("/t/p")).data == b"y"
        await store.set("/epoch", b"2")
        with pytest.raises(BadVersion):
            await store.multi([Check("/epoch", 0), Set("/t/p", b"zombie")])
        with pytest.raises(NodeExists):
            await store.multi([Check("/epoch", 1), Set("/t/p", b"half"), Create("/t", b"")])
        assert (await store.get("/t/p")).data == b"y"
        await store.multi([Delete("/t/p"), Delete("/t")])
        assert await store.exists("/t") is None

    run(open_store, use)


def test_a_recreated_node_has_version_0_and_a_greater_creation_id(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await store.create("/a", b"")
        await store.set("/a", b"1")
        before = await store.get("/a")
        await store.delete("/a")
        await store.create("/a", b"")
        after = await store.get("/a")
        assert after.version == 0
        assert after.created_id > before.created_id

    run(open_store, use)


def test_ephemeral_nodes_end_with_their_session(open_store: OpenStore) -> None:
    async def use() -> None:
        async with open_store() as store:
            await store.create("/live", b"", ephemeral=True)
            await store.create("/stays", b"")
            node = await store.get("/live")
            assert node.session_id == store.session_id != 0
            assert (await store.get("/stays")).session_id == 0
            created_id = node.created_id
        async with open_store() as store:
            assert await store.exists("/live") is None
            assert await store.exists("/stays") is not None
            await store.create("/live", b"", ephemeral=True)
            assert (await store.get("/live")).created_id > created_id

    asyncio.run(use())


def test_a_watch_fires_once_on_the_next_change(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await store.create("/a", b"")
        seen: list[str] = []
        changed = asyncio.Event()

        def note(what: str) -> Callable[[], None]:
            def fired() -> None:
                seen.append(what)
                changed.set()

            return fired

        async def after(change: Awaitable[None]) -> list[str]:
            seen.clear()
            changed.clear()
            await change
            await asyncio.wait_for(changed.wait(), PATIENCE_S)
            await asyncio.sleep(0.02)
            return list(seen)

        await store.get("/a", watch=note("data"))
        assert await after(store.set("/a", b"1")) == ["data"]
        await store.children("/a", watch=note("children"))
        assert await after(store.create("/a/b", b"")) == ["children"]
        assert await store.exists("/new", watch=note("made")) is None
        assert await after(store.create("/new", b"")) == ["made"]
        await store.exists("/new", watch=note("gone"))
        assert await after(store.delete("/new")) == ["gone"]
        seen.clear()
        await store.set("/a", b"2")
        await store.create("/a/c", b"")
        await asyncio.sleep(0.05)
        assert seen == []

    run(open_store, use)


def test_paths_are_created_with_their_parents(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await ensure_path(store, "/a/b/c", b"x")
        await ensure_path(store, "/a/b/c", b"y")
        assert (await store.get("/a/b/c")).data == b"x"
        assert (await store.get("/a/b")).data == b""

    run(open_store, use)


def test_a_live_session_holds_its_lease(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        import time

        await store.exists("/")
        assert store.lease_ends_at() > time.monotonic()

    run(open_store, use)


def test_a_large_multi_succeeds(open_store: OpenStore) -> None:
    async def use(store: Store) -> None:
        await store.create("/big", b"")
        await store.multi([Create(f"/big/{i}", b"x" * 100) for i in range(2000)])
        assert len(await store.children("/big")) == 2000

    run(open_store, use)
