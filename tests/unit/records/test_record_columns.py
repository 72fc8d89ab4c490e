"""Where records begin and end: many batches side by side give the same as each batch alone, whole or damaged."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headrace.kernel.errors import CorruptBatch
from headrace.records import raw
from headrace.records.batch import HEADER_BYTES, BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.record_columns import Section, record_bounds


def batches_of(chance: random.Random, count: int, sizes: list[int], records: int) -> list[bytes]:
    return [
        build_batch(
            [
                Record(
                    b"k" * chance.randrange(9), chance.randbytes(chance.choice(sizes)), timestamp_ms=chance.randrange(9)
                )
                for _ in range(chance.randrange(1, records + 1))
            ],
            base_offset=number * records,
        )
        for number in range(count)
    ]


def sections_of(batches: list[bytes]) -> tuple[bytes, list[Section]]:
    """The batches one after the other with their headers, as in a file."""
    sections, at = [], 0
    for batch in batches:
        view = BatchView(memoryview(batch))
        sections.append(Section(at + HEADER_BYTES, len(batch) - HEADER_BYTES, view.record_count, view.base_offset))
        at += len(batch)
    return b"".join(batches), sections


@pytest.mark.parametrize("count", [1, 11, 12, 13, 60])
@pytest.mark.parametrize(
    "sizes", [[0], [20], [0, 50, 51, 52, 60, 61, 62, 63, 64], [100, 8_170, 8_180, 8_190, 9_000], [70_000, 3]], ids=str
)
def test_side_by_side_finds_what_each_alone_has(count: int, sizes: list[int]) -> None:
    chance = random.Random(count)
    for records in (1, 5, 70):
        batches = batches_of(chance, count, sizes, records)
        buffer, sections = sections_of(batches)
        begins, bodies, ends = record_bounds(buffer, sections)
        expected: list[int] = []
        for batch, section in zip(batches, sections, strict=True):
            expected += [section.begin + start for start in raw.layout(BatchView(memoryview(batch))).starts[:-1]]
        assert begins.tolist() == expected
        assert (begins < bodies).all()
        inner = np.setdiff1d(ends, begins)
        assert inner.tolist() == [section.begin + section.length for section in sections]


@pytest.mark.parametrize("count", [3, 30])
def test_a_section_with_a_wrong_number_of_records_is_refused(count: int) -> None:
    chance = random.Random(7)
    buffer, sections = sections_of(batches_of(chance, count, [3, 60, 64, 9_000], 20))
    for number in range(count):
        for wrong in (-1, 1, 2, 100):
            there = sections[number].record_count
            changed = [*sections]
            changed[number] = sections[number]._replace(record_count=max(1, there + wrong))
            if changed[number].record_count != there:
                with pytest.raises(CorruptBatch, match=f"offset {sections[number].base_offset}\\b"):
                    record_bounds(buffer, changed)


def test_a_batch_that_ends_early_before_a_long_prefix_is_refused() -> None:
    """Bytes behind the section look like the length of a large record, which has no step in the table."""
    one = build_batch([Record(None, b"x" * 10), Record(None, b"y" * 10)])
    payload = one[HEADER_BYTES:]
    buffer = b"".join(payload + b"\xff\xff\xff\x7f" for _ in range(20))
    step = len(payload) + 4
    good = [Section(number * step, len(payload), 2, number) for number in range(20)]
    assert len(record_bounds(buffer, good)[0]) == 40
    for number in range(20):
        bad = [*good]
        bad[number] = good[number]._replace(record_count=3)
        with pytest.raises(CorruptBatch):
            record_bounds(buffer, bad)


def test_changed_bytes_give_the_same_answer_as_each_batch_alone() -> None:
    chance = random.Random(3)
    batches = batches_of(chance, 16, [5, 60, 64, 200], 6)
    whole, sections = sections_of(batches)
    for _ in range(1_500):
        buffer = bytearray(whole)
        section = chance.choice(sections)
        buffer[section.begin + chance.randrange(section.length)] = chance.randrange(256)
        answers: list[object] = []
        for group in ([section], sections):
            try:
                begins, _, ends = record_bounds(bytes(buffer), group)
                here = (begins >= section.begin) & (begins < section.begin + section.length)
                answers.append((begins[here].tolist(), ends[here].tolist()))
            except CorruptBatch as fault:
                answers.append(str(fault))
        assert answers[0] == answers[1]
