"""Share partitions: acquisition, delivery counts, acknowledgement, and the state after a restart."""

from __future__ import annotations

import pytest

from headrace.coordinators.codec.share_state import StateBatch
from headrace.coordinators.share.core.acquisition import Acquired, AcquireRequest, LogBatch
from headrace.coordinators.share.core.runs import RecordState, Run, Runs
from headrace.coordinators.share.core.sessions import Sessions
from headrace.coordinators.share.core.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    Changes,
    DeadRecords,
    SharePartition,
    check,
)
from headrace.coordinators.share.core.starting import StartingPoint, starting_point
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.share_states import KEY

ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


def ack(first: int, last: int, *kinds: AcknowledgeType) -> list[Acknowledgement]:
    return [Acknowledgement(first, last, kinds)]


def take(
    share_partition: SharePartition,
    member: str,
    *batches: tuple[int, int],
    most: int = 500,
    size: int = 500,
    strict: bool = False,
) -> list[Acquired]:
    """What a fetch gets that reads these batches, or as many as hold what comes next."""
    offset = share_partition.next_fetch_offset
    read = [LogBatch(*batch) for batch in batches if batch[1] >= offset]
    return share_partition.acquire(AcquireRequest(member, most, size, strict), offset, read, 0) if read else []


def durable(share_partition: SharePartition, changes: Changes) -> list[StateBatch]:
    if changes.number is not None:
        share_partition.done([changes.number])
    return changes.batches


def say(
    share_partition: SharePartition, member: str, first: int, last: int, *kinds: AcknowledgeType
) -> list[StateBatch]:
    return durable(share_partition, share_partition.acknowledge(member, ack(first, last, *kinds), 0))


def refusal(call: object) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    return refused.value.code


def test_one_member_at_a_time_acquires_a_record() -> None:
    share_partition = SharePartition(0)
    assert take(share_partition, "a", (0, 9)) == [Acquired(0, 9, 1)]
    assert take(share_partition, "b", (0, 9)) == []
    assert share_partition.next_fetch_offset == 10
    assert take(share_partition, "b", (0, 9), (10, 14)) == [Acquired(10, 14, 1)]


def test_the_start_offset_moves_over_accepted_records() -> None:
    share_partition = SharePartition(0)
    take(share_partition, "a", (0, 9))
    assert say(share_partition, "a", 5, 9, ACCEPT) == [StateBatch(5, 9, 2, 1)]
    assert share_partition.start_offset == 0
    say(share_partition, "a", 0, 4, ACCEPT)
    assert (share_partition.start_offset, share_partition.end_offset, len(share_partition.runs())) == (10, 9, 0)


def test_released_records_are_delivered_again_up_to_the_limit() -> None:
    share_partition = SharePartition(0, max_deliveries=3)
    for deliveries in (1, 2, 3):
        assert take(share_partition, "a", (0, 0)) == [Acquired(0, 0, deliveries)]
        say(share_partition, "a", 0, 0, RELEASE)
    assert take(share_partition, "a", (0, 0)) == [], "handed out three times: given up"
    assert share_partition.start_offset == 1


def test_rejected_records_are_never_delivered_again() -> None:
    share_partition = SharePartition(0)
    take(share_partition, "a", (0, 2))
    changes = say(share_partition, "a", 0, 2, ACCEPT, REJECT, GAP)
    assert changes == [StateBatch(0, 0, 2, 1), StateBatch(1, 1, 4, 1), StateBatch(2, 2, 4, 1)]
    assert share_partition.start_offset == 3


def test_an_expired_lock_releases_the_record_unless_it_was_renewed() -> None:
    share_partition = SharePartition(0, lock_ms=1_000)
    take(share_partition, "a", (0, 3))
    assert share_partition.next_expiry_ms == 1_000
    assert share_partition.acknowledge("a", ack(2, 3, RENEW), 600).batches == []
    assert share_partition.expire(999).batches == []
    assert share_partition.expire(1_000).batches == [StateBatch(0, 1, 0, 1)]
    assert take(share_partition, "b", (0, 3)) == [Acquired(0, 1, 2)]
    assert refusal(lambda: share_partition.acknowledge("a", ack(0, 1, ACCEPT), 1_100)) is ErrorCode.invalid_record_state
    say(share_partition, "a", 2, 3, ACCEPT)


