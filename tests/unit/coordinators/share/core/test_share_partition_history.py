"""Random histories of share partitions, and their durable state."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coordinators.codec.share_state import StateBatch
from headrace.coordinators.share.core.acquisition import AcquireRequest, LogBatch
from headrace.coordinators.share.core.runs import RecordState
from headrace.coordinators.share.core.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    Changes,
    SharePartition,
)
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.share_states import KEY, States

ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


def refusal(call: object) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    return refused.value.code


def test_states_are_kept_through_updates_snapshots_and_a_change_of_coordinator() -> None:
    states = States()
    states.apply(states.shard.initialize(KEY, 0, -1, 0))
    for n in range(10):
        states.apply(states.shard.write(KEY, 0, 3, n, 0, [StateBatch(n + 1, n + 1, 0, n)], n))
        states.reload()
        found = states.shard.summary(KEY)
        assert found is not None
        assert found.start_offset == n and StateBatch(n + 1, n + 1, 0, n) in found.batches
    assert found is not None and all(batch.last_offset >= 9 for batch in found.batches), (
        "what lies below the start is dropped"
    )
    assert states.shard.first_needed_offset(len(states.log)) >= 6


def test_old_leader_epochs_and_state_epochs_are_fenced() -> None:
    states = States()
    states.apply(states.shard.initialize(KEY, 0, -1, 0))
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


def test_uninitialised_and_deleted_share_partitions_are_refused() -> None:
    states = States()

    def check_refused() -> None:
        assert refusal(lambda: states.shard.read(KEY, 1, 0)) is ErrorCode.invalid_request
        assert refusal(lambda: states.shard.write(KEY, 0, 1, 5, 0, [], 0)) is ErrorCode.invalid_request
        assert states.shard.summary(KEY) is None

    check_refused()
    states.apply(states.shard.initialize(KEY, 0, -1, 0))
    states.apply(states.shard.write(KEY, 0, 1, 5, 0, [], 0))
    states.apply(states.shard.delete(KEY))
    states.reload()
    check_refused()
    states.apply(states.shard.initialize(KEY, 0, -1, 0))
    states.apply(states.shard.forget_topics({KEY.topic_id}))
    assert states.shard.summary(KEY) is None


def test_an_accepted_record_does_not_come_again_after_a_write_whose_answer_was_lost() -> None:
    states = States()
    states.apply(states.shard.initialize(KEY, 0, 0, 0))
    share_partition = SharePartition(0)
    share_partition.acquire(AcquireRequest("a", 10, 10), 0, [LogBatch(0, 2)], 0)

    def write(changes: Changes, *, is_answered: bool = True) -> None:
        assert changes.number is not None
        numbers = [changes.number]
        states.apply(states.shard.write(KEY, 0, 0, *share_partition.standing(numbers), changes.batches, 0))
        if is_answered:
            share_partition.done(numbers)
        else:
            share_partition.undone(numbers, 0)

    write(share_partition.acknowledge("a", [Acknowledgement(1, 2, (ACCEPT,))], 0))
    write(share_partition.acknowledge("a", [Acknowledgement(0, 0, (ACCEPT,))], 0), is_answered=False)
    write(share_partition.release("a"))
    states.reload()
    found = states.shard.summary(KEY)
    assert found is not None
    assert SharePartition(found.start_offset, found.batches).next_fetch_offset == 3


class SharePartitionHistory(RuleBasedStateMachine):
    """Members take, acknowledge and lose records; the leader changes. Nothing is lost, nothing is with two."""

    @initialize()
    def begin(self) -> None:
        self.share_partition = SharePartition(0, max_locks=12, max_deliveries=4, lock_ms=100)
        self.states = States()
        self.states.apply(self.states.shard.initialize(KEY, 0, 0, 0))
        self.now = 0
        self.log: list[LogBatch] = []
        self.log_end = 0
        self.accepted: set[int] = set()
        self.with_member: dict[int, str] = {}
        self.leader_epoch = 0

    def _write(self, changes: Changes, fails: bool = False) -> None:
        numbers = [] if changes.number is None else [changes.number]
        if changes.batches and not fails:
            standing = self.share_partition.standing(numbers)
            self.states.apply(self.states.shard.write(KEY, 0, self.leader_epoch, *standing, changes.batches, self.now))
        if fails:
            self.share_partition.undone(numbers, self.now)
        else:
            self.share_partition.done(numbers)

    @rule(count=st.integers(1, 5))
    def produced(self, count: int) -> None:
        self.log.append(LogBatch(self.log_end, self.log_end + count - 1))
        self.log_end += count

    @rule(member=st.sampled_from("abc"), strict=st.booleans(), most=st.integers(1, 6), read=st.integers(1, 4))
    def fetches(self, member: str, strict: bool, most: int, read: int) -> None:
        first = self.share_partition.next_fetch_offset
        batches = [batch for batch in self.log if batch.last >= first][:read]
        if not batches or not self.share_partition.has_room:
            return
        given = self.share_partition.acquire(AcquireRequest(member, most, 2, strict), first, batches, self.now)
        assert not strict or sum(each.last - each.first + 1 for each in given) <= most
        assert given, "what is free is handed out"
        for each in given:
            assert each.deliveries < 4 or (len(given) == 1 and each.first == each.last), "the last time goes alone"
            for offset in range(each.first, each.last + 1):
                assert offset not in self.with_member, "a record is with two members"
                assert offset not in self.accepted, "a record that was accepted came again"
                assert 1 <= each.deliveries <= 4
                self.with_member[offset] = member

    @rule(
        kind=st.sampled_from([ACCEPT, RELEASE, REJECT]),
        pick=st.integers(0, 20),
        more=st.integers(0, 3),
        fails=st.booleans(),
    )
    def acknowledges(self, kind: AcknowledgeType, pick: int, more: int, fails: bool) -> None:
        if not self.with_member:
            return
        first = last = sorted(self.with_member)[pick % len(self.with_member)]
        member = self.with_member[first]
        while last < first + more and self.with_member.get(last + 1) == member:
            last += 1
        self._write(self.share_partition.acknowledge(member, [Acknowledgement(first, last, (kind,))], self.now), fails)
        for offset in range(first, last + 1) if not fails else ():
            del self.with_member[offset]
            if kind is ACCEPT:
                self.accepted.add(offset)

    @rule(member=st.sampled_from("abc"))
    def leaves(self, member: str) -> None:
        self._write(self.share_partition.release(member))
        self.with_member = {o: m for o, m in self.with_member.items() if m != member}

    @rule()
    def locks_run_out(self) -> None:
        self.now += 200
        self._write(self.share_partition.expire(self.now))
        self.with_member.clear()

    @rule()
    def leader_changes(self) -> None:
        self.states.reload()
        self.leader_epoch += 1
        stored = self.states.apply(self.states.shard.read(KEY, self.leader_epoch, self.now))
        start = max(stored.start_offset, 0)  # type: ignore[attr-defined]
        self.share_partition = SharePartition(start, stored.batches, max_locks=12, max_deliveries=4, lock_ms=100)  # type: ignore[attr-defined]
        self.with_member.clear()

    @invariant()
    def the_share_partition_is_whole(self) -> None:
        share_partition = getattr(self, "share_partition", None)
        if share_partition is None:
            return
        at = share_partition.start_offset
        for run in share_partition.runs():
            assert run.first == at <= run.last, "a hole, or an overlap"
            at = run.last + 1
        held = {
            o: r.member
            for r in share_partition.runs()
            if r.state is RecordState.ACQUIRED
            for o in range(r.first, r.last + 1)
        }
        assert held == self.with_member


TestSharePartitionHistory = SharePartitionHistory.TestCase
TestSharePartitionHistory.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
