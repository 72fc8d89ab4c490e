"""Queues of share groups: who gets what, how often, and what is left after a restart; against a naive model too."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coordinators.codec.share_state import ShareKey, StateBatch
from headrace.coordinators.runtime_result import Result
from headrace.coordinators.share.core.runs import RecordState, Run, Runs
from headrace.coordinators.share.core.sessions import Sessions
from headrace.coordinators.share.core.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    SharePartition,
    check,
)
from headrace.coordinators.share.core.share_state import ShareStateShard
from headrace.coordinators.share.core.starting import StartingPoint, starting_point
from headrace.kernel.errors import ErrorCode, Refused

ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)
KEY = ShareKey("g", uuid.UUID(int=7), 0)


def ack(first: int, last: int, *kinds: AcknowledgeType) -> list[Acknowledgement]:
    return [Acknowledgement(first, last, kinds)]


def refusal(call: object) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    return refused.value.code


def test_a_record_is_with_one_member_at_a_time() -> None:
    queue = SharePartition(0)
    assert queue.acquire("a", 0, 9, 0) == [Acquired(0, 9, 1)]
    assert queue.acquire("b", 0, 9, 0) == []
    assert queue.next_fetch_offset == 10
    assert queue.acquire("b", 10, 14, 0) == [Acquired(10, 14, 1)]


def test_what_is_accepted_is_done_with_and_the_start_moves_over_it() -> None:
    queue = SharePartition(0)
    queue.acquire("a", 0, 9, 0)
    assert queue.acknowledge("a", ack(5, 9, ACCEPT), 0) == [StateBatch(5, 9, 2, 1)]
    assert queue.start_offset == 0
    queue.acknowledge("a", ack(0, 4, ACCEPT), 0)
    assert (queue.start_offset, queue.end_offset, len(queue.runs())) == (10, 9, 0)


def test_what_is_released_goes_to_the_next_and_counts() -> None:
    queue = SharePartition(0, max_deliveries=3)
    for deliveries in (1, 2, 3):
        assert queue.acquire("a", 0, 0, 0) == [Acquired(0, 0, deliveries)]
        queue.acknowledge("a", ack(0, 0, RELEASE), 0)
    assert queue.acquire("a", 0, 0, 0) == [], "handed out three times: given up"
    assert queue.start_offset == 1


def test_what_is_refused_is_never_handed_out_again() -> None:
    queue = SharePartition(0)
    queue.acquire("a", 0, 2, 0)
    changes = queue.acknowledge("a", ack(0, 2, ACCEPT, REJECT, GAP), 0)
    assert changes == [StateBatch(0, 0, 2, 1), StateBatch(1, 1, 4, 1), StateBatch(2, 2, 4, 1)]
    assert queue.start_offset == 3


def test_a_lock_that_is_over_gives_the_record_back_unless_it_was_renewed() -> None:
    queue = SharePartition(0, lock_ms=1_000)
    queue.acquire("a", 0, 3, 0)
    assert queue.next_expiry_ms == 1_000
    assert queue.acknowledge("a", ack(2, 3, RENEW), 600) == []
    assert queue.expire(999) == []
    assert queue.expire(1_000) == [StateBatch(0, 1, 0, 1)]
    assert queue.acquire("b", 0, 3, 1_000) == [Acquired(0, 1, 2)]
    assert refusal(lambda: queue.acknowledge("a", ack(0, 1, ACCEPT), 1_100)) is ErrorCode.invalid_record_state
    queue.acknowledge("a", ack(2, 3, ACCEPT), 1_100)


def test_a_member_that_goes_gives_everything_back() -> None:
    queue = SharePartition(0)
    queue.acquire("a", 0, 4, 0)
    queue.acquire("b", 5, 9, 0)
    assert queue.release("a") == [StateBatch(0, 4, 0, 1)]
    assert queue.next_fetch_offset == 0


def test_wrong_acknowledgements_change_nothing() -> None:
    queue = SharePartition(0)
    queue.acquire("a", 0, 4, 0)
    before = queue.runs()
    assert refusal(lambda: queue.acknowledge("a", ack(0, 9, ACCEPT), 0)) is ErrorCode.invalid_request
    assert refusal(lambda: queue.acknowledge("b", ack(0, 9, ACCEPT), 0)) is ErrorCode.invalid_request
    assert refusal(lambda: queue.acknowledge("b", ack(0, 4, ACCEPT), 0)) is ErrorCode.invalid_record_state
    twice = [*ack(0, 2, ACCEPT), *ack(2, 4, ACCEPT)]
    assert refusal(lambda: queue.acknowledge("a", twice, 0)) is ErrorCode.invalid_record_state
    queue._runs.join()
    assert queue.runs() == before
    queue.acknowledge("a", ack(0, 4, ACCEPT), 0)
    assert queue.acknowledge("a", ack(0, 4, ACCEPT), 0) == [], "a late word about what is done with"


def test_acknowledgements_that_cannot_be_meant_are_refused_unseen() -> None:
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


def test_only_so_many_records_are_out_at_once() -> None:
    queue = SharePartition(0, max_locks=10)
    assert queue.acquire("a", 0, 99, 0) == [Acquired(0, 9, 1)]
    assert not queue.has_room
    queue.acknowledge("a", ack(5, 9, ACCEPT), 0)
    assert not queue.has_room, "the front is still out"
    queue.acknowledge("a", ack(0, 4, ACCEPT), 0)
    assert queue.acquire("a", 10, 99, 0) == [Acquired(10, 19, 1)]


def test_a_strict_limit_is_kept_to_the_record() -> None:
    queue = SharePartition(0)
    queue.acquire("a", 0, 9, 0)
    queue.release("a")
    assert queue.acquire("b", 0, 19, 0, at_most=3) == [Acquired(0, 2, 2)]
    assert queue.acquire("b", 3, 19, 0, at_most=9) == [Acquired(3, 9, 2), Acquired(10, 11, 1)]


def test_offsets_that_the_log_no_longer_has_hold_nothing_up() -> None:
    queue = SharePartition(0)
    assert queue.acquire("a", 5, 9, 0) == [Acquired(5, 9, 1)], "0 to 4 were compacted away"
    queue.acknowledge("a", ack(5, 9, ACCEPT), 0)
    assert queue.start_offset == 10
    queue.acquire("a", 10, 19, 0)
    queue.log_start_moved(15)
    assert queue.start_offset == 15
    queue.acknowledge("a", ack(10, 19, ACCEPT), 0)
    assert queue.start_offset == 20


def test_aborted_records_are_nobodys() -> None:
    queue = SharePartition(0)
    assert queue.archive(2, 4) == [StateBatch(2, 4, 4, 0)]
    assert queue.acquire("a", 0, 9, 0) == [Acquired(0, 1, 1), Acquired(5, 9, 1)]


def test_a_new_leader_goes_on_from_what_was_written_down() -> None:
    old = SharePartition(0)
    old.acquire("a", 0, 9, 0)
    changes = old.acknowledge("a", [*ack(2, 3, ACCEPT), *ack(6, 6, RELEASE)], 0)
    new = SharePartition(old.start_offset, changes)
    assert [(r.first, r.last, r.state, r.deliveries) for r in new.runs()] == [
        (0, 1, RecordState.AVAILABLE, 0),
        (2, 3, RecordState.ACKNOWLEDGED, 1),
        (4, 5, RecordState.AVAILABLE, 0),
        (6, 6, RecordState.AVAILABLE, 1),
    ]
    assert new.acquire("b", 0, 9, 0) == [Acquired(0, 1, 1), Acquired(4, 5, 1), Acquired(6, 6, 2), Acquired(7, 9, 1)]


# --- the durable state -------------------------------------------------------------------------------------------


class States:
    """A shard of states that is rebuilt from its log at will."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = ShareStateShard(updates_per_snapshot=4)

    def apply(self, result: Result) -> object:
        for record in result.records:
            assert record.key is not None
            self.shard.replay(record.key, record.value, len(self.log), -1, -1)
            self.log.append((record.key, record.value))
        return result.reply

    def reload(self) -> None:
        self.shard = ShareStateShard(updates_per_snapshot=4)
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(key, value, offset, -1, -1)


