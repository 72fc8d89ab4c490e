"""What a broker kept for itself moves into ZooKeeper when it joins one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.cluster.core.image import BrokerInfo, Endpoint
from headrace.cluster.loading import load_image
from headrace.cluster.view import ClusterView
from headrace.config import load_broker_config
from headrace.controller.core.topics import NewTopic
from headrace.controller.member import ClusterMember, prepare_store
from headrace.coordination import adoption, paths
from headrace.coordination.adoption import adopt_embedded
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import ConnectionLost, Store


async def started(store: Store) -> ClusterMember:
    config = load_broker_config({"broker.id": "1"})
    broker = BrokerInfo(1, -1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),))
    member = ClusterMember(store, ClusterView(), lambda: config, broker, clean_start=True)
    await member.prepare()
    await member.start()
    return member


async def stood_alone(directory: Path) -> str:
    """A broker's life by itself; gives its cluster id."""
    store = EmbeddedStore(directory)
    member = await started(store)
    await member.controller.create_topics([NewTopic("a", 3, configs={"retention.ms": "5"}), NewTopic("b", 40)])
    await member.controller.allocate_producer_ids(1, member.epoch)
    for number in range(300):  # more changes than are kept
        await member.controller.create_topics([NewTopic(f"t{number}")])
    cluster_id = member.view.current.cluster_id
    await member.close()
    await store.close()
    return cluster_id


def test_topics_settings_and_ids_are_the_clusters_now(tmp_path: Path) -> None:
    async def use() -> None:
        cluster_id = await stood_alone(tmp_path / "own")
        source = EmbeddedStore(tmp_path / "own")
        before = await load_image(source)
        await source.close()
        # Any empty store will do for the ensemble's part.
        target = EmbeddedStore(tmp_path / "ensemble")
        assert await adopt_embedded(target, tmp_path / "own")
        assert not (tmp_path / "own").exists()
        assert await prepare_store(target, cluster_id) == cluster_id
        after = await load_image(target)
        assert after.topics == before.topics
        assert after.configs == before.configs
        assert (after.next_producer_id, after.features) == (1000, before.features)
        member = await started(target)
        for number in range(5):
            await member.controller.create_topics([NewTopic(f"new{number}")])
        info = member.view.current.partition("a", 0)
        assert info is not None and (info.leader, info.isr) == (1, (1,))
        assert info.leader_epoch > before.topics["a"].partitions[0].leader_epoch
        await member.close()
        await target.close()

    asyncio.run(use())


def test_a_copy_cut_short_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption, "_OPS_AT_ONCE", 20)

    async def use() -> None:
        await stood_alone(tmp_path / "own")
        target = EmbeddedStore(tmp_path / "ensemble")
        whole, left = target.multi, 3

        async def cut(ops: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise ConnectionLost("cut")
            await whole(ops)  # type: ignore[arg-type]

        monkeypatch.setattr(target, "multi", cut)
        with pytest.raises(ConnectionLost):
            await adopt_embedded(target, tmp_path / "own")
        monkeypatch.setattr(target, "multi", whole)
        assert await target.exists(paths.CLUSTER_ID) is None
        assert await adopt_embedded(target, tmp_path / "own")
        assert len((await load_image(target)).topics) == 302
        await target.close()

    asyncio.run(use())


def test_an_ensemble_that_has_a_cluster_is_left_alone(tmp_path: Path) -> None:
    async def use() -> None:
        await stood_alone(tmp_path / "own")
        target = EmbeddedStore(tmp_path / "ensemble")
        other = await prepare_store(target)
        assert not await adopt_embedded(target, tmp_path / "own")
        assert (tmp_path / "own").exists()
        assert (await load_image(target)).topics == {}
        assert await prepare_store(target) == other
        await target.close()

    asyncio.run(use())


def test_a_new_broker_has_nothing_to_move(tmp_path: Path) -> None:
    async def use() -> None:
        target = EmbeddedStore(tmp_path / "ensemble")
        assert not await adopt_embedded(target, tmp_path / "own")
        await target.close()

    asyncio.run(use())
