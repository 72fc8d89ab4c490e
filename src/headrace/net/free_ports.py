"""Free ports for the servers of development clusters and tests.

A port that the system chooses (port 0) is free again while its server restarts, and any outgoing connection may take it
meanwhile. `free_port` therefore chooses below the range of outgoing connections, and reserves the port: until this
process ends, no other process of this user gets the same one. A reservation is a lock on one byte of a shared file, so
the system ends it with the process.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_PORTS: Final = range(15_000, 32_000)
_TRIES: Final = 500
# File locks do not exclude their own process, so it must remember the ports that it reserved.
_reserved: set[int] = set()
_opened: list[int] = []


def free_port(ports: Sequence[int] = _PORTS) -> int:
    for port in random.SystemRandom().sample(ports, min(_TRIES, len(ports))):
        if port not in _reserved and _reserve(port):
            if _can_listen(port):
                _reserved.add(port)
                return port
            fcntl.lockf(_locks(), fcntl.LOCK_UN, 1, port)
    raise OSError(f"no free port between {ports[0]} and {ports[-1]}: stop servers that are no longer needed")


def free_ports_in_a_row(count: int, ports: Sequence[int] = _PORTS) -> int:
    """The first of `count` free ports in a row, all reserved."""
    for first in random.SystemRandom().sample(range(ports[0], ports[-1] - count), _TRIES):
        row = range(first, first + count)
        taken = [port for port in row if port not in _reserved and _reserve(port)]
        if len(taken) == count and all(map(_can_listen, row)):
            _reserved.update(row)
            return first
        for port in taken:
            fcntl.lockf(_locks(), fcntl.LOCK_UN, 1, port)
    raise OSError(f"no {count} free ports in a row between {ports[0]} and {ports[-1]}: stop servers, or name a port")


def _reserve(port: int) -> bool:
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _locks() -> int:
    """The file stays open: closing it would release all locks of the process."""
    if not _opened:
        file = Path(tempfile.gettempdir()) / f"headrace-ports-{os.getuid()}.lock"
        _opened.append(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return _opened[0]
