"""A directory on a disk (a file with its own file system) that becomes read-only while in use, as after a disk error.

with FailingDisk(directory) as disk:
    disk.fail()         # from now on every write there fails with EROFS
    disk.replace()      # replaces it by an empty disk; no process may use the directory meanwhile

Needs root and loop devices.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "needs root, to mount a disk"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    return None if shutil.which("mkfs.ext4") else "needs mkfs.ext4"


class FailingDisk:
    def __init__(self, directory: Path, *, megabytes: int = 256) -> None:
        self.directory = directory
        self._image = directory.parent / f"{directory.name}.disk"
        self._megabytes = megabytes

    def __enter__(self) -> FailingDisk:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._mount()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unmount()
        self._image.unlink()

    def fail(self) -> None:
        subprocess.run(["mount", "-o", "remount,abort", str(self.directory)], check=True)

    def replace(self) -> None:
        self._unmount()
        self._mount()

    def repair(self) -> None:
        """The same disk, checked and writable again."""
        self._unmount()
        subprocess.run(["e2fsck", "-fy", str(self._image)], capture_output=True, check=False)
        self._mount(new=False)

    def _mount(self, *, new: bool = True) -> None:
        if new:
            with self._image.open("wb") as file:
                file.truncate(self._megabytes << 20)
            subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(self._image), str(self.directory)], check=True)

    def _unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.directory)], check=True)
