"""Logs that have no files yet.

A topic of a thousand partitions is thousands of files. Making them before anybody is answered holds up every client,
and nobody needs them: after a crash, a log that was never written to and one that is missing are the same. So a new log
begins in memory. Its files are made by its first append, or a few at a time when there is nothing else to do
(`make_some`), or when the broker stops; whichever comes first.

Owned by the event loop.
"""

from __future__ import annotations

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
from headrace.storage.segment.segment import Segment


class LazyLogs:
    def __init__(self, on_promised: Callable[[], None]) -> None:
        """`on_promised` is called when there is something to make where there was nothing."""
        self._on_promised = on_promised
        self._waiting: deque[Log] = deque()

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
        log = Log(
            directory,
            partition.topic,
            partition.partition,
            config,
            topic_id=topic_id,
            trash=trash,
            on_disk_fault=on_disk_fault,
        )
        segment = Segment(directory, 0, config)
        segment.created_ms = now_ms
        log.set_segments((segment,))
        log.is_promised = True
        if not self._waiting:
            self._on_promised()
        self._waiting.append(log)
        return log

    def make_some(self, count: int) -> bool:
        """Makes the files of up to `count` logs; whether there are more to make.

        What a full disk refuses is left to the log's first append, which is refused too, or taken.
        """
        waiting = self._waiting
        while waiting and count > 0:
            log = waiting.popleft()
            if log.is_promised and log.offline_reason is None:
                with contextlib.suppress(StorageFault):
                    log.make_files()
                count -= 1
        return bool(waiting)
