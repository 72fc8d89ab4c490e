"""What is done when this broker's process dies: its ZooKeeper session is ended at once, by another process.

ZooKeeper notices a dead client only when its session times out: six or eighteen seconds in which nobody leads what it
led. That a process was killed, or crashed, is known much sooner, and for certain, on its own machine: the kernel closes
its files. So a broker starts a small companion (this file, run by itself on nothing but the standard library) that
holds the other end of a pipe, is told every session, and when the pipe ends without a farewell takes the session up and
closes it. The broker's nodes are gone a moment later.

Nothing rests on it. A machine that loses its power, a companion that was killed too, an ensemble that does not answer:
then the session ends by its timeout, as ever. It never acts for a process that lives: one that is frozen keeps its
pipe.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from headrace.security.tls.client_context import ClientTls

FAREWELL = "farewell"
_CLOSE_SESSION = -11
_ONE_TRY_S = 1.0
_PAUSE_S = 0.1


class Companion:
    """The broker's side. Starting the companion may fail; then there is none."""

    def __init__(self, hosts: str, session_timeout: float, tls: ClientTls | None = None) -> None:
        self._hosts = hosts
        self._tls = tls
        self._timeout = session_timeout
        self._companion: subprocess.Popen[str] | None = None

    def start(self) -> str | None:
        """Why there is no companion, or None."""
        # A group of its own: what ends the broker by its group, Ctrl-C among it, leaves the companion to do its work.
        command = [sys.executable, "-I", "-S", __file__, self._hosts, str(self._timeout)]
        try:
            self._companion = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return str(error)
        # By the pipe and not by the command line, which every user of the machine may read.
        self._tell(json.dumps(None if self._tls is None else _told(self._tls)))
        return None

    def session_is(self, session_id: int, password: bytes) -> None:
        self._tell(f"{session_id} {password.hex()}")

    def withdraw(self) -> None:
        """The broker ends its session itself."""
        self._tell(FAREWELL)
        companion, self._companion = self._companion, None
        if companion is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                companion.wait(1.0)

    def _tell(self, line: str) -> None:
        if self._companion is None or self._companion.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):  # it is gone: nothing rests on it
            self._companion.stdin.write(line + "\n")
            self._companion.stdin.flush()


def _told(tls: ClientTls) -> dict[str, object]:
    key = tls.material.key_pem + tls.material.chain_pem if tls.material is not None else b""
    return {"key": key.decode(), "trusted": tls.trusted_pem, "check_hostname": tls.check_hostname}


def _context(told: dict[str, Any]) -> ssl.SSLContext:
    """The companion's side of `_told`: it has the standard library only."""
    import ssl

    context = ssl.create_default_context(cadata=told["trusted"])
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = told["check_hostname"]
    if told["key"]:
        with tempfile.NamedTemporaryFile("w") as file:  # readable by this user only
            file.write(told["key"])
            file.flush()
            context.load_cert_chain(file.name)
    return context


def end_session(
    hosts: str, timeout_s: float, session_id: int, password: bytes, context: ssl.SSLContext | None = None
) -> bool:
    """Takes the session up at one of the servers, and closes it. False when none answered while it could still live."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for host in hosts.split(","):
            name, _, port = host.rpartition(":")
            try:
                address = (name.strip("[]"), int(port))
                with socket.create_connection(address, _ONE_TRY_S) as plain:
                    server = plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
                    with server:
                        _close_there(server, timeout_s, session_id, password)
                    return True
            except (OSError, struct.error):
                continue
        time.sleep(_PAUSE_S)
    return False


def _close_there(server: socket.socket, timeout_s: float, session_id: int, password: bytes) -> None:
    asked = struct.pack(">iqiqi", 0, 0, int(timeout_s * 1000), session_id, len(password)) + password + b"\0"
    server.sendall(struct.pack(">i", len(asked)) + asked)
    _, granted_ms = struct.unpack_from(">ii", _frame(server))
    if granted_ms > 0:  # else it has ended already
        server.sendall(struct.pack(">iii", 8, 1, _CLOSE_SESSION))
        with contextlib.suppress(OSError):  # the answer, or the server's hanging up
            _frame(server)


def _frame(server: socket.socket) -> bytes:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = server.recv(size - len(data))
            if not more:
                raise ConnectionError("the server hung up")
            data += more
        return data

    return exactly(struct.unpack(">i", exactly(4))[0])


def main() -> None:
    hosts, timeout = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = json.loads(sys.stdin.readline() or "null")
    context = None if told is None else _context(told)
    session: tuple[int, bytes] | None = None
    for line in sys.stdin:
        words = line.split()
        if words == [FAREWELL]:
            return
        session = int(words[0]), bytes.fromhex(words[1])
    if session is not None:
        end_session(hosts, float(timeout), *session, context)


if __name__ == "__main__":
    main()
