"""Finds out what uses a port: a server, or an outgoing connection.

The system gives ports of a range (32768 to 60999 on Linux) to outgoing connections. A server whose port lies in that
range can find it taken by any client on the machine, and a look for a listening process finds nothing. This module
reads the system's table of connections. Without such a table (not Linux), it finds nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from headrace.kernel.dataclass import dataclass

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_CLIENT_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LISTENS: Final = 0x0A


@dataclass(frozen=True, slots=True)
class Connection:
    """A line of the table. `inode` names the socket; 0 when the process has closed it and the system keeps the port."""

    local_port: int
    remote: str
    listens: bool
    inode: int


def read_connections(lines: Iterable[str]) -> Iterator[Connection]:
    """The lines of /proc/net/tcp or tcp6 below the heading."""
    for line in lines:
        words = line.split()
        if len(words) < 10 or ":" not in words[1]:
            continue
        remote, _, port = words[2].rpartition(":")
        yield Connection(
            local_port=int(words[1].rpartition(":")[2], 16),
            remote=f"{_address(remote)}:{int(port, 16)}",
            listens=int(words[3], 16) == _LISTENS,
            inode=int(words[9]),
        )


def _address(text: str) -> str:
    """Addresses are printed as 32-bit words of the machine, which is little-endian wherever we run."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    found = ipaddress.ip_address(b"".join(words))
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or (f"[{found}]" if found.version == 6 else found))


def explain_taken(port: int) -> str:
    """Explains which process uses the port, and what to do."""
    found = [connection for table in _TABLES for connection in _read(table) if connection.local_port == port]
    servers = [connection for connection in found if connection.listens]
    # A connection that its process has closed has no inode; the system keeps the port a little longer.
    holder = next((connection for connection in servers or found if connection.inode), None)
    process = None if holder is None else process_with(holder.inode)
    if servers or not found:
        who = f" ({process}): stop it, or" if process else ":"
        return f"another process listens there{who} choose another port"
    ports = client_ports()
    given = "" if ports is None else f" (the system gives ports {ports[0]} to {ports[1]} to clients)"
    of = f" of {process}," if process else ""
    return f"an outgoing connection{of} to {(holder or found[0]).remote} has that port{given}: choose another port"


def _read(table: Path) -> list[Connection]:
    try:
        return list(read_connections(table.read_text().splitlines()[1:]))
    except OSError:
        return []


def process_with(inode: int, processes: Path = Path("/proc")) -> str | None:
    """`process 123, java`: the one that has the socket open, if we may look."""
    for process in processes.glob("[0-9]*"):
        try:
            if f"socket:[{inode}]" in map(_link, (process / "fd").iterdir()):
                return f"process {process.name}, {(process / 'comm').read_text().strip()}"
        except OSError:
            continue  # another user's process, or it has just ended
    return None


def _link(entry: Path) -> str:
    """What an open file refers to. A process closes files while we look: a file that is gone refers to nothing."""
    try:
        return str(entry.readlink())
    except OSError:
        return ""


def client_ports() -> tuple[int, int] | None:
    """The first and the last port that the system gives to outgoing connections."""
    try:
        first, last = _CLIENT_PORTS.read_text().split()
    except (OSError, ValueError):
        return None
    return int(first), int(last)
