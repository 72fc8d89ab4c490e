"""How far a segment's bytes can be trusted. Pure: bytes in, verdict out.

After a crash the end of a file may be short, zero, or anything. A batch counts when its length, magic, checksum and
offsets are right; the first that does not ends the log, whatever follows, because what follows was written later and
nothing later may survive what was lost.
"""

from __future__ import annotations

from headrace.records.batch import BatchView
from headrace.storage.core.roll import MAX_RELATIVE_OFFSET


def verdict(batch: BatchView, *, base_offset: int, expected_offset: int) -> str | None:
    """Why the batch cannot stand at this place, or None when it can. Its extent is known to be inside the file."""
    if batch.base_offset < expected_offset:
        return f"offset {batch.base_offset} where at least {expected_offset} must follow"
    if batch.last_offset_delta < 0 or batch.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return f"last offset {batch.last_offset} does not fit a segment that begins at {base_offset}"
    computed = batch.computed_crc()
    if computed != batch.crc:
        return f"checksum {batch.crc:#010x} where the bytes give {computed:#010x}"
    return None
