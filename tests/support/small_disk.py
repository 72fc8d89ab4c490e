"""A directory on a small disk (a tmpfs) that a test can fill to the last byte and empty again.

with SmallDisk(directory) as disk:
    disk.fill()         # from now on every write there fails with ENOSPC
    disk.make_room()

Needs root.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType


def why_not() -> str | None:
    return None if os.geteuid() == 0 else "needs root, to mount a small disk"


class SmallDisk:
    def __init__(self, directory: Path, *, megabytes: int = 512) -> None:
        self.directory = directory
        self._megabytes = megabytes
        self._ballast = directory / "ballast"

    def __enter__(self) -> SmallDisk:
        self.directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={self._megabytes}m", "tmpfs", str(self.directory)], check=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self.directory)], check=True)

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            piece = bytes(1 << 20)
            while piece:
                try:
                    file.write(piece)
                except OSError:
                    piece = piece[: len(piece) // 2]

    def make_room(self) -> None:
        self._ballast.unlink()
