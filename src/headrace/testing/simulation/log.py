"""A replica's log in memory, with the interface of `storage.log.Log` that replication uses.

A record is 20 bytes (offset, epoch, value), so that the real fetch path carries it as bytes. `power_cut` removes
records that were not flushed. A killed process loses nothing, because the page cache survives it.
"""

from __future__ import annotations

import random
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from headrace.cluster.core.losses import ReplicaKey
from headrace.kernel.errors import OffsetOutOfRange, StorageFault
from headrace.replication.partition import Partition
from headrace.storage.leader_epochs import LeaderEpochs
from headrace.storage.log_config import LogConfig

RECORD: Final = struct.Struct(">qiq")
DISKS: Final = (0, 1)


class Entry(NamedTuple):
    """A tuple, because invariants compare thousands of entries."""

    epoch: int
    value: int


@dataclass(frozen=True, slots=True)
class SimulatedSlice:
    data: bytes

    @property
    def length(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class SimulatedAppend:
    first_offset: int
    last_offset: int


class _EpochsInMemory(LeaderEpochs):
    def assign(self, epoch: int, start_offset: int) -> None:
        if epoch >= 0:
            self.note(epoch, start_offset)

    def _replace(self, pairs: list[tuple[int, int]], **_: object) -> None:
        self._pairs = pairs
        self._remember_latest()


def encode(values: list[int]) -> bytearray:
    """Records as a producer sends them, without offset and epoch."""
    return bytearray(b"".join(RECORD.pack(-1, -1, value) for value in values))


class LogWatcher(Protocol):
    """Checks invariants. Called for every new high watermark and every new leader."""

    def marked(self, log: SimulatedLog) -> None: ...
    def led(self, broker: int, partition: Partition) -> None: ...


class SimulatedLog:
    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        broker: int = -1,
        watcher: LogWatcher | None = None,
    ) -> None:
        self.broker = broker
        self.checked_to = 0  # the watcher has checked the records below this offset
        self._watcher = watcher
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.entries: list[Entry] = []
        self.base_offset = 0
        self.durable_end = 0
        self.directory = 0  # number of the broker's disk
        self.replaces_lost = False  # the log before it was on a disk that was replaced
        self.is_incomplete = False
        self.log_start_offset = 0
        self.high_watermark = 0
        self.offline_reason: str | None = None
        self.leader_epochs = _EpochsInMemory(Path())

    @property
    def log_end_offset(self) -> int:
        return self.base_offset + len(self.entries)

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def _check_online(self) -> None:
        if self.offline_reason is not None:
            raise StorageFault(f"{self.topic}-{self.partition} is offline: {self.offline_reason}")

    def append_as_leader(self, data: bytearray, *, leader_epoch: int, now_ms: int, **_: object) -> SimulatedAppend:
        self._check_online()
        first = self.log_end_offset
        self.entries.extend(Entry(leader_epoch, value) for _, _, value in RECORD.iter_unpack(data))
        return SimulatedAppend(first, self.log_end_offset - 1)

    def append_as_follower(self, data: memoryview) -> SimulatedAppend:
        self._check_online()
        first = self.log_end_offset
        for offset, epoch, value in RECORD.iter_unpack(data):
            if offset < self.log_end_offset:
                continue
            assert offset == self.log_end_offset, f"a gap: {offset} after {self.log_end_offset}"
            self.leader_epochs.assign(epoch, offset)
            self.entries.append(Entry(epoch, value))
        return SimulatedAppend(first, self.log_end_offset - 1)

    def read(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, min_one_batch: bool = True
    ) -> SimulatedSlice | None:
        self._check_online()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is outside {self.log_start_offset}..{self.log_end_offset}")
        count = max(max_bytes // RECORD.size, 1 if min_one_batch else 0)
        end = min(self.log_end_offset if up_to is None else up_to, offset + count)
        if end <= offset:
            return None
        found = self.entries[offset - self.base_offset : end - self.base_offset]
        return SimulatedSlice(
            b"".join(RECORD.pack(offset + at, entry.epoch, entry.value) for at, entry in enumerate(found))
        )

    def entry(self, offset: int) -> Entry | None:
        at = offset - self.base_offset
        return self.entries[at] if 0 <= at < len(self.entries) else None

    def advance_high_watermark(self, offset: int) -> bool:
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self._watcher is not None:
                self._watcher.marked(self)
        return False  # there are no transactions

    def advance_log_start(self, offset: int) -> None:
        """Readers no longer see the records below. They stay here, as in a real log until the segment is deleted."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def truncate_to(self, offset: int) -> None:
        del self.entries[max(0, offset - self.base_offset) :]
        self.checked_to = min(self.checked_to, offset)
        self.durable_end = min(self.durable_end, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.leader_epochs.truncate_from_end(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.entries.clear()
        self.checked_to = self.base_offset = self.log_start_offset = self.durable_end = self.high_watermark = offset
        self.leader_epochs.clear()

    def flush(self) -> None:
        self.durable_end = self.log_end_offset

    def restart(self, checkpointed_mark: int) -> None:
        """The process restarted: the high watermark comes from the last checkpoint."""
        self.high_watermark = max(self.log_start_offset, min(checkpointed_mark, self.log_end_offset))

    def power_cut(self, chance: random.Random) -> int:
        """Removes some records that were not flushed. Returns their number."""
        keep = chance.randint(max(self.durable_end, self.log_start_offset), self.log_end_offset)
        lost = self.log_end_offset - keep
        if lost:
            self.truncate_to(keep)
        return lost


class SimulatedLogs:
    """The log directories of one broker on two disks. They survive a restart of the broker."""

    def __init__(self, broker: int, watcher: LogWatcher) -> None:
        self._broker = broker
        self._watcher = watcher
        self._logs: dict[tuple[str, int], SimulatedLog] = {}
        self.failed: set[int] = set()  # disks that can be neither read nor written
        self.gone: set[ReplicaKey] = set()  # replicas whose log was on a disk that was replaced
        self.strays: list[SimulatedLog] = []
        self._made = 0

    def log(self, topic: str, partition: int) -> SimulatedLog | None:
        return self._logs.get((topic, partition))

    def logs(self) -> list[SimulatedLog]:
        return list(self._logs.values())

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        *,
        why_incomplete: str | None = None,
        now_ms: int = 0,
    ) -> SimulatedLog:
        log = SimulatedLog(topic, partition, topic_id, config, self._broker, self._watcher)
        online = [disk for disk in DISKS if disk not in self.failed]
        log.directory = online[self._made % len(online)]
        log.replaces_lost = (topic_id, partition) in self.gone
        log.is_incomplete = why_incomplete is not None
        self._made += 1
        self._logs[topic, partition] = log
        return log

    def delete(self, topic: str, partition: int, *, now_ms: int = 0) -> None:
        log = self._logs.pop((topic, partition), None)
        if log is not None:
            log.offline_reason = "deleted"

    def has_all_records(self, log: SimulatedLog) -> None:
        log.is_incomplete = False

    def incomplete(self) -> set[ReplicaKey]:
        return {(log.topic_id, log.partition) for log in self.logs() if log.is_incomplete}

    def set_aside(self, topic: str, partition: int, reason: str, *, now_ms: int = 0) -> None:
        self.strays.append(self._logs[topic, partition])
        self.delete(topic, partition, now_ms=now_ms)

    def fail(self, disk: int) -> list[SimulatedLog]:
        """The logs on this disk can no longer be read or written. Returns them."""
        self.failed.add(disk)
        taken = [log for log in self.logs() if log.directory == disk]
        for log in taken:
            log.offline_reason = "the disk failed"
        return taken

    def without_log(self) -> set[ReplicaKey]:
        """The replicas whose log was on a disk that was replaced."""
        return self.gone - {(log.topic_id, log.partition) for log in self.logs()}

    def on_failed_disks(self) -> set[ReplicaKey]:
        return {(log.topic_id, log.partition) for log in self.logs() if log.offline_reason is not None}

    def replace_failed(self) -> bool:
        """Replaces failed disks by empty ones while the broker is down. Returns whether there were any."""
        failed, self.failed = self.failed, set()
        self.gone |= {(log.topic_id, log.partition) for log in self.logs() if log.directory in failed}
        self._logs = {name: log for name, log in self._logs.items() if log.directory not in failed}
        return bool(failed)
