"""aiokafka's codec reads Headrace's batches, and Headrace reads aiokafka's."""

from __future__ import annotations

import contextlib

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.errors import CorruptBatch, Fault
from headrace.records import raw
from headrace.records.batch import HEADER_BYTES, BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.reader import read_records

optional_bytes = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3).map(tuple)
timestamps = st.integers(0, 2**41)
some_records = st.lists(st.builds(Record, optional_bytes, optional_bytes, headers, timestamps), min_size=1, max_size=20)
codecs = st.sampled_from(list(Codec))
# Other packages write different Xerial and lz4 frames; the reader must accept them all.
ALL_CODECS = list(Codec)


def plain(record: Record) -> tuple[object, ...]:
    return record.key, record.value, record.headers, record.timestamp_ms


@given(some_records, codecs, st.integers(0, 2**50), st.integers(-1, 2**40), st.booleans())
def test_built_batch_is_read_back(
    records: list[Record], codec: Codec, base_offset: int, producer_id: int, transactional: bool
) -> None:
    data = build_batch(
        records,
        base_offset=base_offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=17,
        transactional=transactional,
    )
    batch = BatchView(memoryview(data))
    batch.check_crc()
    read = read_records(batch)
    assert [plain(record) for record in read] == [plain(record) for record in records]
    assert [record.offset for record in read] == list(range(base_offset, base_offset + len(records)))
    assert batch.max_timestamp_ms == max(record.timestamp_ms for record in records)
    assert (batch.codec, batch.is_transactional, batch.producer_id) == (codec, transactional, producer_id)


@given(some_records, codecs)
def test_aiokafka_reads_what_we_build(records: list[Record], codec: Codec) -> None:
    theirs = MemoryRecords(build_batch(records, codec=codec, base_offset=5)).next_batch()
    assert theirs is not None and theirs.validate_crc()
    read = [(r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in theirs]
    assert read == [(*plain(record), 5 + at) for at, record in enumerate(records)]


@pytest.mark.parametrize("codec", ALL_CODECS)
@settings(max_examples=25)
@given(records=some_records)
def test_we_read_what_aiokafka_builds(codec: Codec, records: list[Record]) -> None:
    builder = DefaultRecordBatchBuilder(
        2,
        int(codec),
        is_transactional=False,
        producer_id=9,
        producer_epoch=1,
        base_sequence=4,
        batch_size=1 << 20,
    )
    for at, record in enumerate(records):
        assert builder.append(at, record.timestamp_ms, record.key, record.value, list(record.headers)) is not None
    batch = BatchView(memoryview(bytes(builder.build())))
    batch.check_crc()
    assert [plain(record) for record in read_records(batch)] == [plain(record) for record in records]


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_both_agree_on_a_large_batch(codec: Codec) -> None:
    records = [Record(b"%d" % at, bytes([at % 251]) * 700, (), 1_700_000_000_000 + at) for at in range(500)]
    data = build_batch(records, codec=codec)
    theirs = DefaultRecordBatch(bytearray(data))
    assert [(r.key, r.value) for r in theirs] == [(r.key, r.value) for r in read_records(BatchView(memoryview(data)))]


@given(some_records, st.data())
def test_damaged_record_section_raises_only_faults(records: list[Record], data: st.DataObject) -> None:
    raw = bytearray(build_batch(records))
    position = data.draw(st.integers(57, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))
    try:
        read_records(BatchView(memoryview(raw)))
    except Fault as fault:
        assert isinstance(fault, CorruptBatch)


@given(some_records, codecs, st.integers(0, 2**40), st.data())
def test_dropping_records_of_a_batch_keeps_the_others_unchanged(
    records: list[Record], codec: Codec, base_offset: int, data: st.DataObject
) -> None:
    """As in compaction: finds the byte ranges of records and drops some, twice."""
    batch = BatchView(memoryview(build_batch(records, base_offset=base_offset, codec=codec)))
    expected = [(base_offset + at, *plain(record)) for at, record in enumerate(records)]
    for horizon_ms in (None, 1_700_000_000_000):
        found = raw.layout(batch)
        assert list(found.offsets) == [offset for offset, *_ in expected]
        assert found.keys == [key for _, key, *_ in expected]
        assert found.tombstones == [at for at, (_, _, value, *_) in enumerate(expected) if value is None]
        kept = sorted(data.draw(st.sets(st.sampled_from(range(len(expected))), min_size=1)))
        batch = BatchView(memoryview(raw.rebuilt(batch, found, kept, horizon_ms)))
        batch.check_crc()
        expected = [expected[at] for at in kept]
        assert [(record.offset, *plain(record)) for record in read_records(batch)] == expected
        assert batch.max_timestamp_ms == max(timestamp_ms for *_, timestamp_ms in expected)  # type: ignore[type-var]
        assert (batch.base_offset, batch.last_offset) == (base_offset, base_offset + len(records) - 1)


@given(some_records, st.data())
def test_layout_of_damaged_records_raises_only_faults(records: list[Record], data: st.DataObject) -> None:
    damaged = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(HEADER_BYTES, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        found = raw.layout(BatchView(memoryview(damaged)))
        assert found.starts[-1] == len(found.section) and len(found.keys) == len(records)
