"""After a lost connection the outcome of a write is unknown: the controller finds out, and writes nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.cluster.core.image import BrokerInfo, Endpoint
from headrace.cluster.loading import load_image
from headrace.cluster.view import ClusterView
from headrace.config import load_broker_config
from headrace.controller import ledger
from headrace.controller.core.topics import NewTopic
from headrace.controller.member import ClusterMember
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import ConnectionLost, Op
from headrace.kernel.errors import ErrorCode, Refused


class LossyStore(EmbeddedStore):
    """Loses the connection before or after the next writes, as the test sets it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.losses: list[str] = []

    async def multi(self, ops: Sequence[Op]) -> None:
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "before":
            raise ConnectionLost("lost before the write")
        await super().multi(ops)
        if loss == "after":
            raise ConnectionLost("lost after the write")


@pytest.mark.parametrize(
    "losses", [["before"], ["after"], ["before", "before", "after"], ["after", "before"]], ids="-".join
)
@pytest.mark.parametrize("what", ["create", "delete", "producer ids"])
def test_a_write_with_a_lost_answer_happens_once(tmp_path: Path, losses: list[str], what: str) -> None:
    async def use() -> None:
        store = LossyStore(tmp_path / "store")
        view = ClusterView()
        config = load_broker_config({"broker.id": "1"})
        broker = BrokerInfo(1, -1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),))
        member = ClusterMember(store, view, lambda: config, broker, clean_start=True)
        await member.prepare()
        await member.start()
        controller = member.controller
        await controller.create_topics([NewTopic("old", 2, configs={"retention.ms": "1"})])
        version = view.current.version
        store.losses = list(losses)
        if what == "create":
            results = await controller.create_topics([NewTopic("new", 3)])
            assert results[0].error is ErrorCode.none
        elif what == "delete":
            results = await controller.delete_topics([("old", None)])
            assert results[0].error is ErrorCode.none
            assert (await controller.create_topics([NewTopic("old")]))[0].error is ErrorCode.none
            version += 1
        else:
            assert await controller.allocate_producer_ids(1, member.epoch) == (0, 1000)
            assert await controller.allocate_producer_ids(1, member.epoch) == (1000, 1000)
            version += 1
        assert controller.is_active
        assert view.current.version == version + 1
        assert await load_image(store) == view.current
        await member.close()
        await store.close()

    asyncio.run(use())


def test_an_election_with_a_lost_answer_is_won(tmp_path: Path) -> None:
    async def use() -> None:
        store = LossyStore(tmp_path / "store")
        view = ClusterView()
        config = load_broker_config({"broker.id": "1"})
        broker = BrokerInfo(1, -1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),))
        member = ClusterMember(store, view, lambda: config, broker, clean_start=True)
        await member.prepare()
        # The registration, then the election.
        store.losses = ["after", "after"]
        await member.start()
        assert member.controller.is_active
        assert view.current.controller_epoch == 1
        await member.close()
        await store.close()

    asyncio.run(use())


def test_a_write_that_the_store_never_accepts_is_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_RETRY_PAUSE", 0.001)

    async def use() -> None:
        store = LossyStore(tmp_path / "store")
        view = ClusterView()
        config = load_broker_config({"broker.id": "1"})
        broker = BrokerInfo(1, -1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),))
        member = ClusterMember(store, view, lambda: config, broker, clean_start=True)
        await member.prepare()
        await member.start()
        store.losses = ["before"] * 10
        with pytest.raises(Refused, match="drops the connection"):
            await member.controller.create_topics([NewTopic("poison")])
        assert await view.wait_until(lambda image: image.controller_epoch == 2, 5)
        await member.close()
        await store.close()

    asyncio.run(use())