def test_a_leaving_member_releases_its_records() -> None:
    share_partition = SharePartition(0)
    take(share_partition, "a", (0, 4))
    take(share_partition, "b", (5, 9))
    assert durable(share_partition, share_partition.release("a")) == [StateBatch(0, 4, 0, 1)]
    assert share_partition.next_fetch_offset == 0


def test_a_change_takes_effect_when_it_is_durable() -> None:
    share_partition = SharePartition(0, lock_ms=1_000)
    take(share_partition, "a", (0, 9))
    accepted = share_partition.acknowledge("a", ack(0, 4, ACCEPT), 0)
    released = share_partition.acknowledge("a", ack(5, 6, RELEASE), 0)
    assert accepted.number is not None and released.number is not None
    assert (share_partition.start_offset, share_partition.next_fetch_offset) == (0, 10), (
        "nobody gets what is on its way"
    )
    assert refusal(lambda: share_partition.acknowledge("a", ack(0, 4, ACCEPT), 0)) is ErrorCode.invalid_record_state
    assert share_partition.standing([released.number]).start_offset == 0, "the other change may fail"
    assert share_partition.standing([accepted.number, released.number]).start_offset == 5
    share_partition.done([released.number])
    assert (share_partition.start_offset, share_partition.next_fetch_offset) == (0, 5)


def test_after_a_failed_write_the_member_still_holds_the_records() -> None:
    share_partition = SharePartition(0, lock_ms=1_000, max_deliveries=2)
    take(share_partition, "a", (0, 9))
    changes = share_partition.acknowledge("a", [*ack(0, 4, ACCEPT), *ack(5, 9, RELEASE)], 0)
    assert changes.number is not None
    share_partition.undone([changes.number], now_ms=500)
    assert take(share_partition, "b", (0, 9)) == [] and share_partition.start_offset == 0
    assert say(share_partition, "a", 0, 4, ACCEPT) == [StateBatch(0, 4, 2, 1)], "it may say so again"
    late = share_partition.acknowledge("a", ack(5, 9, ACCEPT), 900)
    assert late.number is not None and share_partition.expire(1_000).batches == [], (
        "its lock is over, but it has spoken"
    )
    share_partition.undone([late.number], now_ms=1_000)
    assert take(share_partition, "b", (5, 9)) == [Acquired(5, 9, 2)]


def test_wrong_acknowledgements_change_nothing() -> None:
    share_partition = SharePartition(0)
    assert refusal(lambda: share_partition.acknowledge("a", ack(0, 4, ACCEPT), 0)) is ErrorCode.invalid_record_state
    take(share_partition, "a", (0, 4))
    before = share_partition.runs()
    assert refusal(lambda: share_partition.acknowledge("a", ack(0, 9, ACCEPT), 0)) is ErrorCode.invalid_request
    assert refusal(lambda: share_partition.acknowledge("b", ack(0, 9, ACCEPT), 0)) is ErrorCode.invalid_request
    assert refusal(lambda: share_partition.acknowledge("b", ack(0, 4, ACCEPT), 0)) is ErrorCode.invalid_record_state
    twice = [*ack(0, 2, ACCEPT), *ack(2, 4, ACCEPT)]
    assert refusal(lambda: share_partition.acknowledge("a", twice, 0)) is ErrorCode.invalid_record_state
    share_partition._runs.join()
    assert share_partition.runs() == before
    say(share_partition, "a", 0, 4, ACCEPT)
    assert say(share_partition, "a", 0, 4, ACCEPT) == [], "a late word about what is done with"


