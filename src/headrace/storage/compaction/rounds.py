"""Compaction over all logs of a broker, one at a time, the dirtiest first. `clean_offsets` of a directory know how far
each log is clean.

The event loop owns it; only `Cleaner.clean` runs in a thread, through `in_thread`. If a log fails, the broker logs it
once and skips the log until the next start, so that one bad segment does not block the compaction of other logs. If the
disk is full, or a round has cleaned nothing, it skips the log for a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headrace.config import BrokerConfig
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.storage.compaction.job import Cleaned, CompactionJob, dirt_of, discard, install, prepare
from headrace.storage.core.compaction import DirtyState
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.files import is_no_space, tolerated_no_space
from headrace.storage.log import Log

logger = logging.getLogger("headrace.storage.compaction")

# After a round in vain other logs have their turn. On a full disk they may need less room. A round without a full disk
# cleans nothing if the high watermark is inside the first dirty batch.
_PAUSE_MS: Final = 60_000

InThread = Callable[[Callable[[], Cleaned]], Awaitable[Cleaned]]


@dataclass(frozen=True)
class CleanerSettings:
    memory_bytes: int = 128 * 1024 * 1024
    bytes_per_second: float | None = None

    @classmethod
    def from_broker_config(cls, broker: BrokerConfig) -> CleanerSettings:
        rate = broker.log_cleaner_io_max_bytes_per_second
        # Kafka's default is the largest double: no limit.
        return cls(broker.log_cleaner_dedupe_buffer_size, rate if rate < 1e18 else None)


class CompactionRounds:
    def __init__(
        self,
        log_dirs: LogDirs,
        settings: Callable[[], CleanerSettings],
        in_thread: InThread,
        replicated_up_to: Callable[[Log], int] = lambda log: log.high_watermark,
    ) -> None:
        self._log_dirs = log_dirs
        self._settings = settings  # read for every round: they may change while the broker runs
        self._in_thread = in_thread
        self._replicated_up_to = replicated_up_to
        self._set_aside: set[TopicPartition] = set()
        self._postponed: dict[TopicPartition, int] = {}  # until this time
        self._stopping = False
        self._is_save_due = False
        log_dirs.when_deleted.append(self._forget)
        log_dirs.when_moved.append(self._moved)
        # Now, before a topic can be created with the name of a deleted one, and before a log grows.
        for home in log_dirs.directories:
            self._forget_outdated(home)
        self._save()

    def stop(self) -> None:
        """Makes the running round stop. It removes its files."""
        self._stopping = True

    async def run_one(self, now_ms: int) -> Cleaned | None:
        """Cleans the dirtiest log that is due. Returns None if no log is due or the round failed.

        Each round of a log ends at a higher offset than the one before, or the log is skipped for a minute. So a caller
        that repeats this at once comes to an end.
        """
        self._save()
        candidates = [(dirt, log) for log in self._log_dirs.logs() if (dirt := self._due(log, now_ms)) is not None]
        if not candidates:
            return None
        dirt, log = max(candidates, key=lambda found: (found[0].overdue, found[0].ratio))
        return await self._clean(log, dirt, now_ms)

    def _due(self, log: Log, now_ms: int) -> DirtyState | None:
        partition = TopicPartition(log.topic, log.partition)
        if not log.config.is_compacted or log.offline_reason is not None or partition in self._set_aside:
            return None
        if partition in self._log_dirs.futures:
            return None  # a copy of a log that changes would be dirty below its checkpoint
        if self._postponed.get(partition, now_ms) > now_ms:
            return None
        try:
            dirt = dirt_of(log, self._log_dirs.directory_of(log).clean_offsets.get(partition), now_ms)
        except OSError:
            return None  # the segment was deleted meanwhile; the next round does not see it
        return dirt if dirt.is_due(log.config.min_cleanable_dirty_ratio) else None

    async def _clean(self, log: Log, dirt: DirtyState, now_ms: int) -> Cleaned | None:
        partition = TopicPartition(log.topic, log.partition)
        settings = self._settings()
        job = prepare(log, dirt, replicated_up_to=self._replicated_up_to(log), now_ms=now_ms)
        try:
            cleaned = await self._in_thread(lambda: self._work(settings, job))
            # The directory may now belong to a new topic of the same name, whose files must not change.
            moves = partition in self._log_dirs.futures
            if moves or self._log_dirs.log(*partition) is not log or log.offline_reason is not None:
                discard(cleaned)
                return None
            if not install(log, job, cleaned, now_ms):
                return None
        except InterruptedError:
            return None
        except (Fault, OSError) as error:
            # Retention, truncation or deletion may have removed the files during the round. That is no fault.
            is_unchanged = log.segments.cuts == job.cuts and log.segments.holds(job.segments)
            if self._log_dirs.log(*partition) is log and is_unchanged:
                self._failed(partition, error, now_ms)
            return None
        if cleaned.clean_up_to <= dirt.first_dirty_offset:
            self._postponed[partition] = now_ms + _PAUSE_MS
            return cleaned
        self._postponed.pop(partition, None)
        self._log_dirs.directory_of(log).clean_offsets.put(partition, cleaned.clean_up_to)
        self._save()
        saved = cleaned.bytes_read and 1 - cleaned.bytes_written / max(1, sum(s.size_bytes for s in job.segments))
        logger.info(
            "compacted %s up to offset %d: %d keys, %.1f MB written, %.0f%% saved",
            partition, cleaned.clean_up_to, cleaned.keys, cleaned.bytes_written / 1e6, 100 * saved,
        )  # fmt: skip
        return cleaned

    def _failed(self, partition: TopicPartition, error: Fault | OSError, now_ms: int) -> None:
        if isinstance(error, OSError) and is_no_space(error):
            self._postponed[partition] = now_ms + _PAUSE_MS
            logger.warning("compaction of %s has no room on the disk, and is tried again in a minute", partition)
            return
        self._set_aside.add(partition)
        logger.error("compaction of %s failed and is set aside until the next start: %s", partition, error)

    def _work(self, settings: CleanerSettings, job: CompactionJob) -> Cleaned:
        # Imported in the thread of the first round: numpy must not slow the start of a broker.
        from headrace.storage.compaction.cleaner import Cleaner

        cleaner = Cleaner(settings.memory_bytes, settings.bytes_per_second)
        return cleaner.clean(job, lambda: self._stopping)

    def _forget(self, partition: TopicPartition, home: LogDir) -> None:
        """A later topic of the same name is dirty from its start."""
        self._set_aside.discard(partition)
        self._postponed.pop(partition, None)
        if home.clean_offsets.get(partition) is None:
            return
        home.clean_offsets.put(partition, None)
        if not self._is_save_due:  # a topic is deleted partition by partition: one write for all of them
            self._is_save_due = True
            asyncio.get_running_loop().call_soon(self._save)

    def _moved(self, partition: TopicPartition, source: LogDir, target: LogDir) -> None:
        """The copy is as clean as the log was: no round changed the log during the move."""
        target.clean_offsets.put(partition, source.clean_offsets.get(partition))
        source.clean_offsets.put(partition, None)
        self._save()

    def _save(self) -> None:
        self._is_save_due = False
        for home in self._log_dirs.directories:
            if home.is_online:
                try:
                    with tolerated_no_space():
                        home.clean_offsets.save()
                except OSError as error:
                    self._log_dirs.take_offline(home, f"{error.strerror} on {error.filename or home.path}")

    def _forget_outdated(self, home: LogDir) -> None:
        """A crash may happen between the deletion of a log and the write of its directory's file, and a log may end
        before its records that were clean. Their offsets must not apply to records that come later."""
        for partition in home.clean_offsets.partitions():
            log = self._log_dirs.log(*partition)
            clean_up_to = home.clean_offsets.get(partition) or 0
            if log is None or self._log_dirs.directory_of(log) is not home or clean_up_to > log.log_end_offset:
                home.clean_offsets.put(partition, None)
