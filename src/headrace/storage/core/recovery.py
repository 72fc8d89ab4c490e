"""Whether a batch in a segment is valid. Pure.

After a crash the end of a file may be missing, zero or random. A batch is valid if its length, magic, checksum and
offsets are. The log ends before the first invalid batch, even if valid batches follow: a later record must not survive
an earlier one that is lost.
"""

from __future__ import annotations

from headrace.records.batch import BatchView
from headrace.storage.core.roll import MAX_RELATIVE_OFFSET


def verdict(batch: BatchView, *, base_offset: int, expected_offset: int) -> str | None:
    """Why the batch is invalid at this position, or None if it is valid. The caller has checked that the file holds all
    of it.
    """
    if batch.base_offset < expected_offset:
        return f"offset {batch.base_offset} where at least {expected_offset} must follow"
    if batch.last_offset_delta < 0 or batch.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return f"last offset {batch.last_offset} does not fit a segment that begins at {base_offset}"
    computed = batch.computed_crc()
    if computed != batch.crc:
        return f"checksum {batch.crc:#010x} where the bytes give {computed:#010x}"
    return None
