"""Starts broker processes in milliseconds: a process that has loaded the broker forks one for each.

A broker process needs most of its start to load Python modules. So a program that starts many of them, as a test suite
does, starts one server process. It loads the modules once and never starts a thread or an event loop, so a copy of it
is like a new process. The server reports the ends of its processes, and ends with the program that started it.

    launch = fork_server().launch        # for `headrace.unit.child.Child`

The processes have the environment, the directory and the outputs that the program had when its server started.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final, NoReturn

_MOST_DESCRIPTORS: Final = 8
_START_TIMEOUT_S: Final = 60.0
_READ: Final = 4096


class ForkedProcess:
    """A broker process, as `Child` watches it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.end: Future[int] = Future()

    @property
    def returncode(self) -> int | None:
        return self.end.result() if self.end.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(asyncio.wrap_future(self.end))

    def send_signal(self, signal: int, /) -> None:
        if not self.end.done():
            os.kill(self.pid, signal)


class ForkServer:
    """The server of this program. Safe to use from several threads and event loops."""

    def __init__(self) -> None:
        self._control, other = socket.socketpair()
        with other:
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._one_request = threading.Lock()
        self._started: Future[ForkedProcess] = Future()
        self._processes: dict[int, ForkedProcess] = {}
        threading.Thread(target=self._listen, name="headrace fork server", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._server.poll() is None

    async def launch(self, descriptors: list[int]) -> ForkedProcess:
        """Starts `headrace.unit.process` with these sockets."""
        return await asyncio.to_thread(self._launch, descriptors)

    def _launch(self, descriptors: list[int]) -> ForkedProcess:
        with self._one_request:
            self._started = Future()
            socket.send_fds(self._control, [b"."], descriptors)
            return self._started.result(_START_TIMEOUT_S)

    def _listen(self) -> None:
        for message in _lines(self._control):
            pid = int(message["pid"])
            if "code" in message:
                self._processes.pop(pid).end.set_result(int(message["code"]))
            else:
                self._processes[pid] = started = ForkedProcess(pid)
                self._started.set_result(started)
        for one in self._processes.values():  # the server has died, and reports no end any more
            one.end.set_result(-signal.SIGKILL)
        if not self._started.done():
            self._started.set_exception(RuntimeError("the server of broker processes has ended: see its messages"))


_server: ForkServer | None = None
_lock: Final = threading.Lock()


def fork_server() -> ForkServer:
    """The server of this program. Starts it with the first call."""
    global _server
    with _lock:
        if _server is None or not _server.is_alive:
            _server = ForkServer()
        return _server


def _lines(control: socket.socket) -> Iterator[dict[str, int]]:
    left = b""
    while data := control.recv(_READ):
        *lines, left = (left + data).split(b"\n")
        yield from map(json.loads, lines)


# The server process


def main() -> None:
    """Serves requests until the program that started it has ended."""
    from headrace.unit import process

    gc.freeze()  # a collection in a copy would touch, and so copy, the pages of all modules
    control = socket.socket(fileno=int(sys.argv[1]))
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, _READ)
            for pid, code in _ended():
                _tell(control, pid=pid, code=code)
        if control.fileno() in ready:
            data, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_DESCRIPTORS)
            if not data:
                return
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (woken, wakes, control.detach()):
                    os.close(one)
                _become(process.main, descriptors)
            for one in descriptors:
                os.close(one)
            _tell(control, pid=pid)


def _tell(control: socket.socket, **message: int) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def _ended() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _become(program: object, descriptors: list[int]) -> NoReturn:
    """Runs the program of a broker process in this copy."""
    assert callable(program)
    code = 1
    try:
        os.setsid()
        sys.argv = ["headrace.unit.process", *map(str, descriptors)]
        code = int(program())
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # boundary of the process: `os._exit` below would hide it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
