"""Kills a broker at one certain call that changes a file.

    shim = KillShim(directory, below=data_dir)
    shim.kill_at(17)                     # the 18th call, counted from the start of the process, is not made
    BrokerProcess(…, within=shim.command)

The broker preloads a small library (`kill_shim.c`), so every call counts: open, write, rename, unlink, fsync …
What the process wrote before stays, because the page cache survives the process. Needs Linux and a C compiler.
"""

from __future__ import annotations

import mmap
import struct
import subprocess
from pathlib import Path
from typing import Final

_NUMBERS: Final = struct.Struct("=qqq")
_SIZE: Final = 4096
_NEVER: Final = -1


class KillShim:
    def __init__(self, directory: Path, *, below: Path) -> None:
        library, file = build(directory), directory / "kill_shim.numbers"
        file.write_bytes(bytes(_SIZE))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _SIZE)
        self.command = ["env", f"LD_PRELOAD={library}", f"KILL_SHIM={file}", f"KILL_SHIM_BELOW={below}"]
        self.kill_at(None)

    def kill_at(self, call: int | None, *, half_written: bool = False) -> None:
        """`half_written`: if the call is a write, half of its bytes are written."""
        self._shared[_NUMBERS.size :] = bytes(_SIZE - _NUMBERS.size)
        _NUMBERS.pack_into(self._shared, 0, 0, _NEVER if call is None else call, half_written)

    @property
    def made(self) -> int:
        """How many calls the process made."""
        return int(_NUMBERS.unpack_from(self._shared)[0])

    @property
    def killed_at(self) -> str:
        """The call and its file. Empty if the process was not killed."""
        return self._shared[_NUMBERS.size :].split(b"\0", 1)[0].decode()


def build(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    library, source = directory / "kill_shim.so", Path(__file__).with_name("kill_shim.c")
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library
