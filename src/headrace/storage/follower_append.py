"""Checks the batches that a leader sent, before a follower writes them. Their offsets and epochs are already set.

A follower also notes producers and transactions, so it checks here what it will read for that: the control records. An
error after the write would leave batches in the log whose producers nobody knows.
"""

from __future__ import annotations

from headrace.kernel.errors import CorruptBatch
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import LOG_OVERHEAD_BYTES, BatchView, check_extent
from headrace.records.control import control_of


def leaders_batches(
    partition: TopicPartition, log_start_offset: int, log_end_offset: int, view: memoryview
) -> tuple[list[BatchView], int]:
    """The whole, valid batches at the start of `view` and their total size. Raises CorruptBatch.

    The first batch for an empty log may begin below the start of the log: the leader's log starts inside this batch,
    because records were deleted.
    """
    batches: list[BatchView] = []
    position, expected = 0, log_end_offset
    while len(view) - position >= LOG_OVERHEAD_BYTES:
        size = int.from_bytes(view[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD_BYTES
        if size > len(view) - position:
            break
        check_extent(view, position)
        batch = BatchView(view, position)
        batch.check_crc()
        if batch.is_control and batch.producer_id >= 0:
            control_of(batch)
        is_inside = not batches and log_start_offset == log_end_offset <= batch.last_offset
        if (batch.base_offset < expected and not is_inside) or batch.last_offset_delta < 0:
            raise CorruptBatch(f"{partition}: the leader sent offset {batch.base_offset}, the log ends at {expected}")
        expected = batch.next_offset
        batches.append(batch)
        position += size
    return batches, position
