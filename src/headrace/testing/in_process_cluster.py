"""A cluster of brokers in this process: real replication, elections and coordinators, the coordination store in memory.

with cluster(brokers=3) as running:
    running.kill(2)             # the broker stops without a word; its directory looks as after a crash
    running.cut(1, 3)           # the two no longer reach each other; both reach broker 2 and clients
    running.disk_full(1)        # it refuses writes, so other replicas lead; `heal` ends it
    running.start(2)
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Unpack

from headrace.config import BrokerConfig
from headrace.net.free_ports import free_port
from headrace.testing.clock import BrokerClock, TurnedClock, TurnedLoop
from headrace.testing.cluster_settings import ClusterError, check_brokers, listed, replicated_settings
from headrace.testing.faults import Fault, FaultArguments
from headrace.testing.in_process import RunningBroker, temporary_directory
from headrace.testing.memory_store import MemoryStore, MemoryTree

# Makes a broker a member of a cluster; the store of the test replaces ZooKeeper.
_MEMBER: Final = {"zookeeper.connect": "memory:2181"}


class Links:
    """Which brokers of a cluster reach each other. Connections of cut links are closed, new ones are refused."""

    def __init__(self) -> None:
        self.cut: set[frozenset[int]] = set()
        self.owners: dict[int, int] = {}  # broker id by port
        self._open: weakref.WeakKeyDictionary[asyncio.Transport, tuple[frozenset[int], TurnedLoop]] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()  # each broker connects in its own thread

    def check(self, broker_id: int, port: int) -> frozenset[int] | None:
        """The link to the owner of `port`. Raises ConnectionRefusedError if it is cut."""
        owner = self.owners.get(port)
        if owner is None:
            return None
        link = frozenset({broker_id, owner})
        self._refuse_if_cut(link)
        return link

    def opened(self, transport: asyncio.Transport, link: frozenset[int], loop: TurnedLoop) -> None:
        """Notes a new connection. Raises ConnectionRefusedError if the link was cut meanwhile."""
        with self._lock:
            self._open[transport] = link, loop
        try:
            self._refuse_if_cut(link)
        except ConnectionRefusedError:
            transport.abort()
            raise

    def _refuse_if_cut(self, link: frozenset[int]) -> None:
        if link in self.cut:
            raise ConnectionRefusedError(f"a test cut the link between brokers {' and '.join(map(str, sorted(link)))}")

    def sever(self, link: frozenset[int]) -> None:
        self.cut.add(link)
        with self._lock:
            severed = [(transport, loop) for transport, (of, loop) in self._open.items() if of == link]
        for transport, loop in severed:
            if not loop.is_closed():
                loop.call_soon_threadsafe(transport.abort)


class _LinkedLoop(TurnedLoop):
    """Event loop of one broker of a cluster: its connections to other brokers can be cut."""

    def __init__(self, clock: TurnedClock, broker_id: int, links: Links) -> None:
        super().__init__(clock)
        self._broker_id = broker_id
        self._links = links

    async def create_connection(
        self,
        factory: Callable[[], asyncio.Protocol],
        host: str | None = None,
        port: int | None = None,
        **how: object,
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        link = None if port is None else self._links.check(self._broker_id, port)
        transport, protocol = await super().create_connection(factory, host, port, **how)
        if link is not None:
            self._links.opened(transport, link, self)
        return transport, protocol


class ClusterBroker(RunningBroker):
    """One broker of the cluster."""

    def __init__(self, cluster: InProcessCluster, broker_id: int, port: int) -> None:
        self.broker_id = broker_id
        self._cluster = cluster
        self._store: MemoryStore | None = None
        settings = {
            **cluster.settings,
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }
        directory = cluster.directory / f"broker-{broker_id}"
        super().__init__(settings, directory, open_store=self._open_store, turned=cluster.turned)

    async def _open_store(self, config: BrokerConfig) -> MemoryStore:
        self._store = MemoryStore(self._cluster.tree)
        return self._store

    def _make_loop(self) -> TurnedLoop:
        return _LinkedLoop(self._cluster.turned, self.broker_id, self._cluster.links)

    def kill(self) -> None:
        super().kill()
        if self._store is not None:
            self._store.end()


class InProcessCluster:
    """Brokers 1 to N. `bootstrap` names all of them; they share one `clock`."""

    def __init__(self, brokers: int, settings: Mapping[str, str], directory: Path) -> None:
        check_brokers(brokers)
        self.settings = {**_MEMBER, **replicated_settings(brokers), **settings}
        self.directory = directory
        self.tree = MemoryTree()
        self.links = Links()
        self.turned = TurnedClock()
        self.clock = BrokerClock(self.turned, self._clock_turned)
        self._ports = {broker_id: free_port() for broker_id in range(1, brokers + 1)}
        self.links.owners = {port: broker_id for broker_id, port in self._ports.items()}
        self.brokers: dict[int, ClusterBroker] = {}
        try:
            self.start(1)  # it becomes the controller
            with ThreadPoolExecutor() as pool:
                list(pool.map(self.start, range(2, brokers + 1)))
        except BaseException:  # no broker stays behind, whatever happened
            self.stop()
            raise

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def start(self, broker_id: int) -> ClusterBroker:
        """Starts a broker that was killed or stopped, on the same port and directory."""
        port = self._ports.get(broker_id)
        if port is None:
            raise ClusterError(f"there is no broker {broker_id}: the cluster has {listed(self._ports)}")
        if broker_id in self.brokers:
            raise ClusterError(f"broker {broker_id} runs already")
        running = ClusterBroker(self, broker_id, port)
        self.brokers[broker_id] = running
        return running

    def kill(self, broker_id: int) -> None:
        """Ends a broker without a clean shutdown."""
        self.running(broker_id).kill()
        del self.brokers[broker_id]

    def shut_down(self, broker_id: int) -> None:
        """Stops a broker cleanly: it hands its leadership over first."""
        self.running(broker_id).stop()
        del self.brokers[broker_id]

    def cut(self, one: int, other: int) -> None:
        """Cuts the link between two brokers. Clients and the coordination store still reach both."""
        for broker_id in (one, other):
            if broker_id not in self._ports:
                raise ClusterError(f"there is no broker {broker_id}: the cluster has {listed(self._ports)}")
        self.links.sever(frozenset({one, other}))

    def join(self) -> None:
        """Restores every link."""
        self.links.cut.clear()

    def running(self, broker_id: int) -> ClusterBroker:
        if broker_id not in self.brokers:
            raise ClusterError(f"broker {broker_id} does not run: {listed(self.brokers)} do")
        return self.brokers[broker_id]

    def create_topic(
        self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None, *, replicas: int | None = None
    ) -> None:
        """Creates a topic, by default with as many replicas as the settings say. Raises TopicError."""
        next(iter(self.brokers.values())).create_topic(name, partitions, settings, replicas=replicas)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Id of the broker that leads a partition; -1 if there is none."""
        broker = next(iter(self.brokers.values()))
        image = broker.call(lambda: broker.broker.parts.gateway.view.current)
        if topic not in image.topics or partition >= len(image.topics[topic].partitions):
            raise ClusterError(f"there is no partition {topic}-{partition}")
        return image.topics[topic].partitions[partition].leader

    def fail(self, api: str, *, broker: int | None = None, **how: Unpack[FaultArguments]) -> list[Fault]:
        """Fails requests to one broker, or to each of them."""
        chosen = self.brokers.values() if broker is None else [self.running(broker)]
        return [one.fail(api, **how) for one in chosen]

    def disk_full(self, broker_id: int) -> None:
        """Fills the disk of a broker: it refuses writes, and other replicas lead instead of it."""
        self.running(broker_id).disk_full()

    def make_room(self, broker_id: int) -> None:
        """Ends `disk_full`: the replicas of the broker catch up and return to the in-sync sets."""
        self.running(broker_id).make_room()

    def heal(self) -> None:
        """Restores every link and removes every fault, also full disks."""
        self.join()
        for one in self.brokers.values():
            one.heal()

    def _clock_turned(self) -> None:
        for one in list(self.brokers.values()):
            one.clock_turned()

    def stop(self) -> None:
        """Ends all brokers. Their data is not needed any more, so none of them shuts down cleanly."""
        for one in list(self.brokers.values()):
            one.kill()
        self.brokers.clear()


@contextmanager
def cluster(brokers: int = 3, settings: Mapping[str, str] | None = None) -> Iterator[InProcessCluster]:
    """A running cluster with a temporary directory."""
    directory = temporary_directory()
    try:
        running = InProcessCluster(brokers, settings or {}, directory)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
