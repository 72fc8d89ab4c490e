"""A broker in this process, in its own thread and event loop."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from headrace.broker.broker import Broker
from headrace.config import load_broker_config

T = TypeVar("T")

_START_TIMEOUT_S: Final = 30
_STOP_TIMEOUT_S: Final = 30
# Defaults for tests: groups form without a delay, and retention is off, because tests write records with timestamps
# years ago (the first retention check, half a minute after the start, would delete them during a test).
TEST_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}


class RunningBroker:
    """A started broker. `call` runs a function on its event loop, for tests that inspect its state."""

    def __init__(self, settings: Mapping[str, str], data_dir: Path) -> None:
        self.data_dir = data_dir
        config = load_broker_config(
            {"listeners": "PLAINTEXT://127.0.0.1:0", **TEST_SETTINGS, "log.dirs": str(data_dir), **settings}
        )
        self.broker = Broker(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="headrace broker", daemon=True)
        self._thread.start()
        self._ready.result(_START_TIMEOUT_S)

    @property
    def host(self) -> str:
        return self.broker.listeners.advertised[0].host

    @property
    def port(self) -> int:
        return self.broker.listeners.advertised[0].port

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def _run(self) -> None:
        import uvloop

        try:
            uvloop.run(self._serve())
        except BaseException as error:  # boundary of the thread: `start` raises it to its caller
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                raise

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        await self.broker.start()
        self._ready.set_result(None)
        await self._stopped.wait()
        await self.broker.stop()

    def call(self, function: Callable[[], T]) -> T:
        """Runs `function` on the broker's event loop and returns its result."""
        assert self._loop is not None
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # boundary of the loop: raised to the caller in its own thread
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(_START_TIMEOUT_S)

    def stop(self) -> None:
        """Shuts the broker down cleanly. A second call does nothing."""
        if self._loop is not None and self._stopped is not None and self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._stopped.set)
            except RuntimeError:
                pass
        self._thread.join(_STOP_TIMEOUT_S)


@contextmanager
def broker(settings: Mapping[str, str] | None = None, *, data_dir: Path | None = None) -> Iterator[RunningBroker]:
    """A running broker on a free port. Without `data_dir` it uses a temporary directory and deletes it at the end."""
    directory = data_dir or Path(tempfile.mkdtemp(prefix="headrace-"))
    try:
        running = RunningBroker(settings or {}, directory)
        try:
            yield running
        finally:
            running.stop()
    finally:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)
