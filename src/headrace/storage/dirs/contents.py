"""What a starting broker finds in a log directory: logs to open, deletions to finish, expired recovery cuts.

It leaves all other directories alone: strays, the log of a KRaft
controller, and directories of other programs, even with the name of a partition (`backup-2026`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.kernel.ids import CLUSTER_METADATA_TOPIC, TopicPartition
from headrace.storage.dirs.checkpoints import PARTITION_METADATA_FILE
from headrace.storage.dirs.incomplete_logs import MARK_FILE
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.strays import CUTS_KEPT_MS, StrayKind, strays_in
from headrace.storage.files import (
    DELETED_DIR_SUFFIX,
    LOG_SUFFIX,
    draft_of,
    partition_of_directory,
    partition_of_marked_directory,
)

logger = logging.getLogger(__name__)

_FIRST_FILES: Final = frozenset(
    file for name in (PARTITION_METADATA_FILE, MARK_FILE) for file in (name, draft_of(Path(name)).name)
)


def logs_in(log_dir: Path, others: list[Path] | None = None) -> Iterator[tuple[Path, TopicPartition]]:
    """The logs in `log_dir`. Adds to `others` the directories that have the name of a partition and are no logs."""
    for path in sorted(log_dir.iterdir()):
        partition = partition_of_directory(path.name)
        if partition is None or partition.topic == CLUSTER_METADATA_TOPIC or not path.is_dir():
            continue
        if may_be_log(path):
            yield path, partition
        elif others is not None:
            others.append(path)


def may_be_log(path: Path) -> bool:
    """Whether `path` may be a log. A crash during the creation of a log leaves an empty directory, or one with the
    topic id, the mark of an incomplete log, or a draft of them."""
    is_empty = True
    with os.scandir(path) as entries:
        for entry in entries:
            is_empty = False
            if entry.name.endswith(LOG_SUFFIX) or entry.name in _FIRST_FILES:
                return True
    return is_empty


def is_begun(path: Path) -> bool:
    """Whether the creation of the log got so far that a start opens it. Before that, the log is missing, or it is new
    and has no record. It is created again with the same directory."""
    with os.scandir(path) as entries:
        return any(
            entry.name.endswith(LOG_SUFFIX) or entry.name in (PARTITION_METADATA_FILE, MARK_FILE) for entry in entries
        )


def deleted_in(log_dir: Path) -> Iterator[tuple[Path, TopicPartition]]:
    """Directories of logs that were deleted before the last stop; their names end in the suffix of deleted logs."""
    for path in sorted(log_dir.iterdir()):
        partition = partition_of_marked_directory(path.name, DELETED_DIR_SUFFIX)
        if partition is not None and path.is_dir():
            yield path, partition


def outdated_cuts_in(directory: LogDir, now_ms: int) -> list[Path]:
    """Strays of the kind `cut` that may be removed: the broker keeps them for a week and until the next clean start."""
    found = []
    for stray in strays_in(directory.path) if directory.was_clean else ():
        is_cut = stray.note is not None and stray.note.kind is StrayKind.CUT
        if is_cut and stray.note is not None and now_ms - stray.note.set_aside_ms >= CUTS_KEPT_MS:
            logger.info("removing %s: recovery cut it from its log more than a week ago", stray.path)
            found.append(stray.path)
    return found
