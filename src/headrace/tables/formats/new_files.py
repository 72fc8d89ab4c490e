"""Files of a table on a local disk. A file of its log appears whole under its name or not at all, and only once. Before
it appears, the data files that it names are on the disk."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path


def publish(file: Path, text: str) -> None:
    """Creates the file with its whole text, on the disk. Raises FileExistsError if there is one of this name: a hard
    link decides between two writers."""
    # Readers of Delta's log and of ours ignore names of this form.
    draft = file.parent / f"_commit_{uuid.uuid4()}.json.tmp"
    try:
        with draft.open("x", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        file.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
    _sync(file.parent)


def sync_files(root: Path, names: Iterable[str]) -> None:
    """Waits until data files below `root` are on the disk, and the directories that hold their names."""
    directories = {root}
    for name in names:
        file = root / name
        _sync(file)
        directories.update(folder for folder in file.parents if root in folder.parents)
    for folder in directories:
        _sync(folder)


def _sync(path: Path) -> None:
    """Waits until the content of a file or directory is on the disk, if it exists."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
