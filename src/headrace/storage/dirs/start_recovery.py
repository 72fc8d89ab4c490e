"""Opens the logs of all directories when a broker starts, in threads, and continues interrupted moves between them.

A log that cannot be opened, for whatever reason, takes its directory offline; a future log that cannot be opened stays
on the disk.

Two directories may have a log of one partition: a move was interrupted (`future_logs`), or one directory was missing
for a time and the broker fetched the records again. Then the log that has more of the partition's history serves, and
the other one becomes a stray. If the logs do not tell which one that is, a person must decide: the start is refused.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault, StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.contents import deleted_in, is_begun, logs_in, outdated_cuts_in
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.dirs.future_logs import (
    FoundLog,
    FutureLog,
    FutureLogs,
    came_from,
    demote,
    futures_in,
    is_prefix,
    remove_note,
    retire,
)
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.log_table import LogTable
from headrace.storage.dirs.strays import set_aside
from headrace.storage.files import FUTURE_DIR_SUFFIX
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import Damage, PartitionCheckpoints, Progress, open_log

logger = logging.getLogger(__name__)

OnProgress = Callable[[Progress], None]


@dataclass(slots=True)
class StartRecovery:
    """Puts what it finds into `logs` and `futures`. `take_offline` gets a directory and the reason, `failed` the error
    of a later operation of a log."""

    directories: Sequence[LogDir]
    config_of: Callable[[str], LogConfig]
    logs: LogTable
    futures: FutureLogs
    deletions: DelayedDeletions
    damages: list[Damage]
    take_offline: Callable[[LogDir, str], None]
    failed: Callable[[LogDir, OSError], None]
    topic_id_of: Callable[[str], uuid.UUID | None]

    def run(self, threads_per_directory: int, now_ms: int, on_progress: OnProgress | None) -> None:
        """Raises StorageFault if two directories have a partition and a person must decide."""
        jobs = self._found(now_ms)
        threads = max(1, threads_per_directory * len(self.directories))
        with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
            tell = None if on_progress is None else lambda step: on_progress(replace(step, logs=len(jobs)))
            opened = list(pool.map(lambda job: self._open(*job, now_ms=now_ms, on_progress=tell), jobs))
        found = [(directory, log) for (directory, *_), log in zip(jobs, opened, strict=True) if log is not None]
        futures = [
            FutureLog(log, directory) for directory, log in found if log.directory.name.endswith(FUTURE_DIR_SUFFIX)
        ]
        for directory, log in found:
            if log.directory.name.endswith(FUTURE_DIR_SUFFIX):
                continue
            if log.name in self.logs:
                self._settle_double(log, directory, now_ms)
            else:
                self.logs.put(log, directory)
        self._resume_moves(futures, now_ms)

    def _found(self, now_ms: int) -> list[FoundLog]:
        """The logs and future logs on the disks."""
        jobs: list[FoundLog] = []
        copies: list[FoundLog] = []
        for directory in self.directories:
            if directory.is_online:
                marks = directory.marks()
                deleted = dict(deleted_in(directory.path))
                self.deletions.put([*deleted, *outdated_cuts_in(directory, now_ms)], now_ms)
                others: list[Path] = []
                logs = [(path, key) for path, key in logs_in(directory.path, others) if is_begun(path)]
                for path, partition in logs:
                    jobs.append((directory, partition, path, marks.get(partition, PartitionCheckpoints())))
                # On a full disk the checkpoints still name a log after its deletion.
                for partition in set(deleted.values()).difference(partition for _, partition in logs):
                    directory.forget_at_start(partition)
                copies += [
                    (directory, partition, path, marks.get(partition, PartitionCheckpoints()))
                    for path, partition in futures_in(directory.path)
                ]
                for path in others:
                    logger.warning("%s is left alone: its name is that of a partition, but it holds no log", path)
        return jobs + FutureLogs.with_source(copies, [(home, partition) for home, partition, *_ in jobs])

    def _open(
        self,
        directory: LogDir,
        partition: TopicPartition,
        path: Path,
        marks: PartitionCheckpoints,
        *,
        now_ms: int,
        on_progress: OnProgress | None,
    ) -> Log | None:
        try:
            return open_log(
                path,
                partition,
                self.config_of(partition.topic),
                clean=directory.was_clean,
                marks=marks,
                now_ms=now_ms,
                deletions=self.deletions,
                on_disk_fault=partial(self.failed, directory),
                before_cut=partial(directory.lower_checkpoints, partition),
                on_progress=on_progress,
                on_damage=self.damages.append,
            )
        except Exception as error:  # the boundary of a log: also a bug must not keep the other directories from serving
            reason = _why(error, path)
            if path.name.endswith(FUTURE_DIR_SUFFIX):  # its replica serves from another directory
                logger.warning("%s is left alone: %s", path, reason)
                return None
            self.take_offline(directory, reason)
            return None

    def _settle_double(self, log: Log, home: LogDir, now_ms: int) -> None:
        """Two directories have the partition. Completes or repeats an interrupted move; otherwise keeps one log and
        sets the other one aside. Raises StorageFault."""
        key = log.name
        other, others_home = self.logs[key], self.logs.home(key)
        if came_from(log, others_home):
            (old, source), (new, target) = (other, others_home), (log, home)
        else:
            (old, source), (new, target) = (log, home), (other, others_home)
        if not came_from(new, source) or not (is_prefix(old, new) or is_prefix(new, old)):
            self._keep_one((other, others_home), (log, home), now_ms)
            return
        try:
            if is_prefix(old, new):
                self.deletions.put([retire(old)], now_ms)
                self.logs.put(new, target)
            else:
                demote(new)
                self.logs.put(old, source)
                self.futures.add(FutureLog(new, target))
        except OSError as error:
            raise StorageFault(f"cannot complete the move of {key} to {target.path}: {error}") from error

    def _keep_one(self, first: tuple[Log, LogDir], second: tuple[Log, LogDir], now_ms: int) -> None:
        key = first[0].name
        owner = self.topic_id_of(key.topic)
        # Of two equal logs the one in the directory that was used last serves: the other directory may be an old copy.
        ways = sorted(((first, second), (second, first)), key=lambda way: way[0][1].closing_order, reverse=True)
        for (log, home), (other, _) in ways:
            reason = _why_to_keep(log, other, owner)
            if reason is None:
                continue
            offsets = other.log_start_offset, other.log_end_offset
            try:
                other.close(clean=False)
                place = set_aside(other.directory, key, reason, offsets=offsets, now_ms=now_ms)
            except OSError as error:
                raise StorageFault(
                    f"{key} is in two directories, and {other.directory} cannot be set aside: {error}"
                ) from error
            logger.error(
                "%s is in two directories: %s serves, and the other one is set aside as %s: %s",
                key,
                log.directory,
                place,
                reason,
            )
            self.logs.put(log, home)
            return
        both = " and in ".join(
            f"{one.directory} (offsets {one.log_start_offset} to {one.log_end_offset - 1})"
            for one, _ in (first, second)
        )
        raise StorageFault(f"{key} is in {both}: keep one of them, and move the other out of the log directories")

    def _resume_moves(self, copies: list[FutureLog], now_ms: int) -> None:
        for log in self.logs:
            home = self.logs.home(log.name)
            if any(d.is_online and d is not home and came_from(log, d) for d in self.directories):
                remove_note(log)
        for copy in copies:
            key = copy.log.name
            is_known = key in self.logs
            self.futures.resume(copy, self.logs.get(key), self.logs.home(key) if is_known else None, now_ms)


def _why_to_keep(log: Log, other: Log, owner: uuid.UUID | None) -> str | None:
    """Why `log` serves and `other`, a log of the same partition, does not. None if it should not."""
    if log.topic_id != other.topic_id:
        is_owner = log.topic_id == owner or other.topic_id != owner
        return "it belongs to another topic of that name" if is_owner else None
    if is_prefix(other, log) and other.leader_epochs.latest <= log.leader_epochs.latest:
        return f"{log.directory} has all of its records"
    if log.leader_epochs.latest > other.leader_epochs.latest:
        return f"{log.directory} has records of later leaders"
    return None


def _why(error: Exception, path: Path) -> str:
    """Why the log at `path` cannot be opened."""
    if isinstance(error, OSError):
        return f"{error.strerror} on {error.filename or path}"
    if isinstance(error, Fault):
        return str(error)
    logger.error("opening %s failed", path, exc_info=error)
    return f"opening {path} failed: {type(error).__name__}: {error}"
