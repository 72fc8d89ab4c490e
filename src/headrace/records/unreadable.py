"""The error for a batch with a valid checksum whose records cannot be read, and the way past it for readers.

A broker accepts a batch with a valid checksum without reading its records, unless `validate.records` is set. A producer
that compresses wrongly, or memory that fails before the checksum is computed, can therefore write a batch that stops
every consumer of the partition. The disk is not damaged: every replica has the same bytes, and the following batches
are good. Recovery therefore does not truncate the log there. `headrace log skip` replaces the batch by an empty one
with the same offsets.
"""

from __future__ import annotations

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import BatchView


class UnreadableBatch(CorruptBatch):
    def __init__(self, batch: BatchView, why: str) -> None:
        super().__init__(f"the batch of offsets {batch.base_offset} to {batch.last_offset} cannot be read: {why}")
        self.base_offset = batch.base_offset
        self.last_offset = batch.last_offset
        self.record_count = batch.record_count
        self.size_bytes = batch.size_bytes
        self.why = why

    def of(self, topic: str, partition: int) -> CorruptBatch:
        """The error for a person who reads the topic. It names the partition and the command that helps."""
        return CorruptBatch(
            f"{topic}-{partition}: {self.message}. To read past it, start behind it at offset {self.last_offset + 1}; "
            f"to take it out of the log, stop each broker that has a replica in turn and run "
            f"headrace log skip LOG_DIR/{topic}-{partition} --offset {self.base_offset}"
        )
