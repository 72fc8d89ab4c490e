"""Detects log directories inside of log directories, which are not allowed.

A broker treats `broker-1` in its log directory as partition 1 of a topic `broker`. If that is the log directory of
another broker, the two brokers write into each other's files, and the deletion of a topic deletes the other's logs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.storage.dirs.checkpoints import META_PROPERTIES_FILE


def is_log_directory(path: Path) -> bool:
    """Whether a broker has used `path` as a log directory."""
    return (path / META_PROPERTIES_FILE).exists()


def log_directory_around(path: Path) -> Path | None:
    """The nearest directory above `path` that is a log directory."""
    return next((parent for parent in path.absolute().parents if is_log_directory(parent)), None)


def log_directories_in(path: Path, levels: int) -> Iterator[Path]:
    """The log directories up to `levels` below `path`. Does not search inside a log directory."""
    if levels == 0 or not path.is_dir():
        return
    with os.scandir(path) as entries:
        below = sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    for child in below:
        if is_log_directory(child):
            yield child
        else:
            yield from log_directories_in(child, levels - 1)
