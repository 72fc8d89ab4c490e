"""A leader accepts a valid batch unchanged and refuses an invalid one with Kafka's error code."""

from __future__ import annotations

import struct

import pytest

from headrace.kernel.errors import ErrorCode, Fault
from headrace.records.batch import BatchView, TimestampType
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.control import build_end_txn_marker
from headrace.records.reader import read_records
from headrace.records.validation import BatchRules, admit, single_batch
from tests.support.logs import NOW_MS, a_batch


def taken(data: bytearray, rules: BatchRules | None = None, *, from_client: bool = True) -> BatchView:
    return admit(single_batch(memoryview(data)), rules or BatchRules(), NOW_MS, from_client=from_client)


def refused(data: bytearray, rules: BatchRules | None = None) -> ErrorCode:
    with pytest.raises(Fault) as refusal:
        taken(data, rules)
    assert refusal.value.message
    return refusal.value.code


def patched(data: bytearray, at: int, form: str, value: int) -> bytearray:
    struct.pack_into(form, data, at, value)
    BatchView(memoryview(data)).seal()
    return data


def test_valid_batch_is_accepted_unchanged() -> None:
    data = a_batch(4, codec=Codec.LZ4)
    before = bytes(data)
    assert taken(data).buffer.obj is data and bytes(data) == before


def test_a_wrong_checksum_is_corrupt() -> None:
    data = a_batch()
    data[-1] ^= 1
    assert refused(data) is ErrorCode.corrupt_message


def test_exactly_one_whole_batch_is_accepted() -> None:
    assert refused(bytearray()) is ErrorCode.invalid_record
    assert refused(a_batch() + a_batch()) is ErrorCode.invalid_record
    assert refused(a_batch()[:-1]) is ErrorCode.invalid_record
    assert refused(a_batch() + b"z" * 100) is ErrorCode.corrupt_message
    batch = taken(a_batch() + b"torn")
    assert batch.size_bytes == len(batch.buffer) == len(a_batch())


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_as_kafka_refuses_them(magic: int) -> None:
    data = a_batch()
    data[16] = magic
    assert refused(data) is ErrorCode.invalid_record


def test_random_bytes_instead_of_records_are_refused() -> None:
    data = a_batch(3)
    data[61:] = b"\xff" * (len(data) - 61)
    BatchView(memoryview(data)).seal()
    with pytest.raises(Fault):
        taken(data)
    assert refused(patched(patched(a_batch(3), 57, ">i", 1), 23, ">i", 0)) is ErrorCode.invalid_record


def test_base_offset_of_a_client_must_be_zero() -> None:
    assert refused(patched(a_batch(3), 0, ">q", 7)) is ErrorCode.invalid_record


def test_wrong_max_timestamp_in_the_header_is_corrected() -> None:
    batch = taken(patched(a_batch(2), 35, ">q", NOW_MS + 10**9))
    batch.check_crc()
    assert batch.max_timestamp_ms == NOW_MS + 1
    batch = taken(patched(a_batch(2), 21, ">h", 8))
    batch.check_crc()
    assert batch.timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize("count", [0, -1, 2**31 - 1])
def test_counts_that_contradict_the_offsets_are_refused(count: int) -> None:
    assert refused(patched(a_batch(3), 57, ">i", count)) is ErrorCode.invalid_record


@pytest.mark.parametrize("delta", [-1, 0, 1, 3])
def test_offset_deltas_that_are_not_consecutive_are_refused(delta: int) -> None:
    assert refused(patched(a_batch(3), 23, ">i", delta)) is ErrorCode.invalid_record


def test_length_and_magic_are_checked_before_anything_is_read() -> None:
    for length in (-1, 0, 13, 48, 2**31 - 1):
        data = a_batch()
        struct.pack_into(">i", data, 8, length)
        assert refused(data) is (ErrorCode.corrupt_message if length < 50 else ErrorCode.invalid_record)
    data = a_batch()
    data[16] = 3
    assert refused(data) is ErrorCode.corrupt_message


def test_only_coordinators_may_write_markers() -> None:
    marker = bytearray(build_end_txn_marker(True, 1, 2, 3, NOW_MS))
    assert refused(bytearray(marker)) is ErrorCode.invalid_record
    assert taken(marker, from_client=False).is_control


def test_a_producer_id_needs_a_sequence_and_a_transaction_a_producer_id() -> None:
    assert refused(a_batch(producer=(5, 0, -1))) is ErrorCode.invalid_record
    assert refused(a_batch(transactional=True)) is ErrorCode.invalid_record


def test_a_compacted_topic_refuses_records_without_a_key() -> None:
    rules = BatchRules(keys_required=True)
    for codec in Codec:
        assert refused(a_batch(2, key=None, codec=codec), rules) is ErrorCode.invalid_record
        taken(a_batch(2, codec=codec), rules)


def test_timestamps_outside_the_bounds_are_refused() -> None:
    rules = BatchRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
    taken(a_batch(2, timestamps=[NOW_MS - 1000, NOW_MS + 500]), rules)
    taken(a_batch(1, timestamps=[-1]), rules)
    assert refused(a_batch(2, timestamps=[NOW_MS, NOW_MS + 501]), rules) is ErrorCode.invalid_timestamp
    assert refused(a_batch(2, timestamps=[NOW_MS, NOW_MS - 1001]), rules) is ErrorCode.invalid_timestamp


def test_append_time_ignores_the_clients_clock() -> None:
    rules = BatchRules(timestamp_type=TimestampType.LOG_APPEND_TIME, timestamp_after_max_ms=0)
    batch = taken(a_batch(2, timestamps=[5, 2**45]), rules)
    batch.check_crc()
    assert [record.timestamp_ms for record in read_records(batch)] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("wanted", list(Codec))
def test_a_topic_with_its_own_codec_recompresses(wanted: Codec) -> None:
    records = [Record(b"k%d" % at, b"v" * 50, (("h", None),), NOW_MS + at) for at in range(9)]
    for codec in Codec:
        data = bytearray(
            build_batch(records, codec=codec, producer_id=3, producer_epoch=1, base_sequence=8, transactional=True)
        )
        batch = taken(data, BatchRules(codec=wanted))
        batch.check_crc()
        assert (batch.codec, batch.producer_id, batch.base_sequence, batch.is_transactional) == (wanted, 3, 8, True)
        assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in read_records(batch)] == [
            (r.key, r.value, r.headers, r.timestamp_ms) for r in records
        ]


def test_records_that_cannot_be_decompressed_are_invalid_if_the_topic_reads_them() -> None:
    data = a_batch(3, codec=Codec.ZSTD)
    data[61:] = b"\x00" * (len(data) - 61)
    BatchView(memoryview(data)).seal()
    assert refused(data, BatchRules(keys_required=True)) is ErrorCode.invalid_record
