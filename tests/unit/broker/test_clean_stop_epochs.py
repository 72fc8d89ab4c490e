"""The mark of a clean stop names the last registration. An older one would make old copies of all logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.broker.broker import Broker
from headrace.cluster import codecs
from headrace.config import BrokerConfig
from headrace.coordination import paths
from headrace.coordination.store import SessionEvent
from headrace.storage.dirs.log_dir import CLEAN_SHUTDOWN_FILE
from headrace.testing.in_process import RunningBroker
from headrace.testing.memory_store import MemoryStore, MemoryTree

SETTINGS = {"zookeeper.connect": "memory:2181", "broker.id": "1", "offsets.topic.replication.factor": "1"}


class ExpiringStore(MemoryStore):
    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self._told: list[Callable[[SessionEvent], None]] = []

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None:
        self._told.append(callback)
        super().on_session(callback)

    def expire(self) -> None:
        """The session ends, and the broker connects again at once."""
        self._tree.end_session(self._session_id)
        self._session_id = self._tree.next_session()
        for event in (SessionEvent.EXPIRED, SessionEvent.CONNECTED):
            for tell in self._told:
                tell(event)


def test_a_broker_that_registers_again_while_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a machine that was suspended, is resumed, and is shut down."""
    tree = MemoryTree()

    async def opened(config: BrokerConfig) -> MemoryStore:
        return ExpiringStore(tree)

    hand_over = Broker._hand_over

    async def registers_again(broker: Broker) -> None:
        store, member = broker._store, broker._member
        assert isinstance(store, ExpiringStore) and member is not None
        store.expire()
        registered = await member.view.wait_until(
            lambda image: 1 in image.brokers and image.brokers[1].epoch == member.epoch, 30
        )
        assert registered
        await hand_over(broker)

    running = RunningBroker(SETTINGS, tmp_path, open_store=opened)
    monkeypatch.setattr(Broker, "_hand_over", registers_again)
    running.stop()
    accepted = codecs.decode_accepted(tree.tree.nodes[paths.accepted_broker(1)].data)
    assert json.loads((tmp_path / CLEAN_SHUTDOWN_FILE).read_text())["brokerEpoch"] == accepted.epoch
