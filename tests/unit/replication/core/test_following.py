"""Where a follower truncates, which offsets it takes from the leader, and which replica a consumer reads from."""

from __future__ import annotations

import pytest

from headrace.kernel.errors import ErrorCode, FencedLeaderEpoch, Refused, UnknownLeaderEpoch
from headrace.replication.core.follower import follower_high_watermark, follower_log_start, truncation_point
from headrace.replication.core.leader import (
    EpochEnd,
    ReadableReplica,
    check_latest_offset_known,
    check_leader_epoch,
    divergence,
    preferred_read_replica,
)
from headrace.replication.core.throttle import RateLimit, ThrottledReplicas


def test_no_divergence_when_the_leader_holds_as_much_of_the_epoch() -> None:
    assert divergence(10, 3, EpochEnd(3, 10)) is None
    assert divergence(10, 3, EpochEnd(3, 15)) is None
    assert divergence(0, -1, EpochEnd(-1, -1)) is None, "an empty log agrees with every other"


def test_divergence_when_the_follower_holds_more_or_an_unknown_epoch() -> None:
    assert divergence(10, 3, EpochEnd(3, 8)) == EpochEnd(3, 8)
    assert divergence(10, 3, EpochEnd(2, 10)) == EpochEnd(2, 10)


def test_truncation_at_the_smaller_end_of_a_common_epoch() -> None:
    assert truncation_point(EpochEnd(3, 8), EpochEnd(3, 12), log_end=20) == 8
    assert truncation_point(EpochEnd(3, 12), EpochEnd(3, 8), log_end=20) == 8


def test_truncation_at_the_end_of_the_previous_epoch_if_the_epoch_is_unknown() -> None:
    assert truncation_point(EpochEnd(4, 15), EpochEnd(2, 6), log_end=20) == 6


def test_truncation_if_every_own_epoch_is_newer_than_the_leaders() -> None:
    assert truncation_point(EpochEnd(2, 5), EpochEnd(-1, -1), log_end=20) == 5


def test_follower_offsets_never_pass_its_log_end_or_high_watermark() -> None:
    assert follower_high_watermark(leader_high_watermark=9, log_end=5) == 5
    assert follower_log_start(leader_log_start=9, own_log_start=2, high_watermark=5) == 5
    assert follower_log_start(leader_log_start=1, own_log_start=2, high_watermark=5) == 2


def test_leader_epochs_are_fenced_both_ways() -> None:
    check_leader_epoch(-1, 5)
    check_leader_epoch(5, 5)
    with pytest.raises(FencedLeaderEpoch):
        check_leader_epoch(4, 5)
    with pytest.raises(UnknownLeaderEpoch):
        check_leader_epoch(6, 5)


def test_latest_offset_is_unavailable_below_the_epoch_start() -> None:
    check_latest_offset_known(10, 10)
    with pytest.raises(Refused) as refused:
        check_latest_offset_known(9, 10)
    assert refused.value.code is ErrorCode.offset_not_available


def replica(broker: int, rack: str, log_end: int, log_start: int = 0) -> ReadableReplica:
    return ReadableReplica(broker, rack, log_start, log_end, 0)


def test_consumer_reads_from_a_replica_in_its_rack_that_has_the_offset() -> None:
    replicas = {1: replica(1, "a", 10), 2: replica(2, "b", 10), 3: replica(3, "b", 8)}
    assert preferred_read_replica(1, "b", 9, replicas) == 2
    assert preferred_read_replica(1, "a", 9, replicas) == 1
    assert preferred_read_replica(1, "c", 9, replicas) == 1
    assert preferred_read_replica(1, None, 9, replicas) == 1
    assert preferred_read_replica(1, "b", 11, replicas) == 1, "nobody there holds it yet"


def test_throttled_replicas_are_a_list_or_all() -> None:
    some = ThrottledReplicas("0:101,1:102")
    assert some.holds(0, 101)
    assert not some.holds(0, 102)
    assert ThrottledReplicas("*").holds(7, 7)
    assert not ThrottledReplicas("").holds(0, 101)


def test_rate_is_measured_over_one_second() -> None:
    limit = RateLimit(1000)
    limit.spent(1500, now_ms=0)
    assert limit.exceeded(now_ms=0)
    assert limit.exceeded(now_ms=400)
    assert not limit.exceeded(now_ms=600)
    assert not RateLimit().exceeded(now_ms=0)
