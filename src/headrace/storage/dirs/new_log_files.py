"""The files of a new log: its directory, the identity of its topic, an empty segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.dirs.checkpoints import write_topic_id
from headrace.storage.segment.segment import Segment

if TYPE_CHECKING:
    from headrace.storage.log import Log


def make_files(log: Log) -> None:
    log.directory.mkdir(exist_ok=True)
    if log.topic_id is not None:
        # Synced with the first flush: until then the log holds nothing that anybody was promised.
        write_topic_id(log.directory, log.topic_id, durable=False)
    log.set_segments((Segment.create(log.directory, 0, log.config, now_ms=log.active_segment.created_ms),))
    log.is_promised = False
