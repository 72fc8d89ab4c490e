"""One log directory: its lock, its identity, its checkpoints, and whether its disk still answers.

`.lock` is a POSIX record lock, as Kafka takes it, so that the two refuse each other's directories; inside it stands who
holds it, for the message that the second one prints. `.kafka_cleanshutdown` exists only between a clean stop and the
next start: it is removed before anything is written, so that a crash right after is seen as one.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import uuid
from pathlib import Path
from typing import Final

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition, uuid_from_text, uuid_to_text
from headrace.storage.checkpoints import (
    ABORTED_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    CorruptFile,
    KnownAborted,
    read_aborted,
    read_offsets,
    read_properties,
    write_aborted,
    write_offsets,
    write_properties,
)
from headrace.storage.files import is_no_space, sync_directory, write_small_file
from headrace.storage.log import Log
from headrace.storage.recovery import Marks

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

# Record locks do not stop a process from locking twice, so our own directories are remembered here.
_held_here: set[Path] = set()


class DirectoryInUse(StorageFault):
    """Another process keeps its log in this directory."""


class LogDir:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory_id: uuid.UUID | None = None
        self.cluster_id: str | None = None
        self.node_id: int | None = None
        self.offline_reason: str | None = None
        self.was_clean = False
        self.previous_broker_epoch = -1
        self._lock_fd = -1
        self._aborted: dict[TopicPartition, KnownAborted] | None = None
        # The partitions that the checkpoint files speak of.
        self._marked: set[TopicPartition] = set()
        # The loop must write before a topic takes over a name; the thread of the timer may be writing just then.
        self._checkpointing = threading.Lock()

    @property
    def is_online(self) -> bool:
        return self.offline_reason is None

    def take_offline(self, reason: str) -> None:
        if self.offline_reason is None:
            self.offline_reason = reason

    # --- lock ----------------------------------------------------------------------------------------------------

    def lock(self, holder: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        real = self.path.resolve()
        fd = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if real in _held_here:
                raise BlockingIOError
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            named = os.pread(fd, 200, 0).decode(errors="replace").strip() or "a process that left no name"
            if real not in _held_here:
                os.close(fd)
            raise DirectoryInUse(f"log directory {self.path} is in use by {named}: stop it or choose another") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{holder}, process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._lock_fd = fd
        _held_here.add(real)

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            self._lock_fd = -1
            _held_here.discard(self.path.resolve())

    # --- identity ------------------------------------------------------------------------------------------------

    def load_identity(self) -> None:
        properties = read_properties(self.path / META_PROPERTIES_FILE)
        self.cluster_id = properties.get("cluster.id")
        node_id = properties.get("node.id", properties.get("broker.id"))
        try:
            self.node_id = None if node_id is None else int(node_id)
            directory_id = properties.get("directory.id")
            self.directory_id = None if directory_id is None else uuid_from_text(directory_id)
        except ValueError as wrong:
            raise CorruptFile(f"{self.path / META_PROPERTIES_FILE}: {wrong}") from None

    def save_identity(self, *, node_id: int, cluster_id: str | None) -> None:
        if self.directory_id is None:
            self.directory_id = uuid.uuid4()
        if self.node_id == node_id and self.cluster_id == cluster_id and (self.path / META_PROPERTIES_FILE).exists():
            return
        self.node_id, self.cluster_id = node_id, cluster_id
        properties = {"node.id": str(node_id), "directory.id": uuid_to_text(self.directory_id), "version": "1"}
        if cluster_id is not None:
            properties["cluster.id"] = cluster_id
        write_properties(self.path / META_PROPERTIES_FILE, properties)

    # --- clean shutdown ------------------------------------------------------------------------------------------

    def take_clean_mark(self) -> None:
        path = self.path / CLEAN_SHUTDOWN_FILE
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
        self.was_clean = True
        try:
            self.previous_broker_epoch = int(json.loads(content)["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            # An older broker's file is empty; that it is there is what counts.
            self.previous_broker_epoch = -1
        path.unlink()
        sync_directory(self.path)

    def leave_clean_mark(self, broker_epoch: int) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_small_file(self.path / CLEAN_SHUTDOWN_FILE, content.encode())

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def marks(self) -> dict[TopicPartition, Marks]:
        """What the checkpoints say; a damaged file says nothing, and the logs are then checked from their beginning."""
        recovery_points = self._offsets(RECOVERY_POINT_FILE)
        starts = self._offsets(LOG_START_FILE)
        high_watermarks = self._offsets(HIGH_WATERMARK_FILE)
        try:
            aborted = read_aborted(self.path / ABORTED_FILE)
        except CorruptFile:
            aborted = {}
        known = recovery_points.keys() | starts.keys() | high_watermarks.keys() | aborted.keys()
        self._marked = set(known)
        return {
            partition: Marks(
                recovery_points.get(partition, 0),
                starts.get(partition, 0),
                high_watermarks.get(partition, 0),
                aborted.get(partition, KnownAborted()),
            )
            for partition in known
        }

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self.path / name)
        except CorruptFile:
            return {}

    def checkpoint(self, logs: list[Log]) -> None:
        """All four files, from what the logs say now. No space is no reason to stop: the old files still hold.

        Any other failure of the disk is the caller's to act on, who knows the logs that go offline with it.
        """
        with self._checkpointing:
            self._checkpoint([log for log in logs if not log.is_deleted])

    def still_marks(self, partition: TopicPartition) -> bool:
        """Whether the files speak of it, or of a log of the same name that was deleted since they were written."""
        return partition in self._marked

    def _checkpoint(self, logs: list[Log]) -> None:
        offsets = [(TopicPartition(log.topic, log.partition), log) for log in logs]
        try:
            # First, because a recovery point vouches for the indexes below it too.
            self._checkpoint_aborted({tp: known_aborted(log) for tp, log in offsets})
            write_offsets(self.path / RECOVERY_POINT_FILE, {tp: log.recovery_point for tp, log in offsets})
            # Only a start that the segments' names do not show needs writing down.
            starts = {
                tp: log.log_start_offset for tp, log in offsets if log.log_start_offset > log.segments[0].base_offset
            }
            write_offsets(self.path / LOG_START_FILE, starts)
            write_offsets(self.path / HIGH_WATERMARK_FILE, {tp: log.high_watermark for tp, log in offsets})
            self._marked = {tp for tp, _ in offsets}
        except OSError as error:
            if not is_no_space(error):
                raise StorageFault(f"{error.strerror} on {error.filename or self.path}") from error

    def _checkpoint_aborted(self, known: dict[TopicPartition, KnownAborted]) -> None:
        if known != self._aborted:
            write_aborted(self.path / ABORTED_FILE, known)
            self._aborted = known


def known_aborted(log: Log) -> KnownAborted:
    # The recovery point first: what is below it no longer changes, whatever the loop appends meanwhile.
    up_to = log.recovery_point
    digests = {segment.base_offset: segment.txn_index.digest for segment in log.segments}
    return KnownAborted(up_to, {base: digest for base, digest in digests.items() if digest.entries})
