"""Changes the wall clock and the flush time of a running broker.

    shim = SystemShim(directory)
    BrokerProcess(…, within=shim.command)
    shim.set(clock_s=-3600, flush_s=0.5)

The broker preloads a small library (`system_shim.c`). Monotonic time is not changed, as after a step of a real clock.
Needs Linux and a C compiler.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import sys
from pathlib import Path

_NUMBERS = struct.Struct("=qq")


def why_not() -> str | None:
    if sys.platform != "linux":
        return "needs Linux, to preload a library"
    return None if shutil.which("cc") else "needs a C compiler"


class SystemShim:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        library, file = directory / "system_shim.so", directory / "system_shim.numbers"
        source = Path(__file__).with_name("system_shim.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        file.write_bytes(bytes(_NUMBERS.size))
        with file.open("r+b") as opened:
            self._numbers = mmap.mmap(opened.fileno(), _NUMBERS.size)
        self.command = ["env", f"LD_PRELOAD={library}", f"SYSTEM_SHIM={file}"]

    def set(self, *, clock_s: float = 0, flush_s: float = 0) -> None:
        _NUMBERS.pack_into(self._numbers, 0, int(clock_s * 1e9), int(flush_s * 1e6))
