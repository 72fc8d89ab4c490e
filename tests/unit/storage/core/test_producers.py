"""Sequences and transactions of a partition: the error codes equal Kafka's."""

from __future__ import annotations

import pytest

from headrace.kernel.errors import ErrorCode, Fault
from headrace.records.batch import BatchView
from headrace.records.control import build_end_txn_marker
from headrace.storage.core.producers import Producers
from tests.support.logs import NOW_MS, a_batch


class Partition:
    """Appends like a log: checks the batch, then updates the state."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.end = 0
        self.now_ms: int | None = NOW_MS  # None: a replica, which is not told the time

    def send(self, sequence: int, count: int = 1, *, epoch: int = 0, pid: int = 1, txn: bool = False) -> int:
        batch = BatchView(memoryview(a_batch(count, producer=(pid, epoch, sequence), transactional=txn)))
        duplicate = self.producers.check(batch)
        if duplicate is not None:
            return duplicate.first_offset
        batch.patch_place(self.end, 0)
        self.producers.appended(batch, self.now_ms)
        self.end += count
        return batch.base_offset

    def end_txn(
        self, *, commit: bool = True, epoch: int = 0, pid: int = 1, coordinator: int = 0, version: int = 0
    ) -> None:
        self.producers.check_marker(pid, epoch, coordinator, version)
        batch = BatchView(memoryview(bytearray(build_end_txn_marker(commit, coordinator, pid, epoch, NOW_MS))))
        batch.patch_place(self.end, 0)
        self.producers.marker_appended(batch, commit=commit, coordinator_epoch=coordinator)
        self.end += 1


@pytest.fixture
def partition() -> Partition:
    return Partition()


def code_of(refusal: pytest.ExceptionInfo[Fault]) -> ErrorCode:
    return refusal.value.code


def test_duplicate_batch_is_answered_with_its_first_offset(partition: Partition) -> None:
    offsets = [partition.send(sequence, 2) for sequence in range(0, 10, 2)]
    assert [partition.send(sequence, 2) for sequence in range(0, 10, 2)] == offsets
    assert partition.end == 10


def test_only_the_last_five_batches_are_remembered(partition: Partition) -> None:
    for sequence in range(6):
        partition.send(sequence)
    assert partition.send(1) == 1
    with pytest.raises(Fault) as refusal:
        partition.send(0)
    assert code_of(refusal) is ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("sequence", [1, 2, 9])
def test_a_gap_or_an_overlap_is_out_of_order(partition: Partition, sequence: int) -> None:
    partition.send(0, 3)
    with pytest.raises(Fault) as refusal:
        partition.send(sequence if sequence != 9 else 4, 2)
    assert code_of(refusal) is ErrorCode.out_of_order_sequence_number
    assert partition.send(3, 2) == 3


def test_sequence_continues_at_zero_after_the_largest(partition: Partition) -> None:
    partition.send(2**31 - 3, 2)
    assert partition.send(2**31 - 1, 1) == 2
    assert partition.send(0, 4) == 3
    assert partition.send(0, 4) == 3, "still a repetition"


def test_sequences_may_wrap_inside_a_batch(partition: Partition) -> None:
    partition.send(2**31 - 2, 4)
    assert partition.send(2, 1) == 4


def test_unknown_producer_may_begin_with_any_sequence(partition: Partition) -> None:
    assert partition.send(500) == 0


def test_new_producer_epoch_begins_at_sequence_zero_and_fences_the_old(partition: Partition) -> None:
    partition.send(0)
    with pytest.raises(Fault) as refusal:
        partition.send(1, epoch=1)
    assert code_of(refusal) is ErrorCode.out_of_order_sequence_number
    partition.send(0, epoch=1)
    with pytest.raises(Fault) as refusal:
        partition.send(1, epoch=0)
    assert code_of(refusal) is ErrorCode.invalid_producer_epoch


def test_last_stable_offset_is_before_the_first_open_transaction(partition: Partition) -> None:
    producers = partition.producers
    partition.send(0, pid=1)
    assert producers.first_unstable_offset is None
    partition.send(0, pid=2, txn=True)
    partition.send(0, pid=3, txn=True)
    assert producers.first_unstable_offset == 1
    partition.end_txn(pid=2)
    assert producers.first_unstable_offset == 1, "its marker is not replicated yet"
    producers.high_watermark_advanced(partition.end)
    assert producers.first_unstable_offset == 2
    partition.end_txn(pid=3, commit=False)
    producers.high_watermark_advanced(partition.end)
    assert producers.first_unstable_offset is None


def test_a_marker_from_an_old_coordinator_or_producer_is_fenced(partition: Partition) -> None:
    partition.send(0, epoch=4, txn=True)
    partition.end_txn(epoch=4, coordinator=7)
    with pytest.raises(Fault) as refusal:
        partition.end_txn(epoch=4, coordinator=6)
    assert code_of(refusal) is ErrorCode.transaction_coordinator_fenced
    with pytest.raises(Fault) as refusal:
        partition.end_txn(epoch=3, coordinator=8)
    assert code_of(refusal) is ErrorCode.invalid_producer_epoch


def test_duplicate_marker_is_accepted_only_without_an_open_transaction(partition: Partition) -> None:
    partition.send(0, epoch=4, txn=True)
    partition.end_txn(epoch=5, version=2)
    partition.end_txn(epoch=5, version=2)
    partition.send(0, epoch=5, txn=True)
    with pytest.raises(Fault) as refusal:
        partition.end_txn(epoch=5, version=2)
    assert code_of(refusal) is ErrorCode.invalid_producer_epoch
    assert partition.producers.has_ongoing(1, 5)


def test_a_batch_outside_of_the_open_transaction_is_refused(partition: Partition) -> None:
    partition.send(0, txn=True)
    with pytest.raises(Fault) as refusal:
        partition.send(1)
    assert code_of(refusal) is ErrorCode.invalid_txn_state


def test_first_batch_of_a_version_2_transaction_has_sequence_0(partition: Partition) -> None:
    for _ in range(2):  # the second time the state knows its producer from the marker only
        partition.producers.start_verification(1, 1, 3, supports_epoch_bump=True, now_ms=NOW_MS)
        with pytest.raises(Fault) as refusal:
            partition.send(3, epoch=1, txn=True)
        assert code_of(refusal) is ErrorCode.out_of_order_sequence_number
        partition.end_txn(epoch=1, commit=False, version=2)
    partition.producers.start_verification(1, 1, 0, supports_epoch_bump=True, now_ms=NOW_MS)
    partition.send(0, epoch=1, txn=True)


def test_epoch_of_a_marker_fences_older_batches_of_the_producer(partition: Partition) -> None:
    partition.send(0, epoch=0, txn=True)
    partition.end_txn(epoch=1, commit=False)
    with pytest.raises(Fault) as refusal:
        partition.send(1, epoch=0, txn=True)
    assert code_of(refusal) is ErrorCode.invalid_producer_epoch
    partition.send(0, epoch=1, txn=True)


def test_idle_producers_expire_unless_they_have_an_open_transaction(partition: Partition) -> None:
    partition.send(0, pid=1)
    partition.send(0, pid=2, txn=True)
    assert partition.producers.expire(NOW_MS + 999, 1000) == 0
    assert partition.producers.expire(NOW_MS + 1000, 1000) == 1
    assert list(partition.producers.entries) == [2]


def test_a_producer_of_old_records_expires_after_its_last_write(partition: Partition) -> None:
    """Copies of old records are not old writes: a retry must still be found."""
    later_ms = NOW_MS + 86_400_000
    partition.now_ms = later_ms
    partition.send(0)
    assert partition.producers.expire(later_ms + 999, 1000) == 0 and partition.send(0) == 0
    assert partition.producers.expire(later_ms + 1000, 1000) == 1


def test_a_replica_counts_the_idle_time_from_its_next_check(partition: Partition) -> None:
    later_ms = NOW_MS + 86_400_000
    partition.now_ms = None
    partition.send(0)
    assert partition.producers.expire(later_ms, 1000) == 0
    partition.send(1)
    assert [partition.producers.expire(later_ms + more, 1000) for more in (1000, 1999, 2000)] == [0, 0, 1]


def test_transaction_is_verified_once_with_its_own_guard(partition: Partition) -> None:
    producers = partition.producers
    guard = producers.start_verification(1, 0, 0, supports_epoch_bump=False, now_ms=NOW_MS)
    assert guard is not None and producers.verified(1, guard) and not producers.verified(1, object())
    assert producers.start_verification(1, 0, 5, supports_epoch_bump=False, now_ms=NOW_MS) is guard
    with pytest.raises(Fault) as refusal:
        partition.send(5, txn=True)
    assert code_of(refusal) is ErrorCode.out_of_order_sequence_number, "an earlier batch is still being verified"
    partition.send(0, txn=True)
    assert not producers.verified(1, guard)
    assert producers.start_verification(1, 0, 1, supports_epoch_bump=False, now_ms=NOW_MS) is None, "it is open now"


def test_fenced_producer_does_not_block_its_successor(partition: Partition) -> None:
    partition.send(0, epoch=1, txn=True)
    assert partition.producers.start_verification(1, 0, 0, supports_epoch_bump=True, now_ms=NOW_MS) is None
    with pytest.raises(Fault) as refusal:
        partition.send(0, epoch=0, txn=True)
    assert code_of(refusal) is ErrorCode.invalid_producer_epoch
    assert partition.send(1, epoch=1, txn=True) == 1


@pytest.mark.parametrize(
    ("supports_epoch_bump", "epoch", "is_kept"), [(True, 1, True), (True, 2, False), (False, 1, False)]
)
def test_duplicate_marker_keeps_the_verification_of_the_next_version_2_transaction(
    partition: Partition, supports_epoch_bump: bool, epoch: int, is_kept: bool
) -> None:
    guard = partition.producers.start_verification(1, 1, 0, supports_epoch_bump=supports_epoch_bump, now_ms=NOW_MS)
    partition.end_txn(epoch=epoch, commit=False)
    assert partition.producers.verified(1, guard) is is_kept
