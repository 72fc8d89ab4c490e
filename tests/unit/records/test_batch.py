"""A batch is read and patched in place; damaged bytes are detected."""

from __future__ import annotations

import struct

import pytest

from headrace.kernel.errors import CorruptBatch, ErrorCode, Fault
from headrace.records.batch import BatchView, TimestampType, batches
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.control import ControlType, build_end_txn_marker, read_control
from headrace.records.reader import read_records
from tests.support.logs import NOW_MS, a_batch


def test_setting_offset_and_epoch_keeps_the_checksum_valid() -> None:
    data = a_batch(3, codec=Codec.ZSTD)
    batch = BatchView(memoryview(data))
    batch.patch_place(1_000_000_000_000, 7)
    again = BatchView(memoryview(data))
    again.check_crc()
    assert (again.base_offset, again.last_offset, again.partition_leader_epoch) == (
        1_000_000_000_000,
        1_000_000_000_002,
        7,
    )
    assert [record.offset for record in read_records(again)] == [1_000_000_000_000 + at for at in range(3)]


def test_append_time_replaces_every_timestamp() -> None:
    batch = BatchView(memoryview(a_batch(3)))
    batch.patch_log_append_time(NOW_MS + 500)
    batch.check_crc()
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in read_records(batch)} == {NOW_MS + 500}


def test_every_flipped_bit_of_a_batch_is_detected() -> None:
    sound = bytes(a_batch(2))
    for at in range(8, len(sound)):
        # The checksum does not cover the leader epoch, because the broker sets it.
        if 12 <= at < 16:
            continue
        data = bytearray(sound)
        data[at] ^= 0x10
        with pytest.raises(Fault):
            for batch in batches(memoryview(data)):
                batch.check_crc()


@pytest.mark.parametrize("size", range(1, 100))
def test_batch_truncated_at_any_byte_is_corrupt(size: int) -> None:
    data = a_batch(3, value=b"x" * 40)[:size]
    with pytest.raises(CorruptBatch):
        list(batches(memoryview(data)))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_unsupported(magic: int) -> None:
    data = a_batch()
    data[16] = magic
    with pytest.raises(Fault) as refusal:
        list(batches(memoryview(data)))
    assert refusal.value.code is ErrorCode.unsupported_for_message_format


def test_consecutive_batches_are_iterated_in_order() -> None:
    one, two = build_batch([Record(b"a", None)], base_offset=5), build_batch([Record(None, b"b")], base_offset=9)
    assert [batch.base_offset for batch in batches(memoryview(one + two))] == [5, 9]


def test_sequences_wrap_to_zero_after_the_largest() -> None:
    batch = BatchView(memoryview(a_batch(3, producer=(1, 0, 2**31 - 2))))
    assert batch.last_sequence == 0


@pytest.mark.parametrize(("commit", "kind"), [(True, ControlType.COMMIT), (False, ControlType.ABORT)])
def test_marker_type_is_commit_or_abort(commit: bool, kind: ControlType) -> None:
    batch = BatchView(
        memoryview(build_end_txn_marker(commit, 12, producer_id=4, producer_epoch=3, timestamp_ms=NOW_MS))
    )
    assert batch.is_control and batch.is_transactional and (batch.producer_id, batch.producer_epoch) == (4, 3)
    control = read_control(read_records(batch)[0])
    assert (control.type, control.coordinator_epoch, control.ends_transaction) == (kind, 12, True)


def test_control_record_of_a_newer_type_is_unknown() -> None:
    record = Record(struct.pack(">hh", 0, 99), b"")
    assert read_control(record).type is ControlType.UNKNOWN
