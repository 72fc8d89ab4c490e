"""A broker and a web console that run as long as a demo."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.cli.support.child_broker import child_broker

_READY: Final = re.compile(r"ready on (\S+)")
_USUAL_PORT: Final = 9092
_CONSOLE_PORT: Final = 8080


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def embedded_broker(data: Path) -> Iterator[str]:
    """Runs a broker as a child process, on Kafka's usual port if it is free. Yields its address."""
    with child_broker(data, _USUAL_PORT if _free(_USUAL_PORT) else 0) as address:
        yield address.replace("127.0.0.1", "localhost")


@contextmanager
def web_console(bootstrap: str, log: Path) -> Iterator[str | None]:
    """Runs the web console as a child process. Yields its address, or None if it did not start: the demo goes on."""
    port = _CONSOLE_PORT if _free(_CONSOLE_PORT) else 0
    command = [sys.executable, "-m", "headrace.cli", "console", "start", "--listen", f"127.0.0.1:{port}"]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--bootstrap", bootstrap], stdout=subprocess.PIPE, stderr=out, stdin=subprocess.DEVNULL,
            text=True, start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        found = _READY.search(process.stdout.readline())
        yield None if found is None else found[1]
    finally:
        process.terminate()
        process.wait()
