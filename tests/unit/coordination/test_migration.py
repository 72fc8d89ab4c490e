"""The state of a standalone broker moves to ZooKeeper completely, also after an interrupted move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.loading import load_image
from headrace.cluster.view import ClusterView
from headrace.config import load_broker_config
from headrace.controller.core.topics import NewTopic
from headrace.controller.member import ClusterMember, prepare_store
from headrace.coordination import migration, paths
from headrace.coordination.core.tree import Tree
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.embedded_files import read_store
from headrace.coordination.migration import move_to_ensemble, put_away
from headrace.coordination.store import ConnectionLost, Store
from headrace.kernel.errors import Refused
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType


async def started(store: Store) -> ClusterMember:
    config = load_broker_config({"broker.id": "1"})
    broker = BrokerInfo(1, -1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),))
    member = ClusterMember(store, ClusterView(), lambda: config, broker, clean_start=True)
    await member.prepare()
    await member.start()
    return member


async def stood_alone(directory: Path, *, topics: int = 20) -> ClusterImage:
    """A broker's life by itself; gives its image."""
    store = EmbeddedStore(directory)
    member = await started(store)
    await member.controller.create_topics([NewTopic("a", 3, configs={"retention.ms": "5"}), NewTopic("b", 40)])
    await member.controller.allocate_producer_ids(1, member.epoch)
    entry = Entry("User:ann", "*", Operation.READ, Permission.ALLOW)
    patterns = (
        ResourcePattern(ResourceType.TOPIC, "a"),
        ResourcePattern(ResourceType.GROUP, "g/", PatternType.PREFIXED),
    )
    await member.controller.create_acls([Acl(pattern, entry) for pattern in patterns])
    for number in range(topics):
        await member.controller.create_topics([NewTopic(f"t{number}")])
    await member.close()
    image = await load_image(store)
    await store.close()
    return image


def tree_of(directory: Path) -> Tree:
    stored = read_store(directory)
    assert stored is not None
    return stored.tree


def test_topics_settings_and_ids_move_to_the_cluster(tmp_path: Path) -> None:
    async def use() -> None:
        before = await stood_alone(tmp_path / "own", topics=300)  # more changes than are kept
        # Any empty store can play the ensemble.
        target = EmbeddedStore(tmp_path / "ensemble")
        await move_to_ensemble(tree_of(tmp_path / "own"), target, 1)
        assert await target.exists(paths.INCOMING) is None
        assert await prepare_store(target, before.cluster_id) == before.cluster_id
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


class Interrupted:
    """A store whose connection breaks at the `at`-th write: before it is done, or after it with the answer lost."""

    def __init__(self, store: EmbeddedStore, at: int, *, done: bool) -> None:
        self._store, self._left, self._done = store, at, done

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("multi", "create", "set", "delete"):
            return found

        async def write(*arguments: Any, **options: Any) -> None:
            self._left -= 1
            if self._left == 0:
                if self._done:
                    await found(*arguments, **options)
                raise ConnectionLost("cut")
            await found(*arguments, **options)

        return write


@pytest.mark.parametrize("done", [False, True], ids=["not done", "answer lost"])
def test_a_move_interrupted_at_any_write_is_finished_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """A topic that is deleted between the attempts does not come back, and one that is created is there."""
    monkeypatch.setattr(migration, "_OPS_AT_ONCE", 30)

    async def use() -> None:
        await stood_alone(tmp_path / "own")
        early = tree_of(tmp_path / "own")
        store = EmbeddedStore(tmp_path / "own")
        member = await started(store)
        await member.controller.delete_topics([("t3", None)])
        await member.controller.create_topics([NewTopic("late")])
        await member.close()
        expected = (await load_image(store)).topics
        await store.close()
        assert "t3" not in expected and "late" in expected
        late, at = tree_of(tmp_path / "own"), 0
        while True:
            at += 1
            target = EmbeddedStore(tmp_path / f"ensemble-{at}")
            try:
                await move_to_ensemble(early, Interrupted(target, at, done=done), 1)
            except ConnectionLost:
                # Once the cluster id is there the state is in ZooKeeper, and the broker serves no more alone.
                committed = await target.exists(paths.CLUSTER_ID) is not None
                await move_to_ensemble(early if committed else late, target, 1)
                image = await load_image(target)
                if not committed:
                    assert image.topics == expected
                assert await target.exists(paths.INCOMING) is None
                await target.close()
            else:
                await target.close()
                break
        assert at > 5, "the move took several writes"

    asyncio.run(use())


async def refuses(attempt: Callable[[], Awaitable[object]], message: str) -> None:
    with pytest.raises(Refused, match=message):
        await attempt()


def test_the_ensemble_of_another_cluster_is_not_changed(tmp_path: Path) -> None:
    async def use() -> None:
        await stood_alone(tmp_path / "own")
        target = EmbeddedStore(tmp_path / "ensemble")
        other = await prepare_store(target)
        await refuses(
            lambda: move_to_ensemble(tree_of(tmp_path / "own"), target, 1), "another broker has begun a cluster"
        )
        assert (await load_image(target)).topics == {}
        assert await prepare_store(target) == other
        await target.close()

    asyncio.run(use())


def test_two_moves_to_one_ensemble_have_one_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "_OPS_AT_ONCE", 5)

    async def use() -> None:
        images = [await stood_alone(tmp_path / name) for name in ("one", "other")]
        target = EmbeddedStore(tmp_path / "ensemble")
        moves = [move_to_ensemble(tree_of(tmp_path / name), target, 1) for name in ("one", "other")]
        results = await asyncio.gather(*moves, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), Refused]
        image = await load_image(target)
        assert (image.cluster_id, image.topics) == (images[0].cluster_id, images[0].topics)
        await target.close()

    asyncio.run(use())


def test_no_cluster_begins_during_a_move_to_the_ensemble(tmp_path: Path) -> None:
    async def use() -> None:
        await stood_alone(tmp_path / "own")
        target = EmbeddedStore(tmp_path / "ensemble")
        with pytest.raises(ConnectionLost):
            await move_to_ensemble(tree_of(tmp_path / "own"), Interrupted(target, 3, done=True), 1)
        await refuses(lambda: prepare_store(target), "another broker is moving its state")
        assert await target.exists(paths.CLUSTER_ID) is None
        await target.close()

    asyncio.run(use())


def test_a_second_move_keeps_the_renamed_files_of_the_first(tmp_path: Path) -> None:
    for content in ("first", "second", "third"):
        (tmp_path / ".coordination").mkdir()
        (tmp_path / ".coordination" / "journal").write_text(content)
        put_away(tmp_path / ".coordination")
    kept = sorted(path.read_text() for path in tmp_path.glob(".coordination.moved-to-zookeeper*/journal"))
    assert kept == ["first", "second", "third"]
