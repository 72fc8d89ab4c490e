"""A simulated cluster: brokers, store, network, and the history that checks the invariants."""

from __future__ import annotations

import asyncio
import hashlib
import random
import uuid
from collections.abc import Sequence
from types import ModuleType

import headrace.cluster.membership
import headrace.controller.leadership
from headrace.cluster import codecs
from headrace.cluster.core.image import PartitionInfo
from headrace.config import load_broker_config
from headrace.controller.core.topics import NewTopic
from headrace.coordination import paths
from headrace.coordination.store import Create, Node
from headrace.kernel.errors import Fault
from headrace.testing.simulation.broker import SimulatedBroker
from headrace.testing.simulation.history import History, PartitionName, decode_state
from headrace.testing.simulation.log import SimulatedLog
from headrace.testing.simulation.modes import Modes
from headrace.testing.simulation.network import SimulatedNetwork
from headrace.testing.simulation.store import SimulatedZooKeeper

# Modules of the real code that read a clock. They get the virtual clock.
_CLOCK_READERS: tuple[ModuleType, ...] = (headrace.cluster.membership, headrace.controller.leadership)


class VirtualTime:
    """Replaces the `time` module."""

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    @staticmethod
    def time_ns() -> int:
        return int(asyncio.get_running_loop().time() * 1e9)


class VirtualClock:
    """Context manager: inside it the real code reads virtual time."""

    def __enter__(self) -> None:
        self._real = [module.time for module in _CLOCK_READERS]
        for module in _CLOCK_READERS:
            module.time = VirtualTime  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        for module, real in zip(_CLOCK_READERS, self._real, strict=True):
            module.time = real  # type: ignore[attr-defined]


class SimulatedCluster:
    def __init__(self, seed: int, modes: Modes, trace: list[str]) -> None:
        self.chance = random.Random(seed)
        # The real code draws jitter from the generator of the module `random`.
        random.seed(seed)
        self.trace = trace
        self.network = SimulatedNetwork(self.chance)
        self.zookeeper = SimulatedZooKeeper(self.chance, self.network)
        self.history = History(self._log_of, self._session_lives, self.stored, self.topic_id, self.say)
        self.zookeeper.before_write = self.history.storing
        settings = {"broker.id": "1", "auto.leader.rebalance.enable": "true" if modes.balances else "false"}
        config = load_broker_config(
            {"replica.lag.time.max.ms": "2000", **settings, "leader.imbalance.check.interval.seconds": "4"}
        )
        self.brokers = {
            number: SimulatedBroker(
                number,
                config,
                self.network,
                self.zookeeper,
                self.history,
                reads_from_followers=modes.reads_from_followers,
            )
            for number in range(1, modes.brokers + 1)
        }
        self._decoded: dict[PartitionName, tuple[Node, Node, PartitionInfo]] = {}
        self._ids: dict[tuple[str, int], uuid.UUID] = {}  # by topic name and creation transaction of the node
        self._format_store()

    def _format_store(self) -> None:
        for path in paths.PERSISTENT:
            self.zookeeper.write([Create(path, b"")], 0)
        self.zookeeper.write([Create(paths.CLUSTER_ID, codecs.to_json({"version": 1, "id": "simulated"}))], 0)
        head = {"version": 0, "controller": -1, "controller_epoch": 0}
        self.zookeeper.write([Create(paths.IMAGE, codecs.to_json(head))], 0)

    def say(self, line: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():10.4f} {line}")

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    # State

    def stored(self, name: PartitionName) -> PartitionInfo | None:
        """The partition state in the store; None if the topic does not exist or is marked for deletion."""
        nodes = self.zookeeper.tree.nodes
        node = nodes.get(paths.partition_state(*name))
        if node is None or paths.delete_topic(name[0]) in nodes:
            return None
        topic = nodes[paths.topic(name[0])]
        known = self._decoded.get(name)
        if known is None or known[0] is not node or known[1] is not topic:
            known = self._decoded[name] = (node, topic, decode_state(topic.data, name[1], node.data))
        return known[2]

    def topic_id(self, topic: str) -> uuid.UUID | None:
        nodes = self.zookeeper.tree.nodes
        node = nodes.get(paths.topic(topic))
        if node is None or paths.delete_topic(topic) in nodes:
            return None
        known = self._ids.get((topic, node.created_id))
        if known is None:
            decoded = codecs.decode_topic(node.data)
            assert decoded is not None
            known = self._ids[topic, node.created_id] = decoded[0]
        return known

    def _log_of(self, broker: int, name: PartitionName) -> SimulatedLog | None:
        return self.brokers[broker].logs.log(*name)

    def _session_lives(self, broker: int) -> bool:
        store = self.brokers[broker].store
        return self.zookeeper.is_alive(store.session_id)

    def up(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.is_up]

    # Actions

    async def start(self, topics: Sequence[NewTopic]) -> list[PartitionName]:
        for broker in self.brokers.values():
            broker.start()
        deadline = asyncio.get_running_loop().time() + 30
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.2)
            active = [
                b for b in self.up() if b.controller.is_active and len(b.view.current.brokers) == len(self.brokers)
            ]
            if not active:
                continue
            try:
                await active[0].controller.create_topics(topics)
            except Fault:
                continue
            return [(topic.name, index) for topic in topics for index in range(topic.partitions)]
        raise AssertionError("the cluster did not come up within 30 s")
