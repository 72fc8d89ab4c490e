"""What a broker finds in a log directory when it starts: logs to open, deletions to finish, cuts that are out of date.

All other directories are left alone: strays, replicas on their way between directories (`-future`), the log of a KRaft
controller, and whatever a person put there, also under the name of a partition (`backup-2026`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from headrace.kernel.ids import CLUSTER_METADATA_TOPIC, TopicPartition
from headrace.storage.dirs.checkpoints import PARTITION_METADATA_FILE
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.strays import CUTS_KEPT_MS, StrayKind, strays_in
from headrace.storage.files import (
    DELETED_DIR_SUFFIX,
    LOG_SUFFIX,
    partition_of_directory,
    partition_of_marked_directory,
)

logger = logging.getLogger(__name__)


def logs_in(log_dir: Path, others: list[Path] | None = None) -> Iterator[tuple[Path, TopicPartition]]:
    """`others` is given the directories that have the name of a partition and are no logs."""
    for path in sorted(log_dir.iterdir()):
        partition = partition_of_directory(path.name)
        if partition is None or partition.topic == CLUSTER_METADATA_TOPIC or not path.is_dir():
            continue
        if may_be_log(path):
            yield path, partition
        elif others is not None:
            others.append(path)


def may_be_log(path: Path) -> bool:
    """An empty directory is what a crash leaves of a log that was being made."""
    is_empty = True
    with os.scandir(path) as entries:
        for entry in entries:
            is_empty = False
            if entry.name.endswith(LOG_SUFFIX) or entry.name == PARTITION_METADATA_FILE:
                return True
    return is_empty


def deleted_in(log_dir: Path) -> list[Path]:
    """Directories of logs that were deleted (they bear the mark of it) before the last stop."""
    named = (path for path in sorted(log_dir.iterdir()) if partition_of_marked_directory(path.name, DELETED_DIR_SUFFIX))
    return [path for path in named if path.is_dir()]


def outdated_cuts_in(directory: LogDir, now_ms: int) -> list[Path]:
    """What recovery cut is kept for a week, and then until the broker starts after a clean stop."""
    found = []
    for stray in strays_in(directory.path) if directory.was_clean else ():
        is_cut = stray.note is not None and stray.note.kind is StrayKind.CUT
        if is_cut and stray.note is not None and now_ms - stray.note.set_aside_ms >= CUTS_KEPT_MS:
            logger.info("removing %s: recovery cut it from its log more than a week ago", stray.path)
            found.append(stray.path)
    return found
