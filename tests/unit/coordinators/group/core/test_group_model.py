"""Random histories of groups: no partition has two readers, no stale commit is accepted, no offset goes back by
itself.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.coordinators.group.core.classic.messages import LeavingMember
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.offset_commit import PartitionCommit
from tests.support.group_driver import GroupDriver, image_of, topic_id

ORDERS = topic_id("orders")
NAMES = [f"m{i}" for i in range(5)]


class Client:
    """A consumer of the new protocol: it reads its assigned partitions, and drops revoked ones."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owned: set[int] = set()
        self.lost_answer = False


class ConsumerGroupHistory(RuleBasedStateMachine):
    """Members join, beat, leave, crash; answers get lost; the topic grows; the coordinator moves."""

    @initialize()
    def begin(self) -> None:
        self.driver = GroupDriver()
        self.partitions = 4
        self.version = 1
        self.clients: dict[str, Client] = {}
        self.silent_ms: dict[str, int] = {}

    @rule(name=st.sampled_from(NAMES), loses_answer=st.booleans())
    def beats(self, name: str, loses_answer: bool) -> None:
        client = self.clients.setdefault(name, Client())
        try:
            said: dict[str, object] = {"owned": {ORDERS: frozenset(client.owned)} if client.owned else {}}
            if client.lost_answer:
                # As clients do: after a lost answer the next request is a full one, and so is its answer.
                said |= {"rebalance_timeout_ms": 60_000, "topic_names": ("orders",)}
            reply = self.driver.beat(name, client.epoch, **said)  # type: ignore[arg-type]
        except Refused as refused:
            assert refused.code in (
                ErrorCode.fenced_member_epoch,
                ErrorCode.unknown_member_id,
                ErrorCode.group_id_not_found,
            )
            assert client.epoch != 0, "a member that begins anew is never refused"
            client.epoch, client.owned = 0, set()
            return
        self.silent_ms[name] = 0
        client.lost_answer = loses_answer
        if loses_answer:
            return
        client.epoch = reply.epoch
        if reply.assignment is not None:
            client.owned = set(reply.assignment.get(ORDERS, ()))

    @rule(name=st.sampled_from(NAMES))
    def leaves(self, name: str) -> None:
        client = self.clients.pop(name, None)
        if client is not None and client.epoch > 0:
            try:
                self.driver.beat(name, -1)
            except Refused as refused:
                assert refused.code in (ErrorCode.unknown_member_id, ErrorCode.group_id_not_found)

    @rule(name=st.sampled_from(NAMES))
    def crashes(self, name: str) -> None:
        self.clients.pop(name, None)

    @rule()
    def time_passes(self) -> None:
        self.driver.advance(20_000)
        for name in list(self.silent_ms):
            self.silent_ms[name] += 20_000
            # A client without an answer for its session timeout stops reading by itself.
            if self.silent_ms[name] >= 40_000 and name in self.clients:
                self.clients[name] = Client()

    @rule()
    def coordinator_moves(self) -> None:
        self.driver.reload()

    @precondition(lambda self: self.partitions < 8)
    @rule()
    def topic_grows(self) -> None:
        self.partitions += 2
        self.version += 1
        self.driver.set_image(image_of(self.version, orders=self.partitions))

    @rule()
    def settles(self) -> None:
        """Left alone, everyone who is alive ends up with a fair share of everything."""
        self.clients = {n: c for n, c in self.clients.items() if c.epoch or c.owned}
        for _ in range(12):
            for name in list(self.clients):
                self.beats(name, False)
            self.driver.advance(5_000)
        alive = list(self.clients.values())
        if alive:
            assert set().union(*(c.owned for c in alive)) == set(range(self.partitions))
            loads = [len(c.owned) for c in alive]
            assert max(loads) - min(loads) <= 1

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        seen: set[int] = set()
        for client in getattr(self, "clients", {}).values():
            assert seen.isdisjoint(client.owned)
            seen |= client.owned


