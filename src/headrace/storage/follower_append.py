"""Checks the batches that a leader sent, before a follower writes them. Their offsets and epochs are already set."""

from __future__ import annotations

from headrace.kernel.errors import CorruptBatch
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import LOG_OVERHEAD_BYTES, BatchView, check_extent


def leaders_batches(partition: TopicPartition, log_end_offset: int, view: memoryview) -> tuple[list[BatchView], int]:
    """The whole, valid batches at the start of `view` and their total size."""
    batches: list[BatchView] = []
    position, expected = 0, log_end_offset
    while len(view) - position >= LOG_OVERHEAD_BYTES:
        size = int.from_bytes(view[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD_BYTES
        if size > len(view) - position:
            break
        check_extent(view, position)
        batch = BatchView(view, position)
        batch.check_crc()
        if batch.base_offset < expected or batch.last_offset_delta < 0:
            raise CorruptBatch(f"{partition}: the leader sent offset {batch.base_offset}, the log ends at {expected}")
        expected = batch.next_offset
        batches.append(batch)
        position += size
    return batches, position
