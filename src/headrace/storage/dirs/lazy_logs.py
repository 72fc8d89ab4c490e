"""Logs that have no files yet.

A topic of a thousand partitions is thousands of files. If the broker made them before it answers, every client would
wait. After a crash, a log that was never written to and a log that is missing are the same. So a new log begins in
memory. Its first append makes its files, or the broker makes them a few at a time (`make_some`), or at its stop.

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
        trash: DelayedDeletions,
        on_disk_fault: Callable[[OSError], None],
    ) -> Log:
        """A new, empty log; nothing may be at `directory`."""
        contents = LogContents.empty(directory, config, trash, now_ms=now_ms)
        log = Log(partition, config, contents, topic_id=topic_id, on_disk_fault=on_disk_fault)
        self._waiting.append(log)
        self._arrived.set()
        return log

    async def wait(self) -> None:
        """Until there are logs that came since the last time."""
        await self._arrived.wait()
        self._arrived.clear()

    def make_some(self, count: int) -> bool:
        """Makes the files of up to `count` logs; whether there are more to make.

        What a full disk refuses is left to the log's first append, which is refused too, or taken.
        """
        waiting = self._waiting
        while waiting and count > 0:
            log = waiting.popleft()
            if not log.segments.has_files and log.offline_reason is None:
                with contextlib.suppress(StorageFault):
                    log.make_files()
                count -= 1
        return bool(waiting)
