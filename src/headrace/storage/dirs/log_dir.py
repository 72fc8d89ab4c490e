"""One log directory: its lock, its identity, its checkpoints, and whether it is offline.

`.lock` is a POSIX record lock, as in Kafka, so that Kafka and Headrace refuse each other's directories. The file names
the holder, for the error message of the second process. `.kafka_cleanshutdown` exists only between a clean stop and the
next start: the broker removes it before it writes anything, so that it detects a crash right after the start.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition, uuid_to_text
from headrace.storage.dirs.checkpoints import (
    ABORTED_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    CorruptFile,
    KnownAborted,
    read_aborted,
    read_offsets,
    write_aborted,
    write_offsets,
)
from headrace.storage.dirs.clean_offsets import CleanOffsets
from headrace.storage.dirs.identity import Identity, StoreOwner, read_identity, write_identity
from headrace.storage.files import is_no_space, sync_directory, tolerated_no_space, write_small_file
from headrace.storage.log import Log
from headrace.storage.recovery.recovery import PartitionCheckpoints

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
# What a start that is not finished has found there. If the process is killed, the next start knows by it that the
# directory is an old copy.
_TAKEN_FILE: Final = ".headrace_cleanshutdown_taken"

# A process can take a record lock twice, so this set has the directories that this process holds.
_locked_by_this_process: set[Path] = set()


class DirectoryInUse(StorageFault):
    """Another process uses this log directory."""


class LogDir:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity: Identity | None = None
        self.clean_offsets = CleanOffsets(path)
        self.offline_reason: str | None = None
        self.was_clean = False
        self.previous_broker_epoch = -1
        # Whether it got its id at this start.
        self.is_new = False
        self._lock_fd = -1
        self._aborted: dict[TopicPartition, KnownAborted] | None = None
        # The partitions that are in the checkpoint files.
        self._marked: set[TopicPartition] = set()
        self._at_start: dict[TopicPartition, PartitionCheckpoints] = {}
        # What the file of recovery points contains.
        self._recovery_points: dict[TopicPartition, int] = {}
        # New logs whose entries in the files are those of deleted logs, because the disk was full.
        self._outdated: set[TopicPartition] = set()
        # The event loop must write the files before a new topic reuses a name; the timer's thread may be writing them.
        self._checkpointing = threading.Lock()

    @property
    def is_online(self) -> bool:
        return self.offline_reason is None

    def take_offline(self, reason: str) -> None:
        if self.offline_reason is None:
            self.offline_reason = reason

    # Lock

    def lock(self, holder: str) -> None:
        """A second call does nothing. Raises DirectoryInUse."""
        if self._lock_fd >= 0:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        real = self.path.resolve()
        fd = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if real in _locked_by_this_process:
                raise BlockingIOError
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            named = os.pread(fd, 200, 0).decode(errors="replace").strip() or "a process that left no name"
            if real not in _locked_by_this_process:
                os.close(fd)
            raise DirectoryInUse(f"log directory {self.path} is in use by {named}: stop it or choose another") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{holder}, process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._lock_fd = fd
        _locked_by_this_process.add(real)

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            self._lock_fd = -1
            _locked_by_this_process.discard(self.path.resolve())

    # Identity

    def claim(self, holder: str) -> None:
        """Locks the directory and reads its identity. If the disk fails, the directory goes offline.

        Raises DirectoryInUse and CorruptFile.
        """
        try:
            self.lock(holder)
            self.identity = read_identity(self.path)
        except OSError as error:
            self.take_offline(f"{error.strerror} on {error.filename or self.path}")

    def check_owner(self, node_id: int, cluster_id: str | None) -> None:
        """Claims the directory. Raises StorageFault if it belongs to another broker or cluster."""
        try:
            self.claim(f"headrace broker {node_id}")
        except CorruptFile as wrong:
            raise StorageFault(f"{wrong}: restore the file from a copy") from None
        if self.identity is None:
            return
        known = self.identity.cluster_id
        if cluster_id is not None and known not in (None, cluster_id):
            raise StorageFault(f"log directory {self.path} belongs to cluster {known}, this broker to {cluster_id}")
        if self.identity.node_id != node_id:
            raise StorageFault(
                f"log directory {self.path} belongs to broker {self.identity.node_id}, this is {node_id}"
            )

    def take_over(self, node_id: int, cluster_id: str | None, home: StoreOwner | None) -> None:
        """Makes the first writes to a directory after the check of its owner."""
        if not self.is_online:
            return
        known = self.identity.cluster_id if self.identity is not None else None
        try:
            self.save_identity(node_id=node_id, cluster_id=cluster_id or known, home=home)
            self.take_clean_mark()
        except OSError as error:
            self.take_offline(f"{error.strerror} on {error.filename or self.path}")

    def save_identity(self, *, node_id: int, cluster_id: str | None, home: StoreOwner | None = None) -> None:
        """With `home` None the store stays as it is. If the kind of store does not change, its date stays too."""
        known = self.identity
        if home is None:
            home = known.home if known is not None else None
        elif known is not None and known.home is not None and known.home.kind == home.kind:
            home = replace(home, since=known.home.since)
        directory_id = known.directory_id if known is not None else None
        self.is_new |= directory_id is None
        directories = known.directories if known is not None else ()
        self._save(Identity(node_id, cluster_id, directory_id or uuid.uuid4(), home, directories))

    def name_directories(self, directories: tuple[tuple[str, str], ...]) -> None:
        """Ids and paths of all directories of the broker: the next start knows by them which one is missing. Raises
        OSError."""
        assert self.identity is not None, "an open log directory has an identity"
        self._save(replace(self.identity, directories=directories))

    def _save(self, identity: Identity) -> None:
        if identity != self.identity:
            write_identity(self.path, identity)
            self.identity = identity

    @property
    def named(self) -> set[str]:
        """The ids of the directories that this one names."""
        return set() if self.identity is None else {key for key, _ in self.identity.directories}

    @property
    def id_text(self) -> str | None:
        """The id in Kafka's text form; None for a directory that was not opened."""
        known = None if self.identity is None else self.identity.directory_id
        return None if known is None else uuid_to_text(known)

    # Clean shutdown

    def take_clean_mark(self) -> None:
        path, taken = self.path / CLEAN_SHUTDOWN_FILE, self.path / _TAKEN_FILE
        self.was_clean = path.exists()
        if self.was_clean:
            path.replace(taken)
            sync_directory(self.path)
        try:
            self.previous_broker_epoch = int(json.loads(taken.read_bytes())["brokerEpoch"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # An older release writes an empty file; its existence alone means a clean stop.
            self.previous_broker_epoch = -1

    def forget_taken_mark(self) -> None:
        """The start has compared the logs. Before the broker registers: later the mark would be that of an earlier
        registration, as it is in an old copy. Raises OSError."""
        taken = self.path / _TAKEN_FILE
        if taken.exists():
            taken.unlink()
            sync_directory(self.path)

    @property
    def closing_order(self) -> tuple[bool, int]:
        """The directory that was in use last has the highest: one without a clean stop, or the one of the last
        registration."""
        return not self.was_clean, self.previous_broker_epoch

    def leave_clean_mark(self, broker_epoch: int) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_small_file(self.path / CLEAN_SHUTDOWN_FILE, content.encode())

    # Checkpoints

    def recovery_point_at_start(self, partition: TopicPartition) -> int:
        """Up to which offset the log was on the disk, according to the checkpoint that the start has read."""
        marks = self._at_start.get(partition)
        return 0 if marks is None else marks.recovery_point

    def had_records_at_start(self, partition: TopicPartition) -> bool:
        """Whether a checkpoint that the start has read names records of the partition."""
        marks = self._at_start.get(partition)
        return marks is not None and max(marks.recovery_point, marks.high_watermark) > 0

    def marks(self) -> Mapping[TopicPartition, PartitionCheckpoints]:
        """Reads the checkpoints at a start. A damaged file counts as empty; recovery then checks the whole logs."""
        recovery_points = self._offsets(RECOVERY_POINT_FILE)
        starts = self._offsets(LOG_START_FILE)
        high_watermarks = self._offsets(HIGH_WATERMARK_FILE)
        try:
            aborted = read_aborted(self.path / ABORTED_FILE)
        except CorruptFile:
            aborted = {}
        self.clean_offsets.read()
        known = recovery_points.keys() | starts.keys() | high_watermarks.keys() | aborted.keys()
        self._marked = set(known)
        self._recovery_points = recovery_points
        self._at_start = {
            partition: PartitionCheckpoints(
                recovery_points.get(partition, 0),
                starts.get(partition, 0),
                high_watermarks.get(partition, 0),
                aborted.get(partition, KnownAborted()),
            )
            for partition in known
        }
        return self._at_start

    def forget_at_start(self, partition: TopicPartition) -> None:
        """The entries that the start has read are those of a deleted log."""
        self._at_start.pop(partition, None)

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self.path / name)
        except CorruptFile:
            return {}

    def checkpoint(self, logs: list[Log]) -> None:
        """Writes all four files from the present state of the logs. If the disk is full, the old files stay valid.

        Any other disk error is raised: the caller takes the logs of the directory offline.
        """
        with self._checkpointing:
            # Marked before any file is written, and before the look at what is deleted: if a file has no room, or a log
            # is deleted meanwhile, the files before it name the log nevertheless.
            self._marked = self._marked | {log.name for log in logs}
            self._checkpoint([log for log in logs if not log.is_deleted])

    def lower_checkpoints(self, partition: TopicPartition, offset: int) -> None:
        """Before the log is cut at `offset`: after a crash, recovery would trust unsynced records below the old
        recovery point, and a log that ends before it would count as one that lost records. Compaction would take new
        records for clean ones. Raises OSError."""
        self.clean_offsets.lower(partition, offset)
        with self._checkpointing:
            if self._recovery_points.get(partition, 0) > offset:
                with tolerated_no_space():
                    self._write_recovery_points(self._recovery_points | {partition: offset})

    def still_marks(self, partition: TopicPartition) -> bool:
        """Whether the files may contain the partition, or a deleted one of the same name."""
        return partition in self._marked

    def note_outdated_marks(self, partition: TopicPartition) -> None:
        """The partition has a new log, and its entries in the files are those of a deleted one."""
        self._outdated.add(partition)

    def has_outdated_marks(self, partition: TopicPartition) -> bool:
        """The log must get no record while this is true: after a crash the entries would apply to it."""
        return partition in self._outdated

    def _checkpoint(self, logs: list[Log]) -> None:
        offsets = [(TopicPartition(log.topic, log.partition), log) for log in logs]
        try:
            # Written first, because recovery trusts the indexes below a recovery point.
            self._checkpoint_aborted({tp: known_aborted(log) for tp, log in offsets})
            self._write_recovery_points({tp: log.recovery_point for tp, log in offsets})
            # A log start is stored only if the first segment on the disk does not show it.
            starts = {
                tp: log.log_start_offset
                for tp, log in offsets
                if log.log_start_offset > log.segments.base_offset_on_disk
            }
            write_offsets(self.path / LOG_START_FILE, starts)
            write_offsets(self.path / HIGH_WATERMARK_FILE, {tp: log.high_watermark for tp, log in offsets})
            self._marked = {tp for tp, _ in offsets}
            self._outdated.clear()
        except OSError as error:
            if not is_no_space(error):
                raise StorageFault(f"{error.strerror} on {error.filename or self.path}") from error

    def _write_recovery_points(self, offsets: dict[TopicPartition, int]) -> None:
        write_offsets(self.path / RECOVERY_POINT_FILE, offsets)
        self._recovery_points = offsets

    def _checkpoint_aborted(self, known: dict[TopicPartition, KnownAborted]) -> None:
        if known != self._aborted:
            write_aborted(self.path / ABORTED_FILE, known)
            self._aborted = known


def known_aborted(log: Log) -> KnownAborted:
    # Read the recovery point first: data below it does not change, even if the loop appends meanwhile.
    up_to = log.recovery_point
    digests = {segment.base_offset: segment.txn_index.digest for segment in log.segments.all}
    return KnownAborted(up_to, {base: digest for base, digest in digests.items() if digest.entries})
