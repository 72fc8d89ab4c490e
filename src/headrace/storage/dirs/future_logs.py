"""Future logs: copies of replicas that move to another log directory of this broker, as Kafka makes them.

A move has these steps. Between any two of them the process may be killed.

    1  make      <target>/orders-0.<32 hex digits>-future, with a note that names the source directory
    2  copy      batches from the current log, until the future log has all of them
    3  prepare   epochs, producers and checkpoints in the target; a flush
    4  rename    the future log to <target>/orders-0: from now on it is the log
    5  rename    the old log to <source>/orders-0.<32 hex digits>-delete
    6  remove    the note

A start before step 4 finds the current log, and the move continues. Between the steps 4 and 5 it finds two logs of one
partition. The note proves that they come from a move. No record was appended between the two steps, so the old log is a
prefix of the new one, and the start completes the move. If the new disk was missing at some start, the old log may have
grown: then the copy becomes a future log again. If neither log is a prefix of the other, a person must decide.

Kafka has no note: after a crash between the steps 4 and 5 it refuses to start. It ignores the file.

The event loop owns the future logs; a move appends to its own one in a thread.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.new_log_files import make_directory
from headrace.storage.files import (
    DELETED_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    marked_directory_name,
    partition_of_marked_directory,
    sync_directory,
    write_small_file,
)
from headrace.storage.log import Log
from headrace.storage.recovery.recovery import PartitionCheckpoints, open_log

logger = logging.getLogger(__name__)

NOTE_FILE: Final = "move-source"
LONGEST_FILE_NAME: Final = 255


# Directory, partition, path and checkpoints of a log that a start has found.
FoundLog = tuple[LogDir, TopicPartition, Path, PartitionCheckpoints]


class FutureLog(NamedTuple):
    log: Log
    home: LogDir


class FutureLogs:
    """The future logs of a broker by partition. `LogDirs` makes one the log of its partition."""

    def __init__(self, deletions: DelayedDeletions, failed: Callable[[LogDir, OSError], None]) -> None:
        self._deletions = deletions
        self._failed = failed
        self._found: dict[TopicPartition, FutureLog] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __getitem__(self, key: TopicPartition) -> FutureLog:
        return self._found[key]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(tuple(self._found))

    def get(self, key: TopicPartition) -> FutureLog | None:
        return self._found.get(key)

    def add(self, future: FutureLog) -> None:
        self._found[future.log.name] = future

    def installed(self, key: TopicPartition) -> None:
        del self._found[key]

    def clear(self) -> None:
        self._found.clear()

    def logs_in(self, directory: LogDir) -> list[Log]:
        return [log for log, home in self._found.values() if home is directory]

    def begin(self, current: Log, source: LogDir, target: LogDir, now_ms: int) -> FutureLog:
        """Step 1. Raises OSError and StorageFault."""
        key = current.name
        assert target is not source and key not in self._found
        path = target.path / marked_directory_name(key, FUTURE_DIR_SUFFIX)
        make_directory(path, current.topic_id)
        write_note(path, source)
        log = open_log(
            path,
            key,
            current.config,
            clean=False,
            now_ms=now_ms,
            deletions=self._deletions,
            on_disk_fault=partial(self._failed, target),
            before_cut=partial(target.lower_checkpoints, key),
        )
        if current.log_start_offset:
            log.truncate_fully_and_start_at(current.log_start_offset, now_ms=now_ms)
        future = self._found[key] = FutureLog(log, target)
        return future

    def cancel(self, key: TopicPartition, now_ms: int) -> bool:
        """Removes the future log of the partition. The replica stays where it is."""
        future = self._found.pop(key, None)
        if future is None:
            return False
        self._retire(future, now_ms)
        return True

    def _retire(self, future: FutureLog, now_ms: int) -> None:
        log, home = future
        if home.is_online:
            try:
                self._deletions.put([retire(log)], now_ms + log.config.file_delete_delay_ms)
            except OSError as error:
                self._failed(home, error)

    @staticmethod
    def with_source(copies: list[FoundLog], logs: list[tuple[LogDir, TopicPartition]]) -> list[FoundLog]:
        """The copies on the disk whose log is in another directory. A start does not open the others."""
        found = []
        for copy in copies:
            if any(partition == copy[1] and home is not copy[0] for home, partition in logs):
                found.append(copy)
            else:
                logger.warning("%s is left alone: the replica that it copies is in no other online directory", copy[2])
        return found

    def resume(self, copy: FutureLog, current: Log | None, source: LogDir | None, now_ms: int) -> None:
        """Takes a future log that a start has found. If it cannot continue, it stays on the disk, for a start that
        finds its source again; a copy without records is deleted."""
        log, target = copy
        reason = None
        if current is None or source is target or log.name in self._found:
            reason = "the replica that it copies is in no other online directory"
        elif log.topic_id != current.topic_id:
            reason = "it copies an older topic of that name"
        if reason is not None and log.log_end_offset == log.log_start_offset:
            self._retire(copy, now_ms)
            return
        if reason is not None:
            logger.warning("%s is left alone: %s", log.directory, reason)
            log.close(clean=False)
            return
        logger.info("the move of %s to %s continues at offset %d", log.name, target.path, log.log_end_offset)
        self._found[log.name] = copy


def has_long_name(partition: TopicPartition) -> bool:
    """Whether the name of a future log would be too long for a file system. Kafka shortens only names that it never
    reads again."""
    return len(f"{partition}.{uuid.UUID(int=0).hex}{FUTURE_DIR_SUFFIX}") > LONGEST_FILE_NAME


def futures_in(log_dir: Path) -> Iterator[tuple[Path, TopicPartition]]:
    for path in sorted(log_dir.iterdir()):
        partition = partition_of_marked_directory(path.name, FUTURE_DIR_SUFFIX)
        if partition is not None and path.is_dir():
            yield path, partition


def write_note(directory: Path, source: LogDir) -> None:
    assert source.identity is not None and source.identity.directory_id is not None, "an open log directory has an id"
    write_small_file(directory / NOTE_FILE, f"{source.identity.directory_id}\n".encode())


def came_from(log: Log, source: LogDir) -> bool:
    """Whether a move wrote this log from the directory `source`, and its last step is missing."""
    if source.identity is None or source.identity.directory_id is None:
        return False
    try:
        return (log.directory / NOTE_FILE).read_text().strip() == str(source.identity.directory_id)
    except (OSError, UnicodeDecodeError):
        return False


def remove_note(log: Log) -> None:
    # If this fails, the next start removes it.
    with contextlib.suppress(OSError):
        (log.directory / NOTE_FILE).unlink(missing_ok=True)


def is_prefix(log: Log, whole: Log) -> bool:
    """Whether `whole` has every record of `log`. Two logs that have the same epoch at an offset have the same records
    up to there."""
    end = log.log_end_offset
    if end <= whole.log_start_offset or end == log.log_start_offset <= whole.log_end_offset:
        return True
    return end <= whole.log_end_offset and log.leader_epochs.epoch_of(end - 1) == whole.leader_epochs.epoch_of(end - 1)


def install(future: Log, current: Log, home: LogDir) -> None:
    """The steps 3 and 4. Raises OSError and StorageFault; before the rename nothing has changed for readers."""
    future.prepare_to_replace(current)
    place = home.path / str(current.name)
    future.directory.rename(place)
    sync_directory(home.path)
    future.replace(current, place)


def demote(log: Log) -> None:
    """The copy becomes a future log again."""
    place = log.directory.with_name(marked_directory_name(log.name, FUTURE_DIR_SUFFIX))
    log.directory.rename(place)
    sync_directory(place.parent)
    log.move_to(place)


def retire(log: Log) -> Path:
    """Closes a log and renames its directory for deletion."""
    log.mark_deleted()
    log.close(clean=False)
    renamed = log.directory.with_name(marked_directory_name(log.name, DELETED_DIR_SUFFIX))
    log.directory.rename(renamed)
    sync_directory(renamed.parent)
    return renamed