def test_invalid_acknowledgements_are_refused_without_reading_records() -> None:
    for wrong in (
        ack(3, 1, ACCEPT),
        ack(0, 4, ACCEPT, ACCEPT),
        ack(0, 0),
        [Acknowledgement(0, 0, (9,))],
        [*ack(5, 6, ACCEPT), *ack(0, 1, ACCEPT)],
        ack(0, 4, RENEW),
    ):
        assert refusal(lambda wrong=wrong: check(wrong, renews=False)) is ErrorCode.invalid_request
    check(ack(0, 4, RENEW), renews=True)
    check([*ack(0, 2, ACCEPT), *ack(2, 4, ACCEPT)], renews=False)


def test_the_number_of_acquired_records_is_limited() -> None:
    share_partition = SharePartition(0, max_locks=10)
    assert take(share_partition, "a", (0, 7), (8, 12), (13, 99)) == [Acquired(0, 12, 1)], "the last batch is not torn"
    assert not share_partition.has_room
    say(share_partition, "a", 5, 9, ACCEPT)
    assert not share_partition.has_room, "the front is still out"
    say(share_partition, "a", 3, 4, RELEASE)
    assert take(share_partition, "b", (0, 7), (8, 12), (13, 99)) == [Acquired(3, 4, 2)], (
        "what came back, and nothing new"
    )
    say(share_partition, "a", 0, 2, ACCEPT)
    say(share_partition, "b", 3, 4, ACCEPT)
    assert take(share_partition, "a", (13, 15), (16, 30), most=4) == [Acquired(13, 30, 1)]


def test_a_strict_limit_is_kept_to_the_record() -> None:
    share_partition = SharePartition(0)
    assert take(share_partition, "a", (0, 4), (5, 9), most=7, strict=True) == [Acquired(0, 6, 1)]
    assert share_partition.next_fetch_offset == 7
    durable(share_partition, share_partition.release("a"))
    assert take(share_partition, "b", (0, 4), (5, 9), (10, 19), most=3, strict=True) == [Acquired(0, 2, 2)]
    rest = [Acquired(3, 6, 2), Acquired(7, 9, 1), Acquired(10, 11, 1)]
    assert take(share_partition, "b", (0, 4), (5, 9), (10, 19), most=9, strict=True) == rest


def test_records_acquired_together_are_delivered_again_together() -> None:
    share_partition = SharePartition(0)
    assert take(share_partition, "a", (0, 4), (5, 9), (10, 19), most=6) == [Acquired(0, 9, 1)], "whole batches"
    assert take(share_partition, "a", (10, 19), (20, 24), (25, 29), size=5) == [
        Acquired(10, 19, 1),
        Acquired(20, 24, 1),
        Acquired(25, 29, 1),
    ]
    durable(share_partition, share_partition.release("a"))
    assert take(share_partition, "b", (0, 4), (5, 9), (10, 19), (20, 24), most=1) == [Acquired(0, 9, 2)]
    say(share_partition, "b", 3, 3, RELEASE)
    assert take(share_partition, "b", (0, 4), (5, 9), (10, 19), (20, 24), most=2) == [
        Acquired(3, 3, 3),
        Acquired(10, 19, 2),
    ]


def test_often_released_records_are_delivered_in_smaller_portions_and_finally_alone() -> None:
    share_partition = SharePartition(0, max_deliveries=5)
    for deliveries in (1, 2, 3):
        assert take(share_partition, "a", (0, 7)) == [Acquired(0, 7, deliveries)]
        durable(share_partition, share_partition.release("a"))
    assert take(share_partition, "a", (0, 7), (8, 9)) == [Acquired(0, 3, 4)], "half of them, and nothing beside"
    assert take(share_partition, "a", (0, 7), (8, 9)) == [Acquired(4, 7, 4)]
    assert take(share_partition, "a", (8, 9)) == [Acquired(8, 9, 1)]
    durable(share_partition, share_partition.release("a"))
    for offset in range(8):
        assert take(share_partition, "a", (0, 7), (8, 9)) == [Acquired(offset, offset, 5)]
        say(share_partition, "a", offset, offset, RELEASE if offset == 3 else ACCEPT)
    assert take(share_partition, "a", (0, 7), (8, 9)) == [Acquired(8, 9, 2)]
    assert share_partition.start_offset == 8, "the bad one is given up, the others were read"


