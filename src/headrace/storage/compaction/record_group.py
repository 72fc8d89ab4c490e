"""The records of several batches, decoded together: what compaction must know of each record, as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.kernel.errors import CorruptBatch
from headrace.records import raw
from headrace.records.batch import CODEC_MASK, HEADER_BYTES, BatchView
from headrace.records.reader import SMALLEST_BODY_BYTES, opened_section
from headrace.records.record_columns import Ints, Section, record_bounds, varints


class RecordGroup:
    """Batches with at least one record each, in offset order, inside one buffer.

    `edges[i]` is the index of the first record of batch i, and `edges[-1]` the number of records. A record is at bytes
    `begins` to `ends` of `buffer`.
    """

    def __init__(self, batches: Sequence[BatchView]) -> None:
        """Raises CorruptBatch unless each batch holds exactly the records that its header counts."""
        self.batches = batches
        counts = [batch.record_count for batch in batches]
        self.edges = np.concatenate([[0], np.cumsum(counts)])
        try:
            self.buffer, sections = _sections(batches)
            self.begins, bodies, self.ends = record_bounds(self.buffer, sections)
            self.data = np.frombuffer(self.buffer, np.uint8)
            self._decode(bodies, counts)
        except CorruptBatch:
            # The batches were decoded together, and the fault does not always name the batch.
            for batch in batches:
                raw.layout(batch)
            raise

    def _decode(self, bodies: Ints, counts: Sequence[int]) -> None:
        try:
            self.timestamp_deltas, at = varints(self.data, bodies + 1)
            deltas, at = varints(self.data, at)
            self.key_lengths, self.key_at = varints(self.data, at)
            value_lengths, at = varints(self.data, self.key_at + np.maximum(self.key_lengths, 0))
        except IndexError as error:
            raise CorruptBatch("the records of a batch end too early") from error
        if (at > self.ends).any():
            raise CorruptBatch("a record does not fit its length")
        self.are_tombstones = value_lengths < 0
        numbers = np.arange(len(deltas)) - np.repeat(self.edges[:-1], counts)
        # Offsets inside a batch rise. If there are as many records as offsets, each delta is the record's number.
        dense = np.repeat([batch.record_count == batch.last_offset_delta + 1 for batch in self.batches], counts)
        bases = np.repeat([batch.base_offset for batch in self.batches], counts)
        self.offsets = bases + np.where(dense, numbers, deltas)

    def spread(self, of_batches: Sequence[bool]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """A fact of each batch for each of its records."""
        return np.repeat(np.array(of_batches, bool), np.diff(self.edges))


def _sections(batches: Sequence[BatchView]) -> tuple[memoryview | bytes, list[Section]]:
    """One buffer with the records of all batches, and where they are: in place if no batch is compressed."""
    sections: list[Section] = []
    opened: list[bytes] | None = None
    if any(batch.attributes & CODEC_MASK for batch in batches):
        opened = [opened_section(batch) for batch in batches]
    at = 0
    for number, batch in enumerate(batches):
        if opened is None:
            at, length = batch.position + HEADER_BYTES, len(batch.records_section)
        else:
            length = len(opened[number])
        if batch.record_count * (SMALLEST_BODY_BYTES + 1) > length:
            raise CorruptBatch(f"{batch.record_count} records cannot be in {length} bytes")
        sections.append(Section(at, length, batch.record_count, batch.base_offset))
        at += length
    return batches[0].buffer if opened is None else b"".join(opened), sections
