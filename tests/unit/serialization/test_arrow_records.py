"""Batches to rows and rows to batches, compared with the record-by-record codec."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.blocking.produce import BatchProducer, Section
from headrace.kernel.errors import CorruptBatch
from headrace.kernel.ids import partition_for_key
from headrace.pipelines.sink.arrow_writer import encode_headers, partitions_for_keys, sections
from headrace.records.batch import HEADER_BYTES, BatchView, TimestampType
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.control import build_end_txn_marker
from headrace.records.reader import read_records
from headrace.records.visible import whole_batches
from headrace.serialization.arrow_records import Decoder, arrow_schema
from tests.support.unreadable_batches import Damage, unreadable_batch

_bytes = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=4).map(tuple)
_records = st.lists(
    st.builds(Record, key=_bytes, value=_bytes, headers=_headers, timestamp_ms=st.integers(0, 4_000_000_000_000)),
    min_size=1,
    max_size=30,
)


def rows_of(
    decoder: Decoder, data: bytes | bytearray, start: int = 0, end: int = 1 << 60, aborted: Any = ()
) -> list[dict[str, Any]]:
    return [
        row
        for batch in decoder.decode(memoryview(bytearray(data)), start, end, tuple(aborted))
        for row in batch.to_pylist()
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_records, st.sampled_from(list(Codec))), min_size=1, max_size=4))
def test_every_record_of_every_codec_arrives_unchanged(groups: list[tuple[list[Record], Codec]]) -> None:
    data, expected, offset = b"", [], 5
    for records, codec in groups:
        data += build_batch(records, base_offset=offset, codec=codec)
        for record in records:
            expected.append((offset, record))
            offset += 1
    rows = rows_of(Decoder("t", 3, include_headers=True), data)
    assert len(rows) == len(expected)
    for row, (at, record) in zip(rows, expected, strict=True):
        assert (row["key"], row["value"], row["offset"]) == (record.key, record.value, at)
        assert (row["topic"], row["partition"], row["timestampType"]) == ("t", 3, 0)
        assert int(row["timestamp"].timestamp() * 1000) in (record.timestamp_ms, record.timestamp_ms - 1)
        wanted = [{"key": k, "value": v} for k, v in record.headers] or None
        assert row["headers"] == wanted


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 150), st.integers(0, 20_000)), min_size=1, max_size=6),
    st.none() | st.tuples(st.integers(0, 500), st.binary(min_size=1, max_size=4)),
)
def test_runs_of_equal_sized_records_arrive_unchanged(
    runs: list[tuple[int, int]], damage: tuple[int, bytes] | None
) -> None:
    values = [b"%d" % number + b"x" * size for count, size in runs for number in range(count)]
    data = bytearray(build_batch([Record(None, value, timestamp_ms=1) for value in values], base_offset=7))
    decoder = Decoder("t", 0, check_crc=False)
    if damage is None:
        assert [(r["offset"], r["value"]) for r in rows_of(decoder, data)] == list(enumerate(values, 7))
        return
    at = HEADER_BYTES + damage[0] % (len(data) - HEADER_BYTES - 4)
    data[at : at + len(damage[1])] = damage[1]
    try:
        assert len(rows_of(decoder, data)) <= len(values)
    except CorruptBatch:
        pass


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_rows_do_not_depend_on_the_reused_fetch_buffer(codec: Codec) -> None:
    records = [Record(b"key %d" % i, b"value %d" % i, (("h", b"%d" % i),), timestamp_ms=i) for i in range(100)]
    buffer = bytearray(build_batch(records, codec=codec))
    decoded = list(Decoder("t", 0, include_headers=True).decode(memoryview(buffer), 0, 1 << 60))
    buffer[:] = bytes(len(buffer))
    rows = [row for batch in decoded for row in batch.to_pylist()]
    assert [(row["key"], row["value"], row["headers"][0]["value"]) for row in rows] == [
        (record.key, record.value, record.headers[0][1]) for record in records
    ]


def test_only_the_requested_offset_range_is_returned() -> None:
    data = build_batch([Record(None, b"%d" % i, timestamp_ms=1) for i in range(10)], base_offset=100)
    assert [row["offset"] for row in rows_of(Decoder("t", 0), data, 103, 107)] == [103, 104, 105, 106]
    assert rows_of(Decoder("t", 0), data, 200, 300) == []
    assert rows_of(Decoder("t", 0), data, 0, 100) == []


def test_log_append_time_of_the_batch_applies_to_every_record() -> None:
    records = [Record(b"k", b"v", timestamp_ms=ts) for ts in (5, 9, 7)]
    data = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME)
    rows = rows_of(Decoder("t", 0), data)
    assert {row["timestampType"] for row in rows} == {1}
    assert {int(row["timestamp"].timestamp() * 1000) for row in rows} == {9}


def transactional(offset: int, producer: int, *values: bytes) -> bytes:
    records = [Record(None, value, timestamp_ms=1) for value in values]
    return build_batch(
        records, base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    data = bytearray(build_end_txn_marker(commit, 0, producer, 0, 1))
    data[0:8] = offset.to_bytes(8, "big")
    return bytes(data)


def test_read_committed_omits_aborted_transactions_and_markers() -> None:
    data = (
        transactional(0, 7, b"aborted")
        + transactional(1, 8, b"kept")
        + marker(2, 7, commit=False)
        + transactional(3, 7, b"second try")
        + marker(4, 7, commit=True)
        + marker(5, 8, commit=True)
    )
    aborted = [(7, 0)]
    committed = rows_of(Decoder("t", 0), data, aborted=aborted)
    assert [row["value"] for row in committed] == [b"kept", b"second try"]
    everything = rows_of(Decoder("t", 0), data)
    assert [row["value"] for row in everything] == [b"aborted", b"kept", b"second try"]


def test_a_damaged_batch_is_named_with_its_offset() -> None:
    data = bytearray(build_batch([Record(b"k", b"value", timestamp_ms=1)], base_offset=42))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match=r"t-0: batch at offset 42: checksum 0x[0-9a-f]+, its bytes give"):
        rows_of(Decoder("t", 0), bytes(data))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("damage", Damage)
def test_unreadable_batch_is_named_with_its_offsets_and_a_remedy(codec: Codec, damage: Damage) -> None:
    good = build_batch([Record(b"k", b"value", timestamp_ms=1)], base_offset=41)
    bad = BatchView(memoryview(bytearray(unreadable_batch(codec, damage))))
    bad.patch_place(42, 0)
    with pytest.raises(CorruptBatch) as fault:
        rows_of(Decoder("t", 0), good + bytes(bad.data) + good)
    assert fault.value.message.startswith("t-0: the batch of offsets 42 to 44 cannot be read: ")
    assert fault.value.message.endswith("headrace log skip LOG_DIR/t-0 --offset 42")


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=60), st.integers(0, 80))
def test_damaged_records_raise_only_corrupt_batch(noise: bytes, at: int) -> None:
    data = bytearray(build_batch([Record(b"key", b"v" * 20, (("h", b"x"),), 1) for _ in range(4)]))
    at = HEADER_BYTES + at % (len(data) - HEADER_BYTES)
    data[at : at + len(noise)] = noise[: len(data) - at]
    try:
        rows_of(Decoder("t", 0, include_headers=True, check_crc=False), bytes(data))
    except (CorruptBatch, pa.ArrowInvalid):
        pass


def test_batch_with_a_wrong_size_is_refused() -> None:
    data = bytearray(build_batch([Record(b"k", b"v", timestamp_ms=1)]))
    data[57:61] = (1 << 30).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="1073741824 records cannot be in 9 bytes"):
        rows_of(Decoder("t", 0, check_crc=False), bytes(data))


def test_incomplete_batch_at_the_end_of_a_fetch_is_left_for_the_next() -> None:
    whole = build_batch([Record(None, b"v", timestamp_ms=1)], base_offset=3)
    assert whole_batches(memoryview(whole + whole[:30])) == (len(whole), 4)
    assert whole_batches(memoryview(whole[:30])) == (0, -1)


class _Captured(BatchProducer):
    """Encodes batches without a broker."""

    def __init__(self, codec: Codec) -> None:
        super().__init__(None, codec=codec)  # type: ignore[arg-type]

    def sealed(self, section: Section) -> bytes:
        return bytes(self._seal(("t", 0), section))


@settings(max_examples=60, deadline=None)
@given(_records, st.sampled_from(list(Codec)), st.integers(50, 2000))
def test_rows_encoded_together_decode_one_by_one(records: list[Record], codec: Codec, size: int) -> None:
    keys = pa.array([r.key for r in records], pa.binary())
    values = pa.array([r.value for r in records], pa.binary())
    column = pa.array([[{"key": k, "value": v} for k, v in r.headers] for r in records], arrow_schema(True)[7].type)
    times = np.array([r.timestamp_ms for r in records], np.int64)
    read: list[Record] = []
    for section in sections(keys, values, encode_headers(column), times, size):
        batch = BatchView(memoryview(_Captured(codec).sealed(section)))
        batch.check_crc()
        read += read_records(batch)
    assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in read] == [
        (r.key, r.value, r.headers, r.timestamp_ms) for r in records
    ]


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=50), st.integers(1, 60))
def test_keys_get_the_partitions_of_javas_producer(keys: list[bytes | None], count: int) -> None:
    expected = [-1 if key is None else partition_for_key(key, count) for key in keys]
    assert partitions_for_keys(pa.array(keys, pa.binary()), count).tolist() == expected
    assert partitions_for_keys(pa.array([b"x", *keys], pa.binary())[1:], count).tolist() == expected
