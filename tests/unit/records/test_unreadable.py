"""A batch whose records cannot be read: refused by validate.records, and named with its offsets by readers."""

from __future__ import annotations

import pytest

from headrace.kernel.errors import CorruptBatch, ErrorCode, Refused
from headrace.records.batch import BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.compression import MAX_DECOMPRESSED_BYTES, Codec, compress
from headrace.records.raw import layout
from headrace.records.reader import fault_in_records, first_unreadable, iter_records, read_records
from headrace.records.unreadable import UnreadableBatch
from headrace.records.validation import BatchRules, admit, single_batch
from tests.support.logs import NOW_MS, a_batch
from tests.support.unreadable_batches import Damage, unreadable_batch, with_section

READS = BatchRules(records_read=True)
CASES = [(codec, damage) for codec in Codec for damage in Damage]


def admitted(data: bytes, rules: BatchRules = READS) -> BatchView:
    return admit(single_batch(memoryview(bytearray(data))), rules, NOW_MS, from_client=True)


@pytest.mark.parametrize(("codec", "damage"), CASES)
def test_validate_records_refuses_the_batch_with_an_error_that_clients_do_not_retry(
    codec: Codec, damage: Damage
) -> None:
    with pytest.raises(Refused) as refused:
        admitted(unreadable_batch(codec, damage))
    assert refused.value.code is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("damage", Damage)
def test_by_default_a_compressed_batch_is_not_decompressed(codec: Codec, damage: Damage) -> None:
    data = unreadable_batch(codec, damage)
    assert bytes(admitted(data, BatchRules()).data) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [1, 3, 500])
def test_readable_batch_is_accepted_unchanged(codec: Codec, count: int) -> None:
    data = bytes(a_batch(count, codec=codec))
    assert bytes(admitted(data).data) == data


@pytest.mark.parametrize("rules", [BatchRules(keys_required=True), BatchRules(codec=Codec.ZSTD)])
def test_unreadable_batch_gets_the_same_error_for_every_rule_that_reads_records(rules: BatchRules) -> None:
    with pytest.raises(Refused) as refused:
        admitted(unreadable_batch(Codec.LZ4, Damage.GARBAGE), rules)
    assert refused.value.code is ErrorCode.invalid_record


def test_batch_that_decompresses_beyond_the_limit_is_refused() -> None:
    bomb = with_section(bytes(a_batch(1, codec=Codec.ZSTD)), compress(Codec.ZSTD, bytes(MAX_DECOMPRESSED_BYTES + 1)))
    assert len(bomb) < 100_000
    with pytest.raises(Refused, match="opens to more than"):
        admitted(bomb)


@pytest.mark.parametrize(("codec", "damage"), CASES)
def test_every_reader_names_the_offsets_of_an_unreadable_batch(codec: Codec, damage: Damage) -> None:
    view = BatchView(memoryview(bytearray(unreadable_batch(codec, damage))))
    view.patch_place(40, 1)
    fault = fault_in_records(view)
    assert isinstance(fault, UnreadableBatch) and (fault.base_offset, fault.last_offset) == (40, 42)
    with pytest.raises(UnreadableBatch, match="the batch of offsets 40 to 42 cannot be read: "):
        read_records(view)
    with pytest.raises(CorruptBatch, match="40"):
        layout(view)


def test_error_message_names_the_partition_the_next_offset_and_the_command() -> None:
    view = BatchView(memoryview(bytearray(unreadable_batch(Codec.GZIP, Damage.GARBAGE))))
    view.patch_place(40, 1)
    fault = fault_in_records(view)
    assert fault is not None
    sentence = fault.of("orders", 7).message
    assert sentence.startswith("orders-7: the batch of offsets 40 to 42 cannot be read: gzip data cannot be ")
    assert "start behind it at offset 43" in sentence
    assert sentence.endswith("headrace log skip LOG_DIR/orders-7 --offset 40")


def test_first_unreadable_batch_is_found() -> None:
    good = BatchView(memoryview(a_batch(2)))
    bad = BatchView(memoryview(bytearray(unreadable_batch(Codec.SNAPPY, Damage.NOISE))))
    found = first_unreadable([good, bad, bad])
    assert found is not None and found.record_count == 3
    assert first_unreadable([good]) is None


def test_records_before_the_damage_are_returned_first() -> None:
    """Iteration decodes lazily, so that a reader can show the records before the damage."""
    data = build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)] * 3)
    broken = BatchView(memoryview(bytearray(with_section(data, data[61:-4] + b"\xff\xff\xff\xff"))))
    records = iter_records(broken)
    assert next(records).value == b"v"
    with pytest.raises(UnreadableBatch):
        list(records)
