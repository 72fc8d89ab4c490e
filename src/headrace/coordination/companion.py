"""The companion: a process that ends the ZooKeeper session of its broker as soon as the broker's process dies.

ZooKeeper detects a dead broker only when its session times out. For those six to eighteen seconds the partitions that
the broker led have no leader. The broker's own machine knows sooner that a process was killed or crashed: the kernel
closes its files. So a broker starts a companion (this file, which imports only the standard library) that holds the
other end of a pipe. The broker writes every session id to the pipe. When the pipe ends without the line `close`, the
companion connects with that session and closes it. ZooKeeper then removes the broker's nodes at once.

Correctness does not depend on the companion. After a power loss, if the companion was killed too, or if the ensemble
does not answer, the session ends by its timeout. The companion never acts for a live process: a frozen broker keeps
its end of the pipe open.
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

GRACEFUL_CLOSE = "close"
_CLOSE_SESSION = -11
_ONE_TRY_S = 1.0
_PAUSE_S = 0.1


class Companion:
    """The broker's side. If the companion cannot be started, the broker runs without one."""

    def __init__(self, hosts: str, session_timeout: float, tls: ClientTls | None = None) -> None:
        self._hosts = hosts
        self._tls = tls
        self._timeout = session_timeout
        self._companion: subprocess.Popen[str] | None = None

    def start(self) -> str | None:
        """Returns None, or why the companion could not be started."""
        # A process group of its own: a signal to the broker's group (Ctrl-C) must not end the companion.
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
        # Through the pipe, because every user of the machine can read the command line.
        self._send(json.dumps(None if self._tls is None else _tls_settings(self._tls)))
        return None

    def session_is(self, session_id: int, password: bytes) -> None:
        self._send(f"{session_id} {password.hex()}")

    def withdraw(self) -> None:
        """Stops the companion: the broker ends its session itself."""
        self._send(GRACEFUL_CLOSE)
        companion, self._companion = self._companion, None
        if companion is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                companion.wait(1.0)

    def _send(self, line: str) -> None:
        if self._companion is None or self._companion.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):  # the companion has died; the session then ends by its timeout
            self._companion.stdin.write(line + "\n")
            self._companion.stdin.flush()


def _tls_settings(tls: ClientTls) -> dict[str, object]:
    key = tls.material.key_pem + tls.material.chain_pem if tls.material is not None else b""
    return {"key": key.decode(), "trusted": tls.trusted_pem, "check_hostname": tls.check_hostname}


def _context(settings: dict[str, Any]) -> ssl.SSLContext:
    """The TLS context from `_tls_settings`, in the companion, with the standard library only."""
    import ssl

    context = ssl.create_default_context(cadata=settings["trusted"])
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = settings["check_hostname"]
    if settings["key"]:
        with tempfile.NamedTemporaryFile("w") as file:  # readable by this user only
            file.write(settings["key"])
            file.flush()
            context.load_cert_chain(file.name)
    return context


def end_session(
    hosts: str, timeout_s: float, session_id: int, password: bytes, context: ssl.SSLContext | None = None
) -> bool:
    """Connects to a server with this session and closes it. False if no server answered within the session timeout."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for host in hosts.split(","):
            name, _, port = host.rpartition(":")
            try:
                address = (name.strip("[]"), int(port))
                with socket.create_connection(address, _ONE_TRY_S) as plain:
                    server = plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
                    with server:
                        _close_session(server, timeout_s, session_id, password)
                    return True
            except (OSError, struct.error):
                continue
        time.sleep(_PAUSE_S)
    return False


def _close_session(server: socket.socket, timeout_s: float, session_id: int, password: bytes) -> None:
    asked = struct.pack(">iqiqi", 0, 0, int(timeout_s * 1000), session_id, len(password)) + password + b"\0"
    server.sendall(struct.pack(">i", len(asked)) + asked)
    _, granted_ms = struct.unpack_from(">ii", _frame(server))
    if granted_ms > 0:  # else the session has ended already
        server.sendall(struct.pack(">iii", 8, 1, _CLOSE_SESSION))
        with contextlib.suppress(OSError):  # waits for the answer or the end of the connection
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
    settings = json.loads(sys.stdin.readline() or "null")
    context = None if settings is None else _context(settings)
    session: tuple[int, bytes] | None = None
    for line in sys.stdin:
        words = line.split()
        if words == [GRACEFUL_CLOSE]:
            return
        session = int(words[0]), bytes.fromhex(words[1])
    if session is not None:
        end_session(hosts, float(timeout), *session, context)


if __name__ == "__main__":
    main()