def test_states_are_kept_through_updates_snapshots_and_a_change_of_coordinator() -> None:
    states = States()
    for n in range(10):
        states.apply(states.shard.write(KEY, 0, 3, n, 0, [StateBatch(n + 1, n + 1, 0, n)], n))
        states.reload()
        found = states.shard.summary(KEY)
        assert found is not None
        assert found.start_offset == n and StateBatch(n + 1, n + 1, 0, n) in found.batches
    assert all(batch.last_offset >= 9 for batch in found.batches), "what lies below the start is dropped"
    assert states.shard.first_needed_offset(len(states.log)) >= 6


def test_old_leaders_and_old_beginnings_are_fenced() -> None:
    states = States()
    states.apply(states.shard.write(KEY, 0, 3, 0, 0, [], 0))
    read = states.apply(states.shard.read(KEY, 5, 1))
    assert read.leader_epoch == 5  # type: ignore[attr-defined]
    code = refusal(lambda: states.shard.write(KEY, 0, 3, 1, 0, [], 2))
    assert code is ErrorCode.fenced_leader_epoch
    assert refusal(lambda: states.shard.read(KEY, 3, 2)) is ErrorCode.fenced_leader_epoch
    states.apply(states.shard.initialize(KEY, 2, 100, 3))
    assert refusal(lambda: states.shard.write(KEY, 0, 5, 1, 0, [], 4)) is ErrorCode.fenced_state_epoch
    assert refusal(lambda: states.shard.initialize(KEY, 1, 50, 5)) is ErrorCode.fenced_state_epoch
    states.reload()
    found = states.shard.summary(KEY)
    assert found is not None and (found.state_epoch, found.start_offset) == (2, 100)


