"""One process of a unit, as its supervisor sees it: started, watched, started again when it dies, stopped.

A process that ends before it ever served ends the start of the unit: its settings or its directory are wrong, and its
message is on the screen. Later ends are accidents: it starts again at once, and after a short life with a pause that
grows. The pause stays below a second if the process served in its last life: its partitions wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from headrace.unit.channel import Channel, Message

log = logging.getLogger("headrace.unit")

_SHORT_LIFE_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_AFTER_SERVING_S: Final = 0.5

StoreSocket = Callable[[], Awaitable[socket.socket]]


class LaunchedProcess(Protocol):
    """A process of `headrace.unit.process`."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...

    def send_signal(self, signal: int, /) -> None: ...


Launch = Callable[[list[int]], Awaitable[LaunchedProcess]]


async def _execute(descriptors: list[int]) -> LaunchedProcess:
    """A new process. A session of its own: Ctrl-C reaches the supervisor only, which stops all processes in order."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headrace.unit.process",
        *map(str, descriptors),
        pass_fds=descriptors,
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )


class Child:
    def __init__(
        self,
        broker_id: int,
        settings: Mapping[str, str],
        *,
        quiet: bool,
        store_socket: StoreSocket | None,
        on_message: Callable[[Message], None],
        launch: Launch = _execute,
    ) -> None:
        """`launch` starts the process with the descriptors of its sockets."""
        self.broker_id = broker_id
        self._launch = launch
        self._settings = dict(settings)
        self._quiet = quiet
        self._store_socket = store_socket
        self._on_message = on_message
        self.serving = asyncio.Event()
        self.ended = asyncio.Event()
        """The process has ended, and is not started again."""
        self.addresses: list[str] = []
        self.metrics_port = 0
        self.restarts = 0
        self.exit_code = 0
        self._process: LaunchedProcess | None = None
        self._channel: Channel | None = None
        self._stopping = False
        self._has_served = False
        self._task = asyncio.create_task(self._supervise(), name=f"process of broker {broker_id}")

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def ask(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.send(message)

    async def _supervise(self) -> None:
        pause: float | None = None
        try:
            while not self._stopping:
                began = time.monotonic()
                self._has_served = False
                try:
                    self.exit_code = await self._one_life()
                except OSError as error:  # no memory, process or descriptor was left: there may be one later
                    log.error("the process of broker %d cannot be started: %s", self.broker_id, error)
                    self.exit_code = 1
                if self._stopping or not self.addresses:
                    return
                pause = next_pause_s(pause, time.monotonic() - began, has_served=self._has_served)
                log.error(
                    "the process of broker %d ended (%s): it starts again%s",
                    self.broker_id,
                    _how(self.exit_code),
                    f" in {pause:g} s" if pause else "",
                )
                self.restarts += 1
                await asyncio.sleep(pause)
        finally:
            self.ended.set()

    async def _one_life(self) -> int:
        own, other = socket.socketpair()
        inherited = [other]
        if self._store_socket is not None:
            inherited.append(await self._store_socket())
        numbers = [one.fileno() for one in inherited]
        self._process = process = await self._launch(numbers)
        for one in inherited:
            one.close()
        self._channel = channel = await Channel.over(own)
        channel.send({"settings": self._settings, "quiet": self._quiet})
        listening = asyncio.create_task(self._listen(channel))
        try:
            code = await process.wait()
        finally:
            self.serving.clear()
            listening.cancel()
            channel.close()
            self._channel = None
            self.metrics_port = 0
        return code

    async def _listen(self, channel: Channel) -> None:
        while (message := await channel.receive()) is not None:
            if "serves" in message:
                self.addresses = message["serves"]
                self.metrics_port = message["metrics_port"]
                self._has_served = True
                self.serving.set()
            self._on_message(message)

    # Stopping

    def terminate(self) -> None:
        self._stopping = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._stopping = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            if not self.ended.is_set():
                self._task.cancel()  # it waits before the next start
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stopped(self) -> int:
        """Waits for the end of the process. Returns its exit code."""
        await asyncio.gather(self._task, return_exceptions=True)
        # Killed by the signal: it had not yet begun, so there was no log to close.
        return 0 if self.exit_code == -signal.SIGTERM else self.exit_code


def next_pause_s(former_s: float | None, life_s: float, *, has_served: bool) -> float:
    """The pause before the next start of a process that lived for `life_s`. `former_s` is the pause before that life,
    None before the first."""
    if life_s > _SHORT_LIFE_S or former_s is None:
        return 0.0
    longest = _LONGEST_PAUSE_AFTER_SERVING_S if has_served else _LONGEST_PAUSE_S
    return min(longest, max(_FIRST_PAUSE_S, 2 * former_s))


def _how(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