def test_missing_offsets_do_not_block_the_start_offset() -> None:
    share_partition = SharePartition(0)
    assert take(share_partition, "a", (5, 9)) == [Acquired(5, 9, 1)], "0 to 4 were compacted away"
    say(share_partition, "a", 5, 9, ACCEPT)
    assert share_partition.start_offset == 10
    take(share_partition, "a", (10, 19))
    share_partition.log_start_moved(15)
    assert share_partition.start_offset == 15
    say(share_partition, "a", 10, 19, ACCEPT)
    assert share_partition.start_offset == 20
    take(share_partition, "a", (20, 24))
    take(share_partition, "a", (30, 34))
    assert say(share_partition, "a", 20, 34, ACCEPT), "nothing to say about what is not there"
    assert share_partition.start_offset == 35
    take(share_partition, "a", (35, 39))
    durable(share_partition, share_partition.release("a"))
    assert take(share_partition, "a", (38, 41)) == [Acquired(38, 39, 2), Acquired(40, 41, 1)], (
        "35 to 37 have gone since"
    )
    assert share_partition.start_offset == 38


def test_aborted_records_are_never_delivered() -> None:
    share_partition = SharePartition(0)
    assert share_partition.archive(2, 4).batches == [StateBatch(2, 4, 4, 0)]
    assert take(share_partition, "a", (0, 1), (2, 4), (5, 9)) == [Acquired(0, 1, 1), Acquired(5, 9, 1)]
    say(share_partition, "a", 0, 9, ACCEPT)
    assert share_partition.start_offset == 10


def test_a_new_leader_continues_from_the_durable_state() -> None:
    old = SharePartition(0)
    take(old, "a", (0, 9))
    changes = old.acknowledge("a", [*ack(2, 3, ACCEPT), *ack(6, 6, RELEASE)], 0)
    new = SharePartition(old.start_offset, changes.batches)
    assert [(r.first, r.last, r.state, r.deliveries) for r in new.runs()] == [
        (0, 1, RecordState.AVAILABLE, 0),
        (2, 3, RecordState.ACKNOWLEDGED, 1),
        (4, 5, RecordState.AVAILABLE, 0),
        (6, 6, RecordState.AVAILABLE, 1),
    ]
    assert take(new, "b", (0, 9)) == [Acquired(0, 1, 1), Acquired(4, 5, 1), Acquired(6, 6, 2), Acquired(7, 9, 1)]


# Sessions and settings


def test_session_epochs_advance_by_one() -> None:
    sessions = Sessions(limit=2)
    a, b = (KEY.topic_id, 0), (KEY.topic_id, 1)
    session = sessions.begin("g", "m", [a, b])
    assert session.in_turn(0) == [a, b] and session.in_turn(1) == [b, a]
    sessions.advance("g", "m", 1)
    assert refusal(lambda: sessions.advance("g", "m", 1)) is ErrorCode.invalid_share_session_epoch
    assert refusal(lambda: sessions.advance("g", "x", 1)) is ErrorCode.share_session_not_found
    sessions.begin("g", "n", [a])
    assert refusal(lambda: sessions.begin("g", "o", [a])) is ErrorCode.share_session_limit_reached
    sessions.begin("g", "n", [a])
    assert len(sessions) == 2, "a member that begins anew needs no room"
    sessions.end("g", "n")
    sessions.begin("g", "o", [a])
    sessions.end("g", "o")
    assert refusal(lambda: sessions.end("g", "o")) is ErrorCode.share_session_not_found


