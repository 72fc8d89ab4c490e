"""All logs of a broker over its log directories.

Opens the directories (lock, identity, clean-shutdown file), recovers their logs in threads, creates new logs in the
directory with the fewest, and keeps serving the other directories when one fails. The timers of Kafka's LogManager
(flush, checkpoints, retention, expiry of producers, delayed deletion) are methods here; the broker calls them.

The event loop owns it. `flush_due` and `close` do disk work that may run in a thread.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from headrace.config import BrokerConfig
from headrace.config.broker_config import ALL_LOG_DIRS
from headrace.kernel.errors import Fault, StorageFault
from headrace.kernel.ids import TopicPartition, uuid_to_text
from headrace.storage.close import close_logs
from headrace.storage.dirs.contents import deleted_in, logs_in, may_be_log, outdated_cuts_in
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.dirs.identity import StoreOwner
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.new_log_files import make_directory
from headrace.storage.dirs.report import DirectoryReport
from headrace.storage.dirs.strays import Stray, set_aside, strays_in
from headrace.storage.dirs.unopened_log import owner_of
from headrace.storage.files import DELETED_DIR_SUFFIX, is_no_space, marked_directory_name
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import Damage, PartitionCheckpoints, Progress, open_log
from headrace.storage.settings import StorageSettings

logger = logging.getLogger(__name__)

__all__ = ["DirectoryReport", "LogDirs", "StorageSettings"]


class LogDirs:
    def __init__(
        self,
        settings: StorageSettings,
        config_of: Callable[[str], LogConfig],
        directories: Sequence[LogDir] | None = None,
        lazy_logs: LazyLogs | None = None,
        cordoned: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """With `lazy_logs` new logs begin in memory, and the caller creates their files later. `cordoned` gives the
        present `cordoned.log.dirs`."""
        self.settings = settings
        self.directories = list(directories or map(LogDir, settings.directories))
        self.deletions = DelayedDeletions()
        self.lazy_logs = lazy_logs
        self.damages: list[Damage] = []
        self._config_of = config_of
        self._cordoned = cordoned
        self._logs: dict[TopicPartition, Log] = {}
        self._home: dict[TopicPartition, LogDir] = {}
        self._on_offline: list[Callable[[LogDir], None]] = []
        self.when_deleted: list[Callable[[TopicPartition, LogDir], None]] = []

    @classmethod
    def open(
        cls,
        config: StorageSettings | BrokerConfig,
        *,
        config_of: Callable[[str], LogConfig] = lambda topic: LogConfig(),
        directories: Sequence[LogDir] | None = None,
        lazy_logs: LazyLogs | None = None,
        cordoned: Callable[[], Sequence[str]] = lambda: (),
        cluster_id: str | None = None,
        home: StoreOwner | None = None,
        now_ms: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> LogDirs:
        """Locks, identifies and recovers every directory. A directory that cannot be used goes offline. Raises if none
        is left.

        Always raises for a directory that is in use or belongs to another cluster or broker, which is a configuration
        error. `directories`: the directories of `config`, if the caller has claimed them already.
        """
        settings = config if isinstance(config, StorageSettings) else StorageSettings.from_broker_config(config)
        dirs = cls(settings, config_of, directories, lazy_logs, cordoned)
        try:
            # Check all directories before the first write to any.
            for directory in dirs.directories:
                directory.check_owner(settings.node_id, cluster_id)
            for directory in dirs.directories:
                directory.take_over(settings.node_id, cluster_id, home)
            if not any(directory.is_online for directory in dirs.directories):
                reasons = "; ".join(f"{d.path}: {d.offline_reason}" for d in dirs.directories)
                raise StorageFault(f"no log directory can be used ({reasons})")
            dirs._recover_all(now_ms, on_progress)
        except BaseException:  # after any error the directories must not stay locked
            for directory in dirs.directories:
                directory.unlock()
            raise
        return dirs

    def _recover_all(self, now_ms: int, on_progress: Callable[[Progress], None] | None) -> None:
        jobs: list[tuple[LogDir, TopicPartition, Path, PartitionCheckpoints]] = []
        for directory in self.directories:
            if directory.is_online:
                marks = directory.marks()
                self.deletions.put([*deleted_in(directory.path), *outdated_cuts_in(directory, now_ms)], now_ms)
                others: list[Path] = []
                for path, partition in logs_in(directory.path, others):
                    jobs.append((directory, partition, path, marks.get(partition, PartitionCheckpoints())))
                for path in others:
                    logger.warning("%s is left alone: its name is that of a partition, but it holds no log", path)
        threads = max(1, self.settings.threads_per_directory * len(self.directories))
        with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
            tell = None if on_progress is None else lambda step: on_progress(replace(step, logs=len(jobs)))
            opened = list(pool.map(lambda job: self._recover(*job, now_ms=now_ms, on_progress=tell), jobs))
        for (directory, partition, path, _), log in zip(jobs, opened, strict=True):
            if log is None:
                continue
            if partition in self._logs:
                raise StorageFault(
                    f"{partition} is in {self._logs[partition].directory} and in {path}: remove one of them"
                )
            self._add(partition, log, directory)

    def _recover(
        self,
        directory: LogDir,
        partition: TopicPartition,
        path: Path,
        marks: PartitionCheckpoints,
        *,
        now_ms: int,
        on_progress: Callable[[Progress], None] | None,
    ) -> Log | None:
        try:
            return open_log(
                path,
                partition,
                self._config_of(partition.topic),
                clean=directory.was_clean,
                marks=marks,
                now_ms=now_ms,
                deletions=self.deletions,
                on_disk_fault=lambda error: self._failed(directory, error),
                on_progress=on_progress,
                on_damage=self.damages.append,
            )
        except (OSError, Fault) as error:
            reason = f"{error.strerror} on {error.filename or path}" if isinstance(error, OSError) else str(error)
            self.take_offline(directory, reason)
            return None

    # --- logs ----------------------------------------------------------------------------------------------------

    def log(self, topic: str, partition: int) -> Log | None:
        return self._logs.get(TopicPartition(topic, partition))

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None = None,
        config: LogConfig | None = None,
        *,
        now_ms: int = 0,
        directory: Path | None = None,
    ) -> Log:
        """The existing log of the partition, or a new one in the online directory with the fewest logs, if possible one
        that is not cordoned."""
        key = TopicPartition(topic, partition)
        config = self._config_of(topic) if config is None else config
        existing = self._logs.get(key)
        if existing is not None:
            existing.update_config(config)
            if topic_id is not None and existing.topic_id is None:
                existing.assign_topic_id(topic_id)
            return existing
        home = self._choose(directory)
        if home.still_marks(key):
            # After a crash the checkpoints of a deleted log of that name must not apply to the new one.
            self._checkpoint(home)
        path = home.path / str(key)
        self._check_owner(path, key, topic_id, now_ms)
        if self.lazy_logs is not None and not path.exists():
            log = self.lazy_logs.log(
                path,
                key,
                config,
                topic_id,
                now_ms=now_ms,
                deletions=self.deletions,
                on_disk_fault=partial(self._failed, home),
            )
            self._add(key, log, home)
            return log
        try:
            make_directory(path, topic_id)
            log = open_log(
                path,
                key,
                config,
                clean=False,
                now_ms=now_ms,
                deletions=self.deletions,
                on_disk_fault=lambda error: self._failed(home, error),
            )
        except OSError as error:
            raise self._fault(f"cannot create {key} in {home.path}", home, error) from error
        self._add(key, log, home)
        return log

    def _check_owner(self, path: Path, key: TopicPartition, topic_id: uuid.UUID | None, now_ms: int) -> None:
        """Refuses an existing directory with the log of another topic, which appeared while the broker ran. Also
        refuses a directory that is no log: the deletion of the topic would delete it."""
        if topic_id is None or not path.exists():
            return
        if not may_be_log(path):
            raise StorageFault(f"cannot create {key}: {path} holds other files than a log, move it elsewhere")
        owner = owner_of(path)
        if owner not in (None, topic_id):
            set_aside(path, key, f"another topic of that name was created (id {uuid_to_text(topic_id)})", now_ms=now_ms)

    def _fault(self, what: str, home: LogDir, error: OSError) -> StorageFault:
        if not is_no_space(error):
            self._failed(home, error)
        return StorageFault(f"{what}: {error.strerror}")

    def _choose(self, wanted: Path | None) -> LogDir:
        online = [directory for directory in self.directories if directory.is_online]
        if wanted is not None:
            online = [directory for directory in online if directory.path == wanted]
        if not online:
            raise StorageFault(f"no online log directory{'' if wanted is None else f' {wanted}'} to create a log in")
        # The controller may have placed the partition here just before all directories were cordoned.
        online = [directory for directory in online if not self.is_cordoned(directory)] or online
        if len(online) == 1:
            return online[0]
        # By identity: hashing paths would make the creation of a large topic take seconds.
        counts = Counter(map(id, self._home.values()))
        return min(online, key=lambda directory: counts[id(directory)])

    def _add(self, key: TopicPartition, log: Log, home: LogDir) -> None:
        self._logs[key] = log
        self._home[key] = home

    def delete(self, topic: str, partition: int, *, now_ms: int = 0) -> bool:
        """Removes the log at once. Its files are deleted after file.delete.delay.ms."""
        key = TopicPartition(topic, partition)
        log = self._logs.get(key)
        if log is None:
            return False
        log.mark_deleted()
        home = self._close_and_remove(key)
        if not log.segments.has_files:
            return True
        renamed = log.directory.with_name(marked_directory_name(key, DELETED_DIR_SUFFIX))
        try:
            log.directory.rename(renamed)
        except OSError as error:
            raise self._fault(f"cannot delete {key} from {home.path}", home, error) from error
        self.deletions.put([renamed], now_ms + log.config.file_delete_delay_ms)
        return True

    def set_aside(self, topic: str, partition: int, reason: str, *, now_ms: int = 0) -> Path | None:
        """Removes the log at once. Its files stay on the disk as a stray; returns the stray's path.

        A log that never had a record is deleted instead.
        """
        key = TopicPartition(topic, partition)
        log = self._logs[key]
        if log.log_end_offset == 0:
            self.delete(topic, partition, now_ms=now_ms)
            return None
        home = self._close_and_remove(key)
        try:
            offsets = log.log_start_offset, log.log_end_offset
            return set_aside(log.directory, key, reason, offsets=offsets, now_ms=now_ms)
        except OSError as error:
            raise self._fault(f"cannot set {key} aside in {home.path}", home, error) from error

    def _close_and_remove(self, key: TopicPartition) -> LogDir:
        """Closes the log, cleanly unless it will be deleted. After that, a thread that still uses the log does not
        report its missing files as a disk failure.
        """
        log, home = self._logs.pop(key), self._home.pop(key)
        try:
            log.close(clean=not log.is_deleted)
        finally:
            log.mark_deleted()
            for forget in self.when_deleted:
                forget(key, home)
        return home

    # --- timers of the broker ------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        for directory in self.directories:
            if directory.is_online:
                self._checkpoint(directory)

    def _checkpoint(self, directory: LogDir) -> None:
        try:
            directory.checkpoint(self._logs_in(directory))
        except StorageFault as fault:
            self.take_offline(directory, fault.message)

    def flush_due(self, now_ms: int) -> None:
        """Flushes the logs that are due by flush.messages or flush.ms, and rolled segments. May run in a thread."""
        for log in self.logs():
            # A failed flush has already taken the directory offline. Continue with the other logs.
            with contextlib.suppress(StorageFault):
                log.flush_if_due(now_ms)

    def delete_old_segments(self, now_ms: int) -> int:
        """Applies retention to every log. Returns the number of deleted segments. Compacted topics lose only segments
        below the log start.
        """
        return sum(self.retention(now_ms))

    def retention(self, now_ms: int) -> Iterator[int]:
        """Like `delete_old_segments`, one log per step, so that the caller can do other work in between."""
        for log in self.logs():
            count = 0
            if log.offline_reason is None:
                with contextlib.suppress(StorageFault):
                    count = log.delete_old_segments(now_ms).count
            yield count

    def expire_producers(self, now_ms: int, idle_ms: int) -> int:
        """Removes producers that have been idle for `idle_ms`. Returns their number."""
        return sum(log.producers.expire(now_ms, idle_ms) for log in self.logs())

    def purge_deletions(self, now_ms: int) -> int:
        return self.deletions.purge(now_ms)

    # --- directories ---------------------------------------------------------------------------------------------

    def on_offline(self, callback: Callable[[LogDir], None]) -> None:
        self._on_offline.append(callback)

    def take_offline(self, directory: LogDir, reason: str) -> None:
        if not directory.is_online:
            return
        directory.take_offline(reason)
        for log in self._logs_in(directory):
            log.take_offline(reason)
        for callback in self._on_offline:
            callback(directory)

    def _failed(self, directory: LogDir, error: OSError) -> None:
        self.take_offline(directory, f"{error.strerror} on {error.filename or directory.path}")

    def _logs_in(self, directory: LogDir) -> list[Log]:
        return [log for key, log in self._logs.items() if self._home[key] is directory]

    def directory_of(self, log: Log) -> LogDir:
        return self._home[TopicPartition(log.topic, log.partition)]

    def strays(self) -> list[Stray]:
        """The strays in the online directories."""
        return [stray for directory in self.directories if directory.is_online for stray in strays_in(directory.path)]

    @property
    def offline(self) -> list[LogDir]:
        return [directory for directory in self.directories if not directory.is_online]

    @property
    def all_clean(self) -> bool:
        """Whether every directory was closed cleanly. If not, the broker may have lost records and must not register as
        an unchanged one.
        """
        return all(directory.was_clean for directory in self.directories)

    def is_cordoned(self, directory: LogDir) -> bool:
        """Whether the directory gets no new logs."""
        names = self._cordoned()
        return ALL_LOG_DIRS in names or any(Path(name).absolute() == directory.path.absolute() for name in names)

    def describe(self) -> list[DirectoryReport]:
        return [
            DirectoryReport.of(directory, self._logs_in(directory), is_cordoned=self.is_cordoned(directory))
            for directory in self.directories
        ]

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """With `clean`, seals and syncs all logs and writes the checkpoints and the clean-shutdown file. Otherwise only
        closes files.
        """
        for directory in self.directories:
            logs = self._logs_in(directory)
            for fault in close_logs(logs, clean=clean):
                self.take_offline(directory, fault.message)
            if clean and directory.is_online:
                self._mark_clean_shutdown(directory, logs, broker_epoch)
            directory.unlock()
        self._logs.clear()

    def _mark_clean_shutdown(self, directory: LogDir, logs: list[Log], broker_epoch: int) -> None:
        """Writes the clean-shutdown file of one directory. If that fails, the next start checks only this directory."""
        try:
            directory.checkpoint(logs)
            directory.leave_clean_mark(broker_epoch)
        except StorageFault as fault:
            self.take_offline(directory, fault.message)
        except OSError as error:
            if not is_no_space(error):
                self._failed(directory, error)
