"""Users that are written to the store before the first start: only while no broker of the cluster runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.broker.first_users import _write
from headrace.client.scram_users import scram_user
from headrace.cluster.core.credentials import users_of
from headrace.cluster.loading import load_image
from headrace.controller.member import prepare_store
from headrace.coordination import paths
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import Op
from headrace.kernel.errors import StorageFault

USERS = [scram_user("anna", "SCRAM-SHA-256", "sesame", 4096)]


async def written(store: EmbeddedStore) -> set[str]:
    return set(users_of(await load_image(store)))


def test_nothing_is_written_while_a_broker_is_registered(tmp_path: Path) -> None:
    async def play() -> None:
        store = EmbeddedStore(tmp_path / "store")
        await prepare_store(store)
        await store.create(f"{paths.BROKER_IDS}/3", b"{}", ephemeral=True)
        with pytest.raises(StorageFault, match=r"broker 3 of this cluster is running: add users with kafka-configs"):
            await _write(store, USERS, keep_existing=False)
        assert await written(store) == set()
        await store.delete(f"{paths.BROKER_IDS}/3")
        await _write(store, USERS, keep_existing=False)
        assert await written(store) == {"anna"}
        await store.close()

    asyncio.run(play())


def test_nothing_is_written_over_a_change_of_the_cluster(tmp_path: Path) -> None:
    class Overtaken(EmbeddedStore):
        is_overtaken = False

        async def multi(self, ops: Sequence[Op]) -> None:
            if self.is_overtaken:
                self.is_overtaken = False
                await self.set(paths.IMAGE, (await self.get(paths.IMAGE)).data)
            await super().multi(ops)

    async def play() -> None:
        store = Overtaken(tmp_path / "store")
        await prepare_store(store)
        store.is_overtaken = True
        with pytest.raises(StorageFault, match="the cluster changed meanwhile"):
            await _write(store, USERS, keep_existing=False)
        assert await written(store) == set()
        await store.close()

    asyncio.run(play())