def test_a_queue_that_nobody_began_is_not_an_error_and_a_deleted_one_is_gone() -> None:
    states = States()
    read = states.apply(states.shard.read(KEY, 1, 0))
    assert read.start_offset == -1 and not states.log  # type: ignore[attr-defined]
    states.apply(states.shard.write(KEY, 0, 1, 5, 0, [], 0))
    states.apply(states.shard.delete(KEY))
    states.reload()
    assert states.shard.summary(KEY) is None
    states.apply(states.shard.write(KEY, 0, 1, 5, 0, [], 0))
    states.apply(states.shard.forget_topics({KEY.topic_id}))
    assert states.shard.summary(KEY) is None


# --- sessions and settings ---------------------------------------------------------------------------------------


def test_sessions_advance_one_by_one() -> None:
    sessions = Sessions(limit=2)
    a, b = (KEY.topic_id, 0), (KEY.topic_id, 1)
    session = sessions.begin("g", "m", [a, b], 0)
    assert session.rotated() == [a, b] and session.rotated() == [b, a]
    sessions.advance("g", "m", 1, 0)
    assert refusal(lambda: sessions.advance("g", "m", 1, 0)) is ErrorCode.invalid_share_session_epoch
    assert refusal(lambda: sessions.advance("g", "x", 1, 0)) is ErrorCode.share_session_not_found
    sessions.begin("g", "n", [a], 0)
    assert refusal(lambda: sessions.begin("g", "o", [a], 10)) is ErrorCode.share_session_limit_reached
    sessions.begin("g", "o", [a], 100_000)
    assert len(sessions) == 2, "one that was idle made room"
    sessions.end("g", "o")
    assert refusal(lambda: sessions.end("g", "o")) is ErrorCode.share_session_not_found


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
def test_where_a_new_queue_begins(text: str, expected: int) -> None:
    assert starting_point(text) == expected