class ClassicGroupHistory(RuleBasedStateMachine):
    """Classic members join and sync in any order; the leader gives partition i to member i; commits come late."""

    @initialize()
    def begin(self) -> None:
        self.driver = GroupDriver()
        self.ids: list[str] = []
        self.tokens = 0
        self.known: dict[str, tuple[int, str]] = {}
        self.waiting: dict[str, object] = {}
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.last_commit = -1
        self.offset = 0

    def _token(self) -> int:
        self.tokens += 1
        return self.tokens

    @precondition(lambda self: len(self.ids) < 5)
    @rule()
    def arrives(self) -> None:
        token = self._token()
        reply = self.driver.join(token)
        assert reply is not None and reply.error is ErrorCode.member_id_required
        self.ids.append(reply.member_id)
        self.joins(at=len(self.ids) - 1)

    @rule(at=st.integers(0, 4))
    def joins(self, at: int) -> None:
        if at >= len(self.ids):
            return
        token = self._token()
        self.driver.join(token, member=self.ids[at])
        self.waiting[self.ids[at]] = token

    @rule()
    def answers_arrive(self) -> None:
        for member, token in list(self.waiting.items()):
            reply = self.driver.answers.get(token)
            if reply is None:
                continue
            del self.waiting[member]
            if reply.error is ErrorCode.none:
                self.known[member] = (reply.generation, reply.leader)
            elif reply.error is ErrorCode.unknown_member_id and member in self.ids:
                self.ids.remove(member)

    @rule(at=st.integers(0, 4))
    def syncs(self, at: int) -> None:
        if at >= len(self.ids) or self.ids[at] not in self.known:
            return
        member = self.ids[at]
        generation, leader = self.known[member]
        assignments = [(m, str(i).encode()) for i, m in enumerate(sorted(self.ids))] if leader == member else ()
        token = self._token()
        try:
            self.driver.sync(token, member, generation, assignments=assignments)
        except Refused as refused:
            assert refused.code in (
                ErrorCode.illegal_generation,
                ErrorCode.rebalance_in_progress,
                ErrorCode.unknown_member_id,
            )
            return
        reply = self.driver.answers.get(token)
        if reply is not None and reply.error is ErrorCode.none and reply.assignment:
            taken = {a for (g, m), a in self.assigned.items() if g == generation and m != member}
            assert reply.assignment not in taken, "two members of one generation own a partition"
            self.assigned[generation, member] = reply.assignment

    @rule(at=st.integers(0, 4), behind=st.integers(0, 2))
    def commits(self, at: int, behind: int) -> None:
        if at >= len(self.ids) or self.ids[at] not in self.known:
            return
        member = self.ids[at]
        # Never below zero: a negative generation is a commit outside the group, which an empty group may take.
        generation = max(self.known[member][0] - behind, 0)
        self.offset += 1
        topics = [TopicCommit("orders", ORDERS, [PartitionCommit(0, self.offset, -1, "")])]
        group = self.driver.shard.groups["g"]
        try:
            self.driver.apply(
                self.driver.shard.commit_offsets(
                    CommitRequest("g", member, None, generation, topics), self.driver.now_ms
                )
            )
        except Refused:
            return
        assert generation == group.generation, "a stale generation's commit landed"  # type: ignore[union-attr]
        self.last_commit = self.offset

    @rule(at=st.integers(0, 4))
    def leaves(self, at: int) -> None:
        if at < len(self.ids):
            member = self.ids.pop(at)
            self.driver.apply(self.driver.shard.leave("g", [LeavingMember(member)], self.driver.now_ms))

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        self.driver.advance(seconds * 1_000)

    @rule()
    def coordinator_moves(self) -> None:
        if "g" in self.driver.shard.groups:
            self.driver.reload()
            self.ids = [m for m in self.ids if m in getattr(self.driver.shard.groups["g"], "members", {})]

    @invariant()
    def offsets_stay_where_they_were_put(self) -> None:
        if getattr(self, "driver", None) is not None:
            value = self.driver.shard.offsets.offsets.get("g", "orders", 0)
            assert (-1 if value is None else value.offset) == self.last_commit

    @invariant()
    def the_group_is_whole(self) -> None:
        group = self.driver.shard.groups.get("g") if getattr(self, "driver", None) else None
        if group is None or not hasattr(group, "awaiting_joins"):
            return
        assert group.awaiting_joins == sum(m.awaits_join for m in group.members.values())  # type: ignore[union-attr]
        assert group.leader is None or group.leader in group.members  # type: ignore[union-attr]
        assert +group.supported == +type(group.supported)(n for m in group.members.values() for n, _ in m.protocols)  # type: ignore[union-attr]


TestConsumerGroupHistory = ConsumerGroupHistory.TestCase
TestClassicGroupHistory = ClassicGroupHistory.TestCase
TestConsumerGroupHistory.settings = TestClassicGroupHistory.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
