"""The schema registry beside the broker (`registry.listen`): a process of its own, because the event loop of the broker
serves no HTTP.

The broker starts it after it serves, starts it again when it ends, and stops it before it stops itself. A pipe connects
the two: if the broker dies, the kernel closes the pipe, and the registry ends at the end of its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from typing import Final

from headrace.config import BrokerConfig, ConfigError, Listeners, is_loopback

_log = logging.getLogger("headrace.broker")
# A registry that cannot start, for example because its port is taken, is started again after this pause.
_PAUSE_S: Final = 2.0
_STOP_S: Final = 10.0


def check_registry_address(config: BrokerConfig) -> None:
    """Raises ConfigError if `registry.listen` would open the registry to other machines without TLS and login. The
    registry has the same rule, but then the broker would already run."""
    listen = config.registry_listen.strip()
    if not listen:
        return
    scheme, is_named, rest = listen.rpartition("://")
    host, colon, port = rest.rpartition(":")
    is_known = not is_named or scheme in ("http", "https")
    if not is_known or not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError("registry.listen", listen, "must be host:port, for example 127.0.0.1:8081")
    if is_loopback(host.strip("[]") or "127.0.0.1") or scheme == "http":
        return
    needed = {
        "registry.tls.config": config.registry_tls_config,
        "registry.command.config": config.registry_command_config,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise ConfigError(
            "registry.listen",
            listen,
            f"opens the registry to other machines without encryption and login: set {' and '.join(missing)}. If you "
            f"want that, say so: registry.listen=http://{rest}",
        )


class RegistryProcess:
    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, config: BrokerConfig, listeners: Listeners) -> RegistryProcess | None:
        """None without `registry.listen`."""
        if not config.registry_listen:
            return None
        clients = [each for each in listeners.advertised if each.name != listeners.brokers_own]
        plain = [each for each in clients if each.protocol == "PLAINTEXT"]
        chosen = (clients if config.registry_command_config else plain) or clients
        address = f"{chosen[0].host or '127.0.0.1'}:{chosen[0].port}"
        command = [sys.executable, "-m", "headrace.cli", "registry", "start", "--stop-with-input"]
        command += ["--listen", config.registry_listen, "--bootstrap", address]
        if config.registry_command_config:
            command += ["--command-config", config.registry_command_config]
        if config.registry_tls_config:
            command += ["--tls-config", config.registry_tls_config]
        if config.registry_xml_schemas:
            command += ["--xml-schemas"]
        return cls(command)

    def start(self) -> None:
        self._task = asyncio.create_task(self._supervise(), name="schema registry process")

    async def _supervise(self) -> None:
        while True:
            try:
                self._process = await asyncio.create_subprocess_exec(*self._command, stdin=asyncio.subprocess.PIPE)
                code = await self._process.wait()
                _log.warning("the schema registry ended with %d: it starts again in %g s", code, _PAUSE_S)
            except OSError as error:
                _log.warning("the schema registry cannot start: %s", error.strerror)
            await asyncio.sleep(_PAUSE_S)

    async def stop(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            _log.warning("the schema registry does not end: it is killed")
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
