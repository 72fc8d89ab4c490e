"""A batch whose checksum is right and whose records cannot be read: what is wrong, and how readers get past it.

A broker believes a batch whose checksum holds and does not open it (`validate.records` makes it). A producer that
compresses wrongly, or memory that fails before the checksum is computed, can so put a batch into a log that stops every
consumer of the partition. It is no damage of the disk: every replica has the same bytes, and the batches behind it are
good. So nothing is cut there. `headrace log skip` replaces it by an empty batch with the same offsets.
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
        """The same for a person who reads the topic, with what to do."""
        return CorruptBatch(
            f"{topic}-{partition}: {self.message}. To read past it, start behind it at offset {self.last_offset + 1}; "
            f"to take it out of the log, stop each broker that has a replica in turn and run "
            f"headrace log skip LOG_DIR/{topic}-{partition} --offset {self.base_offset}"
        )
