"""A broker in this process, in its own thread and event loop."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from headrace.broker.broker import Broker
from headrace.broker.environment import Environment, Serve, open_cluster_store
from headrace.config import BrokerConfig, load_broker_config
from headrace.controller.core.topics import USE_DEFAULT, NewTopic
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import ClusterStore
from headrace.kernel import errors as kernel_errors
from headrace.kernel.errors import ErrorCode
from headrace.testing import full_disk
from headrace.testing.account import broker_account
from headrace.testing.clock import BrokerClock, TurnedClock, TurnedLoop
from headrace.testing.emulation.older_release import OlderRelease
from headrace.testing.faults import Fault, FaultArguments, RequestFaults, fault
from headrace.testing.request_log import SeenRequest

if TYPE_CHECKING:
    from headrace.testing.snapshots import SnapshotCopies

T = TypeVar("T")
OpenStore = Callable[[BrokerConfig], Awaitable[ClusterStore]]

_START_TIMEOUT_S: Final = 30
_STOP_TIMEOUT_S: Final = 30
_MEMORY_DISK: Final = Path("/dev/shm")
_MEMORY_DISK_MIN_FREE: Final = 1 << 30
# Defaults for tests: groups form without a delay, and retention is off, because tests write records with timestamps
# years ago (the first retention check, half a minute after the start, would delete them during a test).
TEST_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}


class TopicError(ValueError):
    """The broker refused to create the topic."""


class RunningBroker:
    """A started broker. `clock` turns its time, `fail` injects faults. `call` runs a function on its event loop, for
    tests that inspect its state."""

    def __init__(
        self,
        settings: Mapping[str, str],
        data_dir: Path,
        *,
        open_store: OpenStore = open_cluster_store,
        turned: TurnedClock | None = None,
        version: str | None = None,
    ) -> None:
        """`version`: the release of Kafka that the broker emulates. Raises UnknownRelease."""
        self.data_dir = data_dir
        config = load_broker_config(
            {"listeners": "PLAINTEXT://127.0.0.1:0", **TEST_SETTINGS, "log.dirs": str(data_dir), **settings}
        )
        self._turned = turned or TurnedClock()
        self.clock = BrokerClock(self._turned, self.clock_turned)
        self._faults = RequestFaults(self._turned.wall_ms)
        self._release = None if version is None else OlderRelease(version)
        self._advertised: dict[int, range] = {}
        self.broker = Broker(config, Environment(self._turned, open_store, self._intercept))
        self._faults.belongs_to(self.broker)
        self.loop = self._make_loop()
        self._stopped = asyncio.Event()
        self._killed = False
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="headrace broker", daemon=True)
        self._thread.start()
        self._ready.result(_START_TIMEOUT_S)

    def _intercept(self, serve: Serve) -> Serve:
        return self._faults.intercept(
            serve if self._release is None else self._release.intercept(serve, self._advertised)
        )

    def _make_loop(self) -> TurnedLoop:
        return TurnedLoop(self._turned)

    @property
    def host(self) -> str:
        return self.broker.listeners.advertised[0].host

    @property
    def port(self) -> int:
        return self.broker.listeners.advertised[0].port

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    # What a test asks for

    def fail(self, api: str, **how: Unpack[FaultArguments]) -> Fault:
        """Fails requests of an API. Raises FaultError."""
        return self._faults.add(fault(api, **how))

    def disk_full(self) -> None:
        """Fills the disk of the broker: writes fail with KAFKA_STORAGE_ERROR and reads go on, until `make_room`."""
        full_disk.fill(self.data_dir)

    def make_room(self) -> None:
        """Ends `disk_full`."""
        full_disk.make_room(self.data_dir)

    def heal(self) -> None:
        """Removes every fault, also a full disk."""
        self._faults.clear()
        self.make_room()

    def requests(self, count: int = 30) -> list[SeenRequest]:
        """The last requests that the broker got, oldest first."""
        return self._faults.log.last(count)

    def create_topic(
        self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None, *, replicas: int | None = None
    ) -> None:
        """Creates a topic. Raises TopicError."""
        topic = NewTopic(name, partitions, USE_DEFAULT if replicas is None else replicas, configs=dict(settings or {}))
        try:
            (result,) = self.run(self.broker.parts.gateway.create_topics([topic]))
        except kernel_errors.Fault as fault:
            raise TopicError(f"topic {name!r} was not created: {fault.message}") from fault
        if result.error is not ErrorCode.none:
            raise TopicError(f"topic {name!r} was not created: {result.message or result.error.name}")

    def account(self) -> str:
        """What the broker saw: its topics, its groups and its last requests, as text."""
        return self.run(broker_account(self.broker, self.requests()))

    def clock_turned(self) -> None:
        """Fires the timers that are due. The clock calls it."""
        self.run(self.loop.turned())

    # The thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # boundary of the thread: `start` raises it to its caller
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                raise

    async def _serve(self) -> None:
        await self.broker.start()
        for key, lowest, highest in self.broker.parts.table.advertised():
            self._advertised[key] = range(lowest, highest + 1)
        self._ready.set_result(None)
        await self._stopped.wait()
        if self._killed:
            await self._abandon()
        else:
            await self.broker.stop()

    async def _abandon(self) -> None:
        """Drops connections, tasks and files without the steps of a clean shutdown."""
        self.broker.connections.close()
        # The task of a request that has just arrived takes its first step: Python warns about one that never does.
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.broker.parts.logins.close()
        await asyncio.to_thread(self.broker.log_dirs.close, clean=False, broker_epoch=-1)
        if isinstance(self.broker.store, EmbeddedStore):
            await self.broker.store.close()  # a process that ends releases its lock, a thread does not

    def call(self, function: Callable[[], T]) -> T:
        """Runs `function` on the broker's event loop and returns its result."""

        async def run() -> T:
            return function()

        return self.run(run())

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Runs a coroutine on the broker's event loop and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(_START_TIMEOUT_S)

    def kill(self) -> None:
        """Ends the broker without a clean shutdown: the next start of its directory recovers the logs."""
        self._killed = True
        self.stop()

    def stop(self) -> None:
        """Shuts the broker down cleanly. A second call does nothing."""
        self.make_room()
        if self._thread.is_alive():
            try:
                self.loop.call_soon_threadsafe(self._stopped.set)
            except RuntimeError:
                pass  # the loop has ended since
        self._thread.join(_STOP_TIMEOUT_S)


