"""A cluster of broker processes on this machine, without a JVM: real processes that a test can kill and freeze.

    with process_cluster(brokers=3) as running:
        running.kill(2)             # SIGKILL
        running.pause(1)            # SIGSTOP: it loses its session, and its leadership, after broker.session.timeout.ms
        running.resume(1)

The brokers are the processes of a unit (`headrace.unit`), copies of a process that has loaded the broker
(`fork_server`). Their coordination store is served by this process, in a thread of its own. A clock that can be turned
and failing requests need brokers in this process: `in_process_cluster` has them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import uvloop

from headrace.api.cluster import connect
from headrace.config import load_broker_config
from headrace.controller.member import prepare_store
from headrace.coordination.unit.server import StoreServer
from headrace.net.free_ports import free_ports_in_a_row
from headrace.testing.cluster_settings import ClusterError, check_brokers, listed, replicated_settings
from headrace.testing.fork_server import fork_server
from headrace.testing.in_process import TEST_SETTINGS, temporary_directory
from headrace.unit.child import Child
from headrace.unit.core.processes import Unit, process_settings
from headrace.unit.directories import UnitDirectories, open_directories

T = TypeVar("T")
_FIRST_ID: Final = 1
# A frozen broker is replaced after this time; nine seconds, as in production, would make tests slow.
_SESSION: Final = {"broker.session.timeout.ms": "3000"}
_START_TIMEOUT_S: Final = 60
_STOP_TIMEOUT_S: Final = 60
_ASK_TIMEOUT_S: Final = 30.0


class ProcessCluster:
    """Brokers 1 to N, each a process. `bootstrap` names all of them."""

    def __init__(self, brokers: int, settings: Mapping[str, str], directory: Path) -> None:
        check_brokers(brokers)
        if brokers == 1:
            raise ClusterError("brokers=1: one process is no cluster; broker_process() starts one")
        self.directory = directory
        self._port = free_ports_in_a_row(brokers)
        self._config = load_broker_config(
            {
                **TEST_SETTINGS,
                **_SESSION,
                **replicated_settings(brokers),
                **settings,
                "broker.id": str(_FIRST_ID),
                "broker.processes": str(brokers),
                "log.dirs": str(directory),
                "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            }
        )
        self._unit = Unit(self._config, _FIRST_ID, brokers, brokers, rack="")
        self.brokers: dict[int, Child] = {}
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="headrace process cluster", daemon=True)
        self._thread.start()
        self._store: UnitDirectories | None = None
        try:
            self._server = self._run(self._open_store())
            self.start(_FIRST_ID)  # it makes the cluster, and becomes the controller
            self._run(self._start(list(self._unit.ids)[1:]))
        except BaseException:  # no process stays behind, whatever happened
            self.stop()
            raise

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._port + index}" for index in range(self._unit.count))

    # What a test asks for

    def start(self, broker_id: int) -> None:
        """Starts a broker that was killed or stopped, on the same port and directory."""
        if broker_id not in self._unit.ids:
            raise ClusterError(f"there is no broker {broker_id}: the cluster has {listed(self._unit.ids)}")
        if broker_id in self.brokers:
            raise ClusterError(f"broker {broker_id} runs already")
        self._run(self._start([broker_id]))

    def kill(self, broker_id: int) -> None:
        """Ends a broker with SIGKILL."""
        self.running(broker_id)
        self._run(self._end(broker_id, kill=True))

    def shut_down(self, broker_id: int) -> None:
        """Stops a broker cleanly: it hands its leadership over first."""
        self.running(broker_id)
        self._run(self._end(broker_id, kill=False))

    def pause(self, broker_id: int) -> None:
        """Freezes a broker with SIGSTOP."""
        os.kill(self.running(broker_id).pid, signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """Lets a broker continue after `pause`."""
        os.kill(self.running(broker_id).pid, signal.SIGCONT)

    def create_topic(
        self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None, *, replicas: int = -1
    ) -> None:
        """Raises NotPossible with the broker's reason."""
        with connect(self.bootstrap, settings={"log_level": 0}) as cluster:
            cluster.topics.create(name, partitions, replicas=replicas, settings=settings)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Id of the broker that leads a partition; -1 if there is none."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.list_topics(topic, _ASK_TIMEOUT_S).topics[topic]
        if found.error is not None or partition not in found.partitions:
            raise ClusterError(f"there is no partition {topic}-{partition}")
        return int(found.partitions[partition].leader)

    def running(self, broker_id: int) -> Child:
        if broker_id not in self.brokers:
            raise ClusterError(f"broker {broker_id} does not run: {listed(self.brokers)} do")
        return self.brokers[broker_id]

    def stop(self) -> None:
        """Kills all processes. Their data is not needed any more. A second call does nothing."""
        if not self._thread.is_alive():
            return
        try:
            self._run(self._end_all())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_TIMEOUT_S)
            self._loop.close()

    # The thread

    def _run(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_START_TIMEOUT_S)

    async def _open_store(self) -> StoreServer:
        self._store = await open_directories(self._config)
        assert self._store.store is not None, "only ZooKeeper's clusters have none"
        await prepare_store(self._store.store, self._store.cluster_id)
        return StoreServer(self._store.store)

    async def _start(self, broker_ids: list[int]) -> None:
        """Raises ClusterError if one of the processes ends instead of serving."""
        for broker_id in broker_ids:
            self.brokers[broker_id] = Child(
                broker_id,
                process_settings(self._unit, broker_id - _FIRST_ID),
                quiet=True,
                store_socket=self._server.connect,
                on_message=lambda _: None,
                launch=fork_server().launch,
            )
        for broker_id in broker_ids:
            child = self.brokers[broker_id]
            waits = [asyncio.create_task(event.wait()) for event in (child.serving, child.ended)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if not child.serving.is_set():
                del self.brokers[broker_id]
                raise ClusterError(f"broker {broker_id} did not start (exit code {child.exit_code}): see its messages")

    async def _end(self, broker_id: int, *, kill: bool) -> None:
        child = self.brokers.pop(broker_id)
        if kill:
            child.kill()
        else:
            child.terminate()
        await child.stopped()

    async def _end_all(self) -> None:
        for broker_id in list(self.brokers):
            await self._end(broker_id, kill=True)
        if self._store is not None and self._store.store is not None:
            await self._server.close()
            await self._store.store.close()


@contextmanager
def process_cluster(brokers: int = 3, settings: Mapping[str, str] | None = None) -> Iterator[ProcessCluster]:
    """A running cluster with a temporary directory."""
    directory = temporary_directory()
    try:
        running = ProcessCluster(brokers, settings or {}, directory)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
