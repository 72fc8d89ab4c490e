"""Runs a broker in its own process: signals, exit codes, the log line "serving", and the message when a start fails."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

import uvloop

from headrace import __version__
from headrace.broker.broker import Broker, CannotStart
from headrace.broker.environment import MACHINE, Environment
from headrace.broker.registry_process import RegistryProcess
from headrace.config import BrokerConfig
from headrace.telemetry import set_up_logging

log = logging.getLogger("headrace.broker")

# A parent (timeout, a shell, a supervisor) often signals the process group as well as the broker. Signals that come
# together are one request to stop; only a later one means that the operator does not want to wait.
ONE_REQUEST_SECONDS: Final = 0.3
# Requests leave no reference cycles, so the collector finds little; by default it would run every few requests.
_OBJECTS_BETWEEN_COLLECTIONS: Final = 20_000


def serve_in_foreground(config: BrokerConfig, *, started: float, quiet: bool = False) -> int:
    """Runs until a signal. Returns the exit code."""
    prepare_process(config, quiet=quiet)

    def announce(broker: Broker) -> None:
        took_ms = (time.perf_counter() - started) * 1000
        where = ", ".join(str(listener) for listener in broker.listeners.advertised)
        data = ", ".join(config.log_dirs)
        print(f"headrace {__version__} serves {where} (data in {data}; started in {took_ms:.0f} ms)", flush=True)

    try:
        return int(uvloop.run(serve(config, on_serving=announce)))
    except CannotStart as problem:
        print(f"headrace: {problem}", file=sys.stderr)
        return 1


def prepare_process(config: BrokerConfig, *, quiet: bool) -> None:
    """Logging, and the limit of open files, of a process that serves."""
    set_up_logging("WARN" if quiet else config.log_level)
    for warning in config.warnings:
        log.warning("%s", warning)
    allow_open_files()


def allow_open_files() -> None:
    """Raises the limit of open files to the hard limit: shells often start with 1,024, and each partition and
    connection needs one. (The Java machine does the same for Kafka.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # on systems where "unlimited" is above the kernel's limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve(
    config: BrokerConfig,
    *,
    on_serving: Callable[[Broker], None],
    environment: Environment = MACHINE,
    stop_when: asyncio.Future[str] | None = None,
) -> int:
    """Serves until a signal, or until `stop_when` gives a reason to stop. Returns the exit code. Raises CannotStart."""
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    asked_at = 0.0

    def stop(name: str) -> None:
        nonlocal asked_at
        if not asked_to_stop.is_set():
            log.info("%s: shutting down", name)
            asked_at = loop.time()
            asked_to_stop.set()
        elif loop.time() - asked_at > ONE_REQUEST_SECONDS:
            log.warning("%s again: stopping at once, without a clean shutdown", name)
            os._exit(130)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, signal.Signals(number).name)
    if stop_when is not None:
        stop_when.add_done_callback(lambda done: None if done.cancelled() else stop(done.result()))
    broker = Broker(config, environment)
    starting = asyncio.create_task(broker.start())
    stopping = asyncio.create_task(asked_to_stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()
        # Objects loaded by now are permanent: the collector need not traverse them again.
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        gc.enable()
        on_serving(broker)
        registry = RegistryProcess.of(config, broker.listeners)
        if registry is not None:
            registry.start()
        await asyncio.wait([stopping, asyncio.ensure_future(broker.failed())], return_when=asyncio.FIRST_COMPLETED)
        if registry is not None:
            await registry.stop()
    else:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    await broker.stop()
    return 0 if asked_to_stop.is_set() else 1
