"""Fields of many records at once, decoded with numpy.

A v2 record starts with its length, so a reader must walk from record to record in order. This walk is a small Python
loop, or one step over many records of the same size. Everything else is decoded for all records at once. numpy has a
fixed cost per call, which dominates in small batches, so callers pass the sections of many batches in one buffer.

Every length is checked against the end of the section before it is used. The broker imports numpy only for compaction:
this module is not part of its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.kernel.errors import CorruptBatch
from headrace.kernel.plurals import counted

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# A shorter run of equal sizes is faster to walk record by record.
_SHORT_RUN: Final = 32


class Section(NamedTuple):
    """The records of one batch, decompressed, inside a buffer."""

    begin: int
    length: int
    record_count: int
    base_offset: int  # names the batch in errors


def record_bounds(buffer: memoryview | bytes, sections: Sequence[Section]) -> tuple[Ints, Ints, Ints]:
    """Where each record begins, where its body begins behind the length, and where it ends. Raises CorruptBatch unless
    each section holds exactly its records."""
    data = buffer if isinstance(buffer, bytes) else buffer.cast("B")
    bytes_ = np.frombuffer(buffer, np.uint8)
    found: list[Ints] = []
    singly: list[int] = []  # records that the walk found one by one, of one section or of several
    for section in sections:
        stop = section.begin + section.length
        at, places = _equal_steps(bytes_, section.begin, stop, section.record_count)
        left = section.record_count
        if places:
            found += [np.array(singly, np.int64), *places]
            singly = []
            left -= sum(map(len, places))
        note = singly.append
        try:
            for _ in range(left):
                note(at)
                byte = data[at]
                if byte < 0x80:
                    at += 1 + (byte >> 1)
                    continue
                more = data[at + 1]
                if more < 0x80:
                    at += 2 + ((byte & 0x7F | more << 7) >> 1)
                    continue
                size, shift, at = byte & 0x7F | (more & 0x7F) << 7, 14, at + 2
                while more >= 0x80:
                    more = data[at]
                    at += 1
                    size |= (more & 0x7F) << shift
                    shift += 7
                at += size >> 1
        except IndexError:
            at = stop + 1
        if at > stop:
            raise CorruptBatch(f"a record in the batch at offset {section.base_offset} is longer than its batch")
        if at < stop:
            # As in Kafka's consumer. Otherwise records beyond the count in the batch header would be skipped silently.
            rest = counted(stop - at, "byte")
            raise CorruptBatch(f"{rest} after the last record of the batch at offset {section.base_offset}")
    begins = np.concatenate([*found, np.array(singly, np.int64)])
    try:
        sizes, starts = varints(bytes_, begins)
    except IndexError as error:
        raise CorruptBatch("the length of a record never ends") from error
    return begins, starts, starts + sizes


def _equal_steps(data: Bytes, begin: int, stop: int, count: int) -> tuple[int, list[Ints]]:
    """Steps over long runs of records with the same size, starting at `begin`. Returns where the walk continues, and
    the positions of these records.

    Two records with the same length prefix have the same size. So one numpy comparison of all positions where prefixes
    would be finds a run, up to the first that differs. Records of one size are common (measurements, fixed layouts),
    and their walk is then almost free. If sizes vary, the first run is short and the walk goes record by record.
    """
    at, places = begin, []
    while count > _SHORT_RUN:
        size, width = int(data[at]), 1
        if size >= 0x80 and at + 1 < stop:
            size, width = size & 0x7F | int(data[at + 1]) << 7, 2
        step = width + (size >> 1)
        if (width == 2 and data[at + 1] >= 0x80) or at + step > stop:
            break
        run = min(count, (stop - at) // step)
        prefixes = data[at : at + run * step : step]
        same = prefixes == prefixes[0]
        if width == 2:
            same &= data[at + 1 : at + 1 + (run - 1) * step + 1 : step] == data[at + 1]
        length = run if same.all() else int(np.argmin(same))
        if length < _SHORT_RUN:
            break
        places.append(at + step * np.arange(length, dtype=np.int64))
        at, count = at + length * step, count - length
    return at, places


def varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Decodes the zig-zag integers at these positions. Also returns the positions after them."""
    first = data[at].astype(np.int64)
    value, after, shift = first & 0x7F, at + 1, 7
    more = np.flatnonzero(first >= 0x80)
    while more.size:
        if shift > 63:
            raise IndexError("a variable-length integer that never ends")
        byte = data[after[more]].astype(np.int64)
        value[more] |= (byte & 0x7F) << shift
        after[more] += 1
        shift += 7
        more = more[byte >= 0x80]
    # The shift must be logical, because a 10-byte integer sets the sign bit.
    return (value.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(value & 1), after
