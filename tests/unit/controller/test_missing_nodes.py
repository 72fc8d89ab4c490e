"""A store of an earlier version lacks the nodes of newer features; a start adds them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.cluster.loading import load_image
from headrace.controller.member import prepare_store
from headrace.coordination import paths
from headrace.coordination.embedded import EmbeddedStore


def test_a_start_adds_the_nodes_that_an_older_store_lacks(tmp_path: Path) -> None:
    async def test() -> None:
        store = EmbeddedStore(tmp_path / "store")
        cluster_id = await prepare_store(store)
        await store.delete(f"{paths.CONFIG}/users")
        assert await prepare_store(store, cluster_id) == cluster_id
        assert await store.children(f"{paths.CONFIG}/users") == []
        assert (await load_image(store)).cluster_id == cluster_id
        await store.close()

    asyncio.run(test())
