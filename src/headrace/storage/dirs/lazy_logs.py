"""Logs that have no files yet.

A topic with a thousand partitions needs thousands of files. If the broker created them before it answers CreateTopics,
all clients would wait. After a crash, an empty log and a missing log are equivalent. So a new log begins in memory. Its
first append creates its files; otherwise the broker creates them a few at a time (`make_some`) or when it stops.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.delayed_deletion import DelayedDeletions
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.log_contents import LogContents


class LazyLogs:
    def __init__(self) -> None:
        self._waiting: deque[Log] = deque()
        self._arrived = asyncio.Event()

    def log(
        self,
        directory: Path,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: uuid.UUID | None,
        *,
        now_ms: int,
        deletions: DelayedDeletions,
        on_disk_fault: Callable[[OSError], None],
        before_files: Callable[[], None],
        before_cut: Callable[[int], None],
    ) -> Log:
        """A new, empty log. `directory` must not exist. The callbacks are those of `Log`."""
        contents = LogContents.empty(directory, config, deletions, now_ms=now_ms)
        log = Log(
            partition,
            config,
            contents,
            topic_id=topic_id,
            on_disk_fault=on_disk_fault,
            before_files=before_files,
            before_cut=before_cut,
        )
        self._waiting.append(log)
        self._arrived.set()
        return log

    async def wait(self) -> None:
        """Waits until there are new logs."""
        await self._arrived.wait()
        self._arrived.clear()

    def make_some(self, count: int) -> bool:
        """Creates the files of up to `count` logs. Returns whether more are left.

        If the disk is full, the log's first append tries again.
        """
        waiting = self._waiting
        while waiting and count > 0:
            log = waiting.popleft()
            if not log.segments.has_files and log.offline_reason is None:
                with contextlib.suppress(StorageFault):
                    log.make_files()
                count -= 1
        return bool(waiting)