def temporary_directory() -> Path:
    """A new directory, in memory if the system offers enough of it: fsync costs nothing there."""
    try:
        free = os.statvfs(_MEMORY_DISK)
        in_memory = free.f_bavail * free.f_frsize >= _MEMORY_DISK_MIN_FREE and os.access(_MEMORY_DISK, os.W_OK)
    except OSError:
        in_memory = False
    return Path(tempfile.mkdtemp(prefix="headrace-", dir=_MEMORY_DISK if in_memory else None))


@functools.cache
def _snapshots() -> SnapshotCopies:
    """The files that this process has unpacked. Loads when a test has a snapshot."""
    from headrace.testing.snapshots import SnapshotCopies

    return SnapshotCopies(temporary_directory)


@contextmanager
def broker(
    settings: Mapping[str, str] | None = None,
    *,
    data_dir: Path | None = None,
    version: str | None = None,
    snapshot: Path | str | None = None,
) -> Iterator[RunningBroker]:
    """A running broker on a free port. Without `data_dir` it uses a temporary directory and deletes it at the end.
    `version`: the release of Kafka that it emulates, for example "2.8". `snapshot`: a file of `save_snapshot`, of whose
    content the broker gets a copy."""
    directory = data_dir or temporary_directory()
    try:
        if snapshot is not None:
            _snapshots().copy_to(Path(snapshot), directory)
        running = RunningBroker(settings or {}, directory, version=version)
        try:
            yield running
        finally:
            running.stop()
    finally:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)
