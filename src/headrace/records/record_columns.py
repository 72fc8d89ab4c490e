"""Fields of many records at once, decoded with numpy.

A v2 record starts with its length, so a reader must walk from record to record in order. Many batches are walked side
by side: each step goes to the next record of all of them. A batch alone is walked by a small Python loop, or by one
step over many records of the same size. Everything else is decoded for all records at once. numpy has a fixed cost per
call, which dominates in small batches, so callers pass the sections of many batches in one buffer.

Every length is checked against the end of the section before it is used. The broker imports numpy only for compaction:
this module is not part of its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.kernel.errors import CorruptBatch
from headrace.kernel.plurals import counted

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# A shorter run of equal sizes is faster to walk record by record.
_SHORT_RUN: Final = 32
# For fewer batches a step of numpy over all of them costs more than a step of Python for each.
_SIDE_BY_SIDE: Final = 12
_BEYOND: Final = 1 << 30  # more bytes than a buffer with batches has


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
    counts = np.array([section.record_count for section in sections], np.int64)
    firsts = np.cumsum(counts) - counts
    begins = np.empty(int(counts.sum()), np.int64)
    left: Sequence[int] = range(len(sections))
    if len(sections) >= _SIDE_BY_SIDE:
        left = _side_by_side(bytes_, sections, counts, firsts, begins)
    for number in left:
        first = int(firsts[number])
        begins[first : first + sections[number].record_count] = _walked(data, bytes_, sections[number])
    try:
        sizes, starts = varints(bytes_, begins)
    except IndexError as error:
        raise CorruptBatch("the length of a record never ends") from error
    return begins, starts, starts + sizes


def _side_by_side(data: Bytes, sections: Sequence[Section], counts: Ints, firsts: Ints, begins: Ints) -> Sequence[int]:
    """Walks the sections in step and sets `begins`. Returns the numbers of the sections that must be walked singly.

    The step behind each prefix of two bytes is in a table. A length with more bytes has a step there that leads far
    beyond the section. Every step goes forward: a walk that ends exactly at the end of its section was inside it all
    the time, and the others are of sections with such lengths, or of damaged ones.
    """
    order = np.argsort(-counts, kind="stable")
    many_first = counts[order]
    # Fewer than twelve sections have more records than this. They are walked singly.
    steps = int(many_first[_SIDE_BY_SIDE - 1])
    at = np.array([section.begin for section in sections], np.int64)[order]
    stops = np.array([section.begin + section.length for section in sections], np.int64)[order]
    place = firsts[order]
    prefixes = np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))  # the two bytes that begin at each byte
    step_behind, last = _steps_behind_prefixes(), len(prefixes) - 1
    active = len(counts) - np.searchsorted(many_first[::-1], np.arange(steps), side="right")
    for still in active.tolist():
        now = at[:still]
        begins[place[:still]] = now
        place[:still] += 1
        now += step_behind[prefixes[np.minimum(now, last)]]
    left: list[int] = order[(at != stops) | (many_first > steps)].tolist()
    return sorted(left)


@cache
def _steps_behind_prefixes() -> npt.NDArray[np.int32]:
    """The size of a record with its length, for each two bytes that it may begin with."""
    prefix = np.arange(1 << 16)
    first, second = prefix & 0xFF, prefix >> 8
    two = np.where(second < 0x80, 2 + ((first & 0x7F | second << 7) >> 1), _BEYOND)
    return np.where(first < 0x80, 1 + (first >> 1), two).astype(np.int32)


def _walked(data: memoryview | bytes, bytes_: Bytes, section: Section) -> Ints:
    """Where each record of one section begins."""
    stop = section.begin + section.length
    at, places = _equal_steps(bytes_, section.begin, stop, section.record_count)
    singly: list[int] = []
    note = singly.append
    try:
        for _ in range(section.record_count - sum(map(len, places))):
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
    return np.concatenate([*places, np.array(singly, np.int64)])


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
