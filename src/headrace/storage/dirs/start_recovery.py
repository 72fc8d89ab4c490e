"""Opens the logs of all directories when a broker starts, in threads, and continues interrupted moves between them.

A log that cannot be opened takes its directory offline; a future log that cannot be opened stays on the disk. Two logs
of one partition come from a move (`future_logs`), or a person must decide: then the start is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault, StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.contents import deleted_in, logs_in, outdated_cuts_in
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

    def run(self, threads_per_directory: int, now_ms: int, on_progress: OnProgress | None) -> None:
        """Raises StorageFault if two directories have a partition and no move explains it."""
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
                self.deletions.put([*deleted_in(directory.path), *outdated_cuts_in(directory, now_ms)], now_ms)
                others: list[Path] = []
                for path, partition in logs_in(directory.path, others):
                    jobs.append((directory, partition, path, marks.get(partition, PartitionCheckpoints())))
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
                on_progress=on_progress,
                on_damage=self.damages.append,
            )
        except (OSError, Fault) as error:
            reason = f"{error.strerror} on {error.filename or path}" if isinstance(error, OSError) else str(error)
            if path.name.endswith(FUTURE_DIR_SUFFIX):  # its replica serves from another directory
                logger.warning("%s is left alone: %s", path, reason)
                return None
            self.take_offline(directory, reason)
            return None

    def _settle_double(self, log: Log, home: LogDir, now_ms: int) -> None:
        """Two directories have the partition. Completes or repeats an interrupted move; otherwise raises."""
        key = log.name
        other, others_home = self.logs[key], self.logs.home(key)
        if came_from(log, others_home):
            (old, source), (new, target) = (other, others_home), (log, home)
        else:
            (old, source), (new, target) = (log, home), (other, others_home)
        if not came_from(new, source) or not (is_prefix(old, new) or is_prefix(new, old)):
            both = " and in ".join(
                f"{one.directory} (offsets {one.log_start_offset} to {one.log_end_offset - 1})" for one in (other, log)
            )
            raise StorageFault(f"{key} is in {both}: keep one of them, and move the other out of the log directories")
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

    def _resume_moves(self, copies: list[FutureLog], now_ms: int) -> None:
        for log in self.logs:
            home = self.logs.home(log.name)
            if any(d.is_online and d is not home and came_from(log, d) for d in self.directories):
                remove_note(log)
        for copy in copies:
            key = copy.log.name
            is_known = key in self.logs
            self.futures.resume(copy, self.logs.get(key), self.logs.home(key) if is_known else None, now_ms)
