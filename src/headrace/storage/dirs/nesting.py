"""Detects log directories inside of log directories, which are not allowed.

A broker treats `broker-1` in its log directory as partition 1 of a topic `broker`. If that is the log directory of
another broker, the two brokers write into each other's files, and the deletion of a topic deletes the other's logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.storage.dirs.checkpoints import META_PROPERTIES_FILE, PARTITION_METADATA_FILE


def is_log_directory(path: Path) -> bool:
    """Whether a broker has used `path` as a log directory."""
    return (path / META_PROPERTIES_FILE).exists()


def has_logs(path: Path) -> bool:
    """The same, also if the directory has lost the file with its owner. Looks into every directory in it."""
    return is_log_directory(path) or any(path.glob(f"*/{PARTITION_METADATA_FILE}"))


def log_directory_around(path: Path, is_one: Callable[[Path], bool] = is_log_directory) -> Path | None:
    """The nearest directory above `path` that is a log directory."""
    return next((parent for parent in path.absolute().parents if is_one(parent)), None)


def log_directories_in(path: Path, levels: int, is_one: Callable[[Path], bool] = is_log_directory) -> Iterator[Path]:
    """The log directories up to `levels` below `path`. Does not search inside a log directory."""
    if levels == 0 or not path.is_dir():
        return
    with os.scandir(path) as entries:
        below = sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    for child in below:
        if is_one(child):
            yield child
        else:
            yield from log_directories_in(child, levels - 1, is_one)