def test_a_partition_without_news_is_in_one_answer() -> None:
    a, b = (KEY.topic_id, 0), (KEY.topic_id, 1)
    session = Sessions(limit=1).begin("g", "m", [a])
    session.add(a)
    session.add(b)
    told = [session.told(p, has_records=False, is_error=False) for p in (a, b, b)]
    assert told == [False, True, False], "only what was added since has to be answered"
    assert session.told(a, has_records=True, is_error=False)
    assert session.in_turn(0) == [b, a], "it had its turn"
    assert session.told(b, has_records=False, is_error=True) and session.told(b, has_records=False, is_error=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", StartingPoint.LATEST),
        ("EARLIEST", StartingPoint.EARLIEST),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2M3.5S", 86_400_000 + 120_000 + 3_500),
        ("nonsense", StartingPoint.LATEST),
    ],
)
def test_start_offset_of_a_new_share_partition(text: str, expected: int) -> None:
    assert starting_point(text) == expected


def test_runs_split_join_and_replace() -> None:
    runs = Runs()
    runs.put(Run(0, 9, RecordState.AVAILABLE))
    runs.put(Run(3, 5, RecordState.ARCHIVED))
    assert [(r.first, r.last) for r in runs] == [(0, 2), (3, 5), (6, 9)]
    runs.put(Run(3, 5, RecordState.AVAILABLE))
    runs.join()
    assert [(r.first, r.last) for r in runs] == [(0, 9)]
    runs.drop_before(4)
    assert [(r.first, r.last) for r in runs] == [(4, 9)]


# Dead records: rejected, or delivered too often


def test_dead_records_are_named_once_when_a_group_has_dead_letters() -> None:
    share_partition = SharePartition(0, max_deliveries=2, names_dead=True)
    take(share_partition, "a", (0, 5))
    changes = share_partition.acknowledge("a", ack(0, 5, ACCEPT, REJECT, GAP, RELEASE, RELEASE, REJECT), 0)
    assert changes.dead == [DeadRecords(1, 1, 1, True), DeadRecords(5, 5, 1, True)], "neither the gap nor the releases"
    durable(share_partition, changes)
    take(share_partition, "a", (0, 5))
    released = share_partition.release("a")
    assert released.dead == [DeadRecords(3, 4, 2, False)]
    assert share_partition.acknowledge("b", [], 0).dead == []


def test_a_dead_record_moves_the_start_offset_only_when_its_change_is_durable() -> None:
    """Otherwise the next leader would not know of it, and its letter would be lost with this broker."""
    share_partition = SharePartition(0, max_deliveries=1, lock_ms=1_000, names_dead=True)
    take(share_partition, "a", (0, 0))
    expired = share_partition.expire(1_000)
    assert (expired.dead, share_partition.start_offset) == ([DeadRecords(0, 0, 1, False)], 0)
    assert share_partition.standing().start_offset == 0, "another change does not write it"
    assert take(share_partition, "b", (0, 0)) == []
    durable(share_partition, expired)
    assert share_partition.start_offset == 1


def test_a_record_whose_acknowledgement_failed_after_its_lock_still_becomes_a_dead_record() -> None:
    share_partition = SharePartition(0, max_deliveries=1, lock_ms=1_000, names_dead=True)
    take(share_partition, "a", (0, 0))
    accepted = share_partition.acknowledge("a", ack(0, 0, ACCEPT), 0)
    assert accepted.number is not None
    share_partition.undone([accepted.number], 2_000)
    assert share_partition.next_expiry_ms == 1_000
    assert share_partition.expire(2_000).dead == [DeadRecords(0, 0, 1, False)]


def test_no_record_is_named_without_dead_letters() -> None:
    share_partition = SharePartition(0, max_deliveries=1, lock_ms=1_000)
    take(share_partition, "a", (0, 1))
    assert not share_partition.acknowledge("a", ack(0, 0, REJECT), 0).dead
    assert not share_partition.expire(1_000).dead