# --- random histories --------------------------------------------------------------------------------------------


class QueueHistory(RuleBasedStateMachine):
    """Members take, acknowledge and lose records; the leader changes. Nothing is lost, nothing is with two."""

    @initialize()
    def begin(self) -> None:
        self.queue = SharePartition(0, max_locks=12, max_deliveries=4, lock_ms=100)
        self.states = States()
        self.now = 0
        self.log_end = 0
        self.accepted: set[int] = set()
        self.with_member: dict[int, str] = {}
        self.leader_epoch = 0

    def _write(self, changes: list[StateBatch]) -> None:
        if changes:
            self.states.apply(
                self.states.shard.write(KEY, 0, self.leader_epoch, self.queue.start_offset, 0, changes, self.now)
            )

    @rule(count=st.integers(1, 5))
    def produced(self, count: int) -> None:
        self.log_end += count

    @rule(member=st.sampled_from("abc"), strict=st.booleans(), most=st.integers(1, 6))
    def fetches(self, member: str, strict: bool, most: int) -> None:
        first = self.queue.next_fetch_offset
        last = min(self.log_end, first + (8 if strict else most)) - 1
        if last < first:
            return
        for each in self.queue.acquire(member, first, last, self.now, at_most=most if strict else None):
            for offset in range(each.first, each.last + 1):
                assert offset not in self.with_member, "a record is with two members"
                assert offset not in self.accepted, "a record that was accepted came again"
                assert 1 <= each.deliveries <= 4
                self.with_member[offset] = member

    @rule(kind=st.sampled_from([ACCEPT, RELEASE, REJECT]), pick=st.integers(0, 20))
    def acknowledges(self, kind: AcknowledgeType, pick: int) -> None:
        if not self.with_member:
            return
        offset = sorted(self.with_member)[pick % len(self.with_member)]
        member = self.with_member.pop(offset)
        self._write(self.queue.acknowledge(member, ack(offset, offset, kind), self.now))
        if kind is ACCEPT:
            self.accepted.add(offset)

    @rule(member=st.sampled_from("abc"))
    def leaves(self, member: str) -> None:
        self._write(self.queue.release(member))
        self.with_member = {o: m for o, m in self.with_member.items() if m != member}

    @rule()
    def locks_run_out(self) -> None:
        self.now += 200
        self._write(self.queue.expire(self.now))
        self.with_member.clear()

    @rule()
    def leader_changes(self) -> None:
        self.states.reload()
        self.leader_epoch += 1
        stored = self.states.apply(self.states.shard.read(KEY, self.leader_epoch, self.now))
        start = max(stored.start_offset, 0)  # type: ignore[attr-defined]
        self.queue = SharePartition(start, stored.batches, max_locks=12, max_deliveries=4, lock_ms=100)  # type: ignore[attr-defined]
        self.with_member.clear()

    @invariant()
    def the_queue_is_whole(self) -> None:
        queue = getattr(self, "queue", None)
        if queue is None:
            return
        at = queue.start_offset
        for run in queue.runs():
            assert run.first == at <= run.last, "a hole, or an overlap"
            at = run.last + 1
        held = {
            o: r.member for r in queue.runs() if r.state is RecordState.ACQUIRED for o in range(r.first, r.last + 1)
        }
        assert held == self.with_member


TestQueueHistory = QueueHistory.TestCase
TestQueueHistory.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_runs_cut_join_and_replace() -> None:
    runs = Runs()
    runs.put(Run(0, 9, RecordState.AVAILABLE))
    runs.put(Run(3, 5, RecordState.ARCHIVED))
    assert [(r.first, r.last) for r in runs] == [(0, 2), (3, 5), (6, 9)]
    runs.put(Run(3, 5, RecordState.AVAILABLE))
    runs.join()
    assert [(r.first, r.last) for r in runs] == [(0, 9)]
    runs.drop_before(4)
    assert [(r.first, r.last) for r in runs] == [(4, 9)]
