"""Which process listens on a port, as far as /proc shows it to us."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"


def port_holder(port: int) -> str | None:
    """`process 123, java`, or None."""
    inodes = _listening_sockets(port)
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if any(str(link.readlink()) in wanted for link in (process / "fd").iterdir()):
                return f"process {process.name}, {(process / 'comm').read_text().strip()}"
        except OSError:
            continue
    return None


def _listening_sockets(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == _LISTENING:
                inodes.add(fields[9])
    return inodes
