"""Appending what a leader sent: several batches at once, offsets and epochs already set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import LOG_OVERHEAD_BYTES, BatchView, check_extent

if TYPE_CHECKING:
    from headrace.storage.log import Log


def leaders_batches(log: Log, view: memoryview) -> tuple[list[BatchView], int]:
    """The whole, sound batches at the start of `view` and the bytes they take."""
    batches: list[BatchView] = []
    position, expected = 0, log.log_end_offset
    while len(view) - position >= LOG_OVERHEAD_BYTES:
        size = int.from_bytes(view[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD_BYTES
        if size > len(view) - position:
            break
        check_extent(view, position)
        batch = BatchView(view, position)
        batch.check_crc()
        if batch.base_offset < expected or batch.last_offset_delta < 0:
            raise CorruptBatch(
                f"{log.topic}-{log.partition}: the leader sent offset {batch.base_offset}, the log ends at {expected}"
            )
        expected = batch.next_offset
        batches.append(batch)
        position += size
    return batches, position


def append_leaders_batches(log: Log, data: memoryview, batches: list[BatchView], now_ms: int) -> None:
    """One write when all fit into the active segment, else batch by batch, so that segments keep their size."""
    for batch in batches:
        if batch.partition_leader_epoch > log.leader_epochs.latest:
            log.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
    if len(batches) > 1 and _would_roll(log, data, batches, now_ms):
        for batch in batches:
            _append(log, batch.data, [batch], now_ms)
    else:
        _append(log, data, batches, now_ms)


def _would_roll(log: Log, data: memoryview, batches: list[BatchView], now_ms: int) -> bool:
    segment = log.active_segment
    newest_ms = max(batch.max_timestamp_ms for batch in batches)
    over = len(data) > log.config.segment_bytes
    return over or segment.should_roll(len(data), batches[-1].last_offset, newest_ms, now_ms, log.config)


def _append(log: Log, data: memoryview, batches: list[BatchView], now_ms: int) -> None:
    newest_ms = max(batch.max_timestamp_ms for batch in batches)
    segment = log.active_segment
    if segment.should_roll(len(data), batches[-1].last_offset, newest_ms, now_ms, log.config):
        segment = log.roll(batches[0].base_offset, now_ms=now_ms)
    segment.append_many(data, batches)
    log.written(batches)
