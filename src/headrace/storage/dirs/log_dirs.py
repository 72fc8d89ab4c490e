"""All logs of a broker over its log directories.

Opens the directories (lock, identity, clean-shutdown file), recovers their logs in threads, creates new logs in the
directory with the fewest, and keeps serving the other directories when one fails. The timers of Kafka's LogManager
(flush, checkpoints, retention, expiry of producers, delayed deletion) are methods here; the broker calls them.

The event loop owns it. `flush_due` and `close` do disk work that may run in a thread.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from headrace.config import BrokerConfig
from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition, uuid_to_text
from headrace.storage.close import close_logs
from headrace.storage.dirs import incomplete_logs
from headrace.storage.dirs.contents import may_be_log
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.dirs.directory_choice import DirectoryChoice
from headrace.storage.dirs.future_logs import FutureLog, FutureLogs, install, remove_note, retire
from headrace.storage.dirs.identity import StoreOwner
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.log_table import LogTable
from headrace.storage.dirs.new_log_files import make_directory
from headrace.storage.dirs.report import DirectoryReport
from headrace.storage.dirs.start_recovery import StartRecovery
from headrace.storage.dirs.strays import Stray, set_aside, strays_in
from headrace.storage.dirs.unopened_log import owner_of
from headrace.storage.files import (
    DELETED_DIR_SUFFIX,
    is_no_space,
    marked_directory_name,
    no_space,
    tolerated_no_space,
)
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import Damage, Progress, open_log
from headrace.storage.settings import StorageSettings

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
        self._logs = LogTable()
        self.choice = DirectoryChoice(self.directories, self._logs, cordoned)
        self.futures = FutureLogs(self.deletions, self._failed)
        self._misses_directories = False
        self._on_offline: list[Callable[[LogDir], None]] = []
        self.when_deleted: list[Callable[[TopicPartition, LogDir], None]] = []
        # Called with the partition, the old and the new directory.
        self.when_moved: list[Callable[[TopicPartition, LogDir, LogDir], None]] = []

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
        topic_id_of: Callable[[str], uuid.UUID | None] = lambda topic: None,
    ) -> LogDirs:
        """Locks, identifies and recovers every directory. A directory that cannot be used goes offline. Raises if none
        is left. `topic_id_of`: the cluster's topic of that name.

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
            StartRecovery(
                dirs.directories,
                config_of,
                dirs._logs,
                dirs.futures,
                dirs.deletions,
                dirs.damages,
                dirs.take_offline,
                dirs._failed,
                topic_id_of,
            ).run(settings.threads_per_directory, now_ms, on_progress)
            # Recovery may have opened some logs of a directory before another log of it failed.
            for directory in dirs.offline:
                for log in dirs.logs_in(directory):
                    log.take_offline(directory.offline_reason or "")
        except BaseException:  # after any error the directories must not stay locked
            for directory in dirs.directories:
                directory.unlock()
            raise
        return dirs

    # Logs

    def log(self, topic: str, partition: int) -> Log | None:
        return self._logs.get(TopicPartition(topic, partition))

    def logs(self) -> list[Log]:
        return list(self._logs)

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None = None,
        config: LogConfig | None = None,
        *,
        why_incomplete: str | None = None,
        now_ms: int = 0,
    ) -> Log:
        """The existing log of the partition, or a new one in the directory that `choice` takes. With `why_incomplete`
        the log replaces a missing one and is marked (see `mark_incomplete`). Raises StorageFault."""
        key = TopicPartition(topic, partition)
        config = self._config_of(topic) if config is None else config
        existing = self._logs.get(key)
        if existing is not None:
            existing.update_config(config)
            if topic_id is not None and existing.topic_id is None:
                existing.assign_topic_id(topic_id)
            if why_incomplete is not None:
                self.mark_incomplete(existing, why_incomplete)
            return existing
        home = self.choice.take(key)
        self._remove_old_marks(key)
        path = home.path / str(key)
        self._check_owner(path, key, topic_id, now_ms)
        may_begin_in_memory = self._may_begin_in_memory and why_incomplete is None
        if self.lazy_logs is not None and may_begin_in_memory and not path.exists():
            if home.still_marks(key):
                home.note_outdated_marks(key)
            log = self.lazy_logs.log(
                path,
                key,
                config,
                topic_id,
                now_ms=now_ms,
                deletions=self.deletions,
                on_disk_fault=partial(self._failed, home),
                before_files=partial(self._replace_outdated_marks, home, key),
                before_cut=partial(home.lower_checkpoints, key),
            )
            self._logs.put(log, home)
            return log
        try:
            if home.still_marks(key):
                raise no_space(home.path)
            if why_incomplete is not None:
                # Before all other files: after a crash they would be those of a complete, empty log.
                incomplete_logs.mark(path, why_incomplete)
            make_directory(path, topic_id)
            log = open_log(
                path,
                key,
                config,
                clean=False,
                now_ms=now_ms,
                deletions=self.deletions,
                on_disk_fault=partial(self._failed, home),
                before_cut=partial(home.lower_checkpoints, key),
            )
        except OSError as error:
            raise self._fault(f"cannot create {key} in {home.path}", home, error) from error
        self._logs.put(log, home)
        return log

    @property
    def _may_begin_in_memory(self) -> bool:
        """After a crash, a log without files could be one in the directory that is missing."""
        return not self._misses_directories and not self.offline

    def _remove_old_marks(self, key: TopicPartition) -> None:
        """After a crash the checkpoints of a deleted log of that name must not apply to the new one. In another
        directory they would prove that the new log is missing there. On a full disk they stay."""
        for directory in self.directories:
            if directory.is_online and directory.still_marks(key):
                self._checkpoint(directory)

    def _replace_outdated_marks(self, home: LogDir, key: TopicPartition) -> None:
        """Before a new log gets its first record. Raises OSError if the disk is still full."""
        if home.has_outdated_marks(key):
            self._checkpoint(home)
            if home.has_outdated_marks(key):
                raise no_space(home.path)

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

    def delete(self, topic: str, partition: int, *, now_ms: int = 0) -> bool:
        """Removes the log at once. Its files are deleted after file.delete.delay.ms."""
        key = TopicPartition(topic, partition)
        log = self._logs.get(key)
        if log is None:
            return False
        self.futures.cancel(key, now_ms)
        log.mark_deleted()
        home = self._close_and_remove(key)
        if not log.segments.has_files and not log.directory.exists():
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
        self.futures.cancel(key, now_ms)
        home = self._close_and_remove(key)
        try:
            offsets = log.log_start_offset, log.log_end_offset
            return set_aside(log.directory, key, reason, offsets=offsets, now_ms=now_ms)
        except OSError as error:
            raise self._fault(f"cannot set {key} aside in {home.path}", home, error) from error

    def mark_incomplete(self, log: Log, reason: str) -> None:
        """Every later start knows that the log lacks records. Raises StorageFault."""
        try:
            incomplete_logs.mark(log.directory, reason)
        except OSError as error:
            raise self._fault(f"cannot mark {log.name} as incomplete", self._logs.home(log.name), error) from error

    def has_all_records(self, log: Log) -> None:
        incomplete_logs.remove_mark(log.directory)

    def _close_and_remove(self, key: TopicPartition) -> LogDir:
        """Closes the log, cleanly unless it will be deleted. After that, a thread that still uses the log does not
        report its missing files as a disk failure.
        """
        log, home = self._logs.pop(key)
        try:
            log.close(clean=not log.is_deleted)
        finally:
            log.mark_deleted()
            for forget in self.when_deleted:
                forget(key, home)
        return home

    # Moves between directories

    def begin_move(self, key: TopicPartition, target: LogDir, *, now_ms: int = 0) -> FutureLog:
        """Creates the future log of the partition in `target`. Raises StorageFault."""
        if target.still_marks(key):
            self._checkpoint(target)
        try:
            if target.still_marks(key):
                raise no_space(target.path)
            return self.futures.begin(self._logs[key], self._logs.home(key), target, now_ms)
        except OSError as error:
            raise self._fault(f"cannot move {key} to {target.path}", target, error) from error

    def finish_move(self, key: TopicPartition, *, now_ms: int = 0) -> Log:
        """The future log becomes the log of the partition. Both have the same records. Raises StorageFault; the replica
        then stays where it is."""
        current, source, (future, target) = self._logs[key], self._logs.home(key), self.futures[key]
        assert future.log_end_offset == current.log_end_offset, f"{future!r} is not a whole copy of {current!r}"
        assert future.log_start_offset == current.log_start_offset
        # A log that was emptied on a full disk has no segment on the disk, but a directory.
        had_directory = current.segments.has_files or current.directory.exists()
        try:
            install(future, current, target)
        except OSError as error:
            raise self._fault(f"cannot finish the move of {key} to {target.path}", target, error) from error
        self.futures.installed(key)
        self._logs.put(future, target)
        for tell in self.when_moved:
            tell(key, source, target)
        if not had_directory:
            current.mark_deleted()
        else:
            try:
                self.deletions.put([retire(current)], now_ms + current.config.file_delete_delay_ms)
            except OSError as error:
                # The next start completes the move, as after a crash.
                self._failed(source, error)
                return future
        remove_note(future)
        return future

    # Timers of the broker

    def checkpoint(self) -> None:
        for directory in self.directories:
            if directory.is_online:
                self._checkpoint(directory)

    def _checkpoint(self, directory: LogDir) -> None:
        try:
            directory.checkpoint(self.logs_in(directory))
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

    # Directories

    def on_offline(self, callback: Callable[[LogDir], None]) -> None:
        self._on_offline.append(callback)

    def take_offline(self, directory: LogDir, reason: str) -> None:
        if not directory.is_online:
            return
        directory.take_offline(reason)
        for log in self.logs_in(directory):
            log.take_offline(reason)
        for callback in self._on_offline:
            callback(directory)

    def _failed(self, directory: LogDir, error: OSError) -> None:
        self.take_offline(directory, f"{error.strerror} on {error.filename or directory.path}")

    def logs_in(self, directory: LogDir) -> list[Log]:
        """The logs in a directory, with the future logs."""
        return self._logs.in_directory(directory) + self.futures.logs_in(directory)

    def logs_on_failed_disks(self) -> list[Log]:
        """The replicas that this broker cannot serve. A log that is offline alone has its records, and so has the
        replica whose copy was to move to the failed disk."""
        return [log for directory in self.offline for log in self._logs.in_directory(directory)]

    def directory_of(self, log: Log) -> LogDir:
        return self._logs.home(log.name)

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

    def checkpointed_in(self, partition: TopicPartition) -> LogDir | None:
        """A directory whose checkpoints, as the start has read them, name records of the partition, and that has no log
        of this name. A log with the id of an older topic is the one that they name."""
        home = self._logs.home(partition) if partition in self._logs else None
        return next((one for one in self.directories if one is not home and one.had_records_at_start(partition)), None)

    def finish_start(self, directories: Sequence[tuple[str, str]], old_copies: Collection[LogDir] = ()) -> None:
        """After the broker has compared the logs with what it had, and before it registers. Writes the ids and paths of
        all directories of the broker, also of missing ones, into each one, if there are several. On a full disk the
        registration alone names them. `old_copies` stay known as such until `registered`: only the registration says
        which logs they lack."""
        named = tuple(directories) if len(directories) > 1 else ()
        for directory in self.directories:
            if directory.is_online:
                try:
                    # First: the registration will say that this start had the directory. If the mark stayed behind on a
                    # disk that fails now, a later start would take the directory for an old copy.
                    if directory not in old_copies:
                        directory.forget_taken_mark()
                    with tolerated_no_space():
                        directory.name_directories(named)
                except OSError as error:
                    self._failed(directory, error)
        # A full directory may still name one that this start has given up: the next start would miss it again.
        known = {key for key, _ in directories}.union(*(one.named for one in self.directories if one.is_online))
        self._misses_directories = not known <= {one.id_text for one in self.directories if one.is_online}

    def registered(self, old_copies: Collection[LogDir]) -> None:
        """The controller knows what the old copies lack."""
        for directory in old_copies:
            if directory.is_online:
                try:
                    directory.forget_taken_mark()
                except OSError as error:
                    self._failed(directory, error)

    def describe(self) -> list[DirectoryReport]:
        return [
            DirectoryReport.of(directory, self.logs_in(directory), is_cordoned=self.choice.is_cordoned(directory))
            for directory in self.directories
        ]

    def close(self, *, clean: bool = True, broker_epoch: int | None = None) -> None:
        """With `clean`, seals and syncs all logs and writes the checkpoints and the clean-shutdown file. Otherwise only
        closes files. `broker_epoch` None: the broker has not registered since the last stop.
        """
        for directory in self.directories:
            logs = self.logs_in(directory)
            for fault in close_logs(logs, clean=clean):
                self.take_offline(directory, fault.message)
            # The files of a log that is offline alone are as after a crash.
            if clean and directory.is_online and all(log.offline_reason is None for log in logs):
                self._mark_clean_shutdown(directory, logs, broker_epoch)
            directory.unlock()
        self._logs.clear()
        self.futures.clear()

    def _mark_clean_shutdown(self, directory: LogDir, logs: list[Log], broker_epoch: int | None) -> None:
        """Writes the clean-shutdown file of one directory. If that fails, the next start checks only this directory."""
        try:
            directory.checkpoint(logs)
            directory.leave_clean_mark(directory.previous_broker_epoch if broker_epoch is None else broker_epoch)
        except StorageFault as fault:
            self.take_offline(directory, fault.message)
        except OSError as error:
            if not is_no_space(error):
                self._failed(directory, error)
