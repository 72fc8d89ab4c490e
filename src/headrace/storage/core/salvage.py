"""Finds valid batches among damaged bytes. Pure.

A batch has no start marker, so the search tries every byte that could be the magic of a header. A batch is valid if
its checksum is. Recovery never continues a log behind a bad byte; this search is for people who look for lost records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from headrace.records.batch import CURRENT_MAGIC, HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchView

_MAGIC_AT: Final = 16
# Magic 2, any checksum, attributes with only the seven lowest bits in use.
_HEADER: Final = re.compile(rb"\x02.{4}\x00[\x00-\x7f]", re.DOTALL)
_NOT_ZERO: Final = re.compile(rb"[^\x00]")


def good_batches(data: memoryview, start: int = 0) -> Iterator[BatchView]:
    """Every batch from `start` on with a valid checksum, in file order."""
    at = start
    while (found := _HEADER.search(data, at + _MAGIC_AT)) is not None:
        at = found.start() - _MAGIC_AT
        if _is_good(data, at):
            batch = BatchView(data, at)
            yield batch
            at += batch.size_bytes
        else:
            at += 1


def _is_good(data: memoryview, at: int) -> bool:
    if at + HEADER_BYTES > len(data):
        return False
    batch = BatchView(data, at)
    if batch.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or at + batch.size_bytes > len(data):
        return False
    plausible = batch.base_offset >= 0 and 0 <= batch.record_count <= batch.last_offset_delta + 1
    return plausible and batch.computed_crc() == batch.crc


def is_torn_batch(tail: memoryview) -> bool:
    """Whether the bytes behind the last good batch are only one batch whose write did not finish.

    They contain no whole batch, so cutting them loses no readable record. Zeros are preallocated space.
    """
    if _NOT_ZERO.search(tail) is None or len(tail) < HEADER_BYTES:
        return True
    first = BatchView(tail)
    reaches_past_the_end = first.magic == CURRENT_MAGIC and first.size_bytes > len(tail)
    return reaches_past_the_end and next(good_batches(tail, 1), None) is None
