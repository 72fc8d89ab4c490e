"""The supervisor of a unit: starts the processes, starts dead ones again, and stops all with one signal.

    directories checked ─► store opened ─► first process serves ─► the others serve ─► partitions balanced
    if the unit shrinks:  all processes start, the leaving ones are drained and stop, then the unit starts again smaller

Without ZooKeeper it also holds the coordination store (`coordination.unit`), so it does little else: no request of a
client passes through it. If it dies, the processes lose their store and stop. Nothing is lost: their logs are on disk,
and the store answered only what is in its journal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from enum import Enum
from functools import partial
from typing import Final

import uvloop

from headrace import __version__
from headrace.broker.broker import CannotStart
from headrace.broker.foreground import ONE_REQUEST_SECONDS, prepare_process, serve_in_foreground
from headrace.config import BrokerConfig, ConfigError, resolve_listeners
from headrace.controller.member import prepare_store
from headrace.coordination.unit.server import StoreServer
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.net.free_ports import free_ports_in_a_row
from headrace.telemetry.endpoint import metrics_address
from headrace.unit.channel import Message
from headrace.unit.child import Child
from headrace.unit.core.processes import Unit, check_ports, process_settings, with_ports
from headrace.unit.directories import UnitDirectories, open_directories
from headrace.unit.metrics import UnitMetrics

log = logging.getLogger("headrace.unit")

_STOP_WITHIN_S: Final = 60.0
_STORE_CHECK_S: Final = 1.0


class Ending(Enum):
    """How a supervisor ends, if not with an exit code."""

    SERVE_ALONE = "one process is left: it goes on as a standalone broker"


def run_unit(config: BrokerConfig, *, started: float, quiet: bool = False) -> int:
    """Runs until a signal. Returns the exit code."""
    prepare_process(config, quiet=quiet)
    try:
        ending = uvloop.run(Supervisor(config, started=started, quiet=quiet).run())
    except CannotStart as problem:
        print(f"headrace: {problem}", file=sys.stderr)
        return 1
    if ending is Ending.SERVE_ALONE:
        return serve_in_foreground(config.with_static({"broker.processes": "1"}), started=started, quiet=quiet)
    return int(ending)


class Supervisor:
    """`run` once. Owned by one event loop."""

    def __init__(self, config: BrokerConfig, *, started: float, quiet: bool) -> None:
        assert config.processes is not None, "the settings of a unit"
        self._config = config
        self._wanted = config.processes
        self._began = started
        self._quiet = quiet
        self._children: list[Child] = []
        self._server: StoreServer | None = None
        self._asked_to_stop = asyncio.Event()
        self._asked_at = 0.0
        self._asked: Message | None = None
        self._answers: asyncio.Queue[Message] = asyncio.Queue()

    async def run(self) -> int | Ending:
        """Raises CannotStart."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, signal.Signals(number).name)
        try:
            directories = await self._open()
            try:
                return await self._run(directories)
            finally:
                await self._stop_all()
                if directories.store is not None:
                    await directories.store.close()
        except Fault as problem:
            raise CannotStart(problem.message) from problem
        except OSError as problem:
            where = problem.filename or ", ".join(self._config.log_dirs)
            raise CannotStart(f"cannot use {where}: {problem.strerror or problem}") from problem

    def _stop(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        if not self._asked_to_stop.is_set():
            log.info("%s: stopping all processes", name)
            self._asked_at = loop.time()
            self._asked_to_stop.set()
        elif loop.time() - self._asked_at > ONE_REQUEST_SECONDS:
            log.warning("%s again: stopping at once, without a clean shutdown", name)
            for child in self._children:
                child.kill()
            os._exit(130)

    # Starting

    async def _open(self) -> UnitDirectories:
        if self._config.zookeeper_connect and self._config.broker_id < 0:
            raise ConfigError(
                "broker.id",
                None,
                "must be set for a unit with zookeeper.connect: its processes get this id and the next ones, and the "
                "units of other hosts need other ids",
            )
        if self._config.metrics_listen:
            metrics_address(self._config.metrics_listen)
        self._config = _with_free_ports(self._config, self._wanted)
        directories = await open_directories(self._config, lambda: _check_free(self._config, self._wanted))
        if directories.store is not None:
            self._server = StoreServer(directories.store)
            await prepare_store(directories.store, directories.cluster_id)
        return directories

    async def _run(self, directories: UnitDirectories) -> int | Ending:
        count = max(self._wanted, directories.occupied)
        if count == 1:
            return Ending.SERVE_ALONE
        unit = Unit(self._config, directories.first_id, count, self._wanted, socket.gethostname())
        if count > self._wanted:
            if not await self._shrink(unit):
                return await self._stop_all() or int(not self._asked_to_stop.is_set())
            if self._wanted == 1:
                return Ending.SERVE_ALONE
            unit = Unit(self._config, directories.first_id, self._wanted, self._wanted, unit.rack)
        if not await self._start_all(unit):
            return await self._stop_all() or int(not self._asked_to_stop.is_set())
        metrics = UnitMetrics(self._metrics_ports, lambda: sum(child.restarts for child in self._children))
        if self._config.metrics_listen:
            await metrics.start(self._config.metrics_listen)
        self._say_serving(unit)
        self._ask({"ask": "balance", "ids": list(unit.ids)})
        try:
            store_is_well = await self._watch(directories)
        finally:
            await metrics.stop()
        return await self._stop_all() or int(not store_is_well)

    async def _start_all(self, unit: Unit) -> bool:
        """False if a process did not serve, or a stop was requested before."""
        _check_free(self._config, unit.count)
        for index in range(unit.count):
            self._children.append(
                Child(
                    unit.first_id + index,
                    process_settings(unit, index),
                    quiet=self._quiet,
                    store_socket=self._server.connect if self._server is not None else None,
                    on_message=partial(self._received, index),
                )
            )
            # The first process makes a new cluster, or moves its state to ZooKeeper. The others find it.
            if index == 0 and not await self._until_serving(self._children):
                return False
        return await self._until_serving(self._children)

    async def _until_serving(self, children: list[Child]) -> bool:
        for child in children:
            waits = [asyncio.create_task(event.wait()) for event in (child.serving, child.ended, self._asked_to_stop)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if self._asked_to_stop.is_set():
                return False
            if not child.serving.is_set():
                print(f"headrace: broker {child.broker_id} did not start, so the unit stops", file=sys.stderr)
                return False
        return True

    def _say_serving(self, unit: Unit) -> None:
        took_ms = (time.perf_counter() - self._began) * 1000
        where = ", ".join(address for child in self._children for address in child.addresses)
        data = ", ".join(self._config.log_dirs)
        print(
            f"headrace {__version__} serves {where} (data in {data}; {counted(unit.count, 'process', 'processes')}; "
            f"started in {took_ms:.0f} ms)",
            flush=True,
        )

    def _metrics_ports(self) -> list[int]:
        return [child.metrics_port for child in self._children if child.metrics_port]

    # Serving

    async def _watch(self, directories: UnitDirectories) -> bool:
        """Until a stop is requested. False if the store has failed: then no process may go on."""
        stopping = asyncio.ensure_future(self._asked_to_stop.wait())
        while not stopping.done():
            await asyncio.wait([stopping], timeout=_STORE_CHECK_S)
            if directories.store is not None and directories.store.lease_ends_at() == 0:
                stopping.cancel()
                return False
        return True

    def _ask(self, message: Message) -> None:
        """Asks the first process to move partitions."""
        self._asked = message
        self._children[0].ask(message)

    def _received(self, index: int, message: Message) -> None:
        if "serves" in message and index == 0 and self._asked is not None and self._children:
            self._children[0].ask(self._asked)  # it died before it answered
        elif "progress" in message:
            print(f"headrace: {message['progress']}", flush=True)
        elif "failed" in message or "done" in message:
            if "failed" in message:
                log.error("partitions could not be moved: %s", message["failed"])
            self._asked = None
            self._answers.put_nowait(message)

    async def _answer(self, message: Message) -> Message | None:
        """The answer of the first process. None if a stop was requested."""
        self._ask(message)
        stopping = asyncio.ensure_future(self._asked_to_stop.wait())
        try:
            reading = asyncio.ensure_future(self._answers.get())
            await asyncio.wait([stopping, reading], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            reading.cancel()
            return None
        finally:
            stopping.cancel()

    async def _shrink(self, unit: Unit) -> bool:
        """Empties the leaving processes. False if that was not possible, or a stop was requested. All processes have
        stopped then, or will be by the caller."""
        leaving, staying = list(unit.leaving), [one for one in unit.ids if one not in unit.leaving]
        if not await self._start_all(unit):
            return False
        self._say_serving(unit)
        answer = await self._answer({"ask": "drain", "ids": leaving, "onto": staying})
        if answer is None:
            return False
        if "failed" in answer:
            raise CannotStart(
                f"the unit cannot shrink to {counted(unit.staying, 'process', 'processes')}: {answer['failed']}"
            )
        for child in self._children[unit.staying :]:
            child.terminate()
        for child in self._children[unit.staying :]:
            await child.stopped()
        if await self._answer({"ask": "unregister", "ids": leaving}) is None:
            return False
        print(f"headrace: all partitions are on {counted(unit.staying, 'process', 'processes')}", flush=True)
        return await self._stop_all() == 0

    # Stopping

    async def _stop_all(self) -> int:
        """0 if every process stopped cleanly. Without ZooKeeper no leadership is handed over: all stop."""
        children, self._children = self._children, []
        for child in children:
            if not self._config.zookeeper_connect:
                child.ask({"ask": "stop with all"})
            child.terminate()
        code = 0
        for child in children:
            try:
                async with asyncio.timeout(_STOP_WITHIN_S):
                    code = await child.stopped() or code
            except TimeoutError:
                log.error("the process of broker %d does not stop: it is killed", child.broker_id)
                child.kill()
                await child.stopped()
                code = 1
        if self._server is not None:
            await self._server.close()
        return int(code != 0)


def _check_free(config: BrokerConfig, count: int) -> None:
    """Raises ConfigError if a port of a process is in use. Otherwise some processes would start, and one would not."""
    check_ports(config, count)
    for listener in resolve_listeners(config).bound:
        for port in range(listener.port, listener.port + count):
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((listener.host, port))
                except OSError as problem:
                    raise ConfigError(
                        "broker.processes",
                        str(count),
                        f"needs the ports {listener.port} to {listener.port + count - 1} on {listener.host or '*'}, "
                        f"and {port} cannot be used ({problem.strerror}): stop the program that uses it, or choose "
                        "other ports with --listen",
                    ) from None


def _with_free_ports(config: BrokerConfig, count: int) -> BrokerConfig:
    """A port 0 becomes the first of as many free ports in a row as there are processes."""
    unset = sum(1 for text in config["listeners"] if text.strip().endswith(":0"))
    config = with_ports(config, [free_ports_in_a_row(count) for _ in range(unset)])
    check_ports(config, count)
    return config
