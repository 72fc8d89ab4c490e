"""Random histories of groups whose members speak both protocols, and which so go over from one to the other and back:
no partition has two readers at any time, and left alone the members read everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coordinators.group.core.classic import embedded_protocol as consumer_protocol
from headrace.coordinators.group.core.classic.group import ClassicGroup
from headrace.coordinators.group.core.classic.messages import JoinReply, LeavingMember, SyncReply
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.effort import rounds
from tests.support.group_driver import GroupDriver, image_of, subscription, topic_id

ORDERS = topic_id("orders")
PARTITIONS = 5
GONE = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.fenced_member_epoch)
AGAIN = (ErrorCode.rebalance_in_progress, ErrorCode.not_coordinator)


class Reader:
    """A client: without an answer for its session timeout it stops reading and joins again."""

    session_ms = 0

    def __init__(self) -> None:
        self.owned: set[int] = set()
        self.silent_ms = 0

    def time_passes(self, duration_ms: int) -> None:
        self.silent_ms += duration_ms
        if self.silent_ms >= self.session_ms:
            self.owned, self.silent_ms = set(), 0
            self.begin_anew()

    def begin_anew(self) -> None:
        raise NotImplementedError


class NewMember(Reader):
    session_ms = 40_000

    def __init__(self) -> None:
        super().__init__()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.epoch = 0
        self.lost_answer = False

    def step(self, driver: GroupDriver, name: str, loses_answer: bool = False) -> None:
        said: dict[str, object] = {"owned": {ORDERS: frozenset(self.owned)} if self.owned else {}}
        if self.epoch == 0:
            self.owned, said["owned"] = set(), {}
        if self.lost_answer:
            said |= {"rebalance_timeout_ms": 60_000, "topic_names": ("orders",)}
        try:
            reply = driver.beat(name, self.epoch, **said)  # type: ignore[arg-type]
        except Refused as refused:
            assert refused.code in (*GONE, ErrorCode.group_id_not_found)
            self.epoch, self.owned = 0, set()
            return
        self.lost_answer = loses_answer
        if loses_answer:
            return
        self.silent_ms, self.epoch = 0, reply.epoch
        if reply.assignment is not None:
            self.owned = set(reply.assignment.get(ORDERS, ()))


class OldMember(Reader):
    """`keeps`: a cooperative member reads while it joins; an eager one revokes everything before."""

    session_ms = 9_000
    tokens = 0

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.keeps = keeps
        self.member_id = ""
        self.generation = -1
        self.token: object = None
        self.syncs = False

    def begin_anew(self) -> None:
        self.generation, self.token = -1, None

    def step(self, driver: GroupDriver) -> None:
        if self.token is not None:
            self._hear(driver)
        elif self.generation < 0:
            self._join(driver)
        else:
            try:
                error = driver.heartbeat(self.member_id, self.generation)
            except Refused as refused:
                error = refused.code
            self._react(driver, error)

    def _react(self, driver: GroupDriver, error: ErrorCode) -> None:
        if error is ErrorCode.none:
            self.silent_ms = 0
        elif error in AGAIN:
            self._join(driver)
        else:
            assert error in GONE, error
            self.owned, self.generation = set(), -1
            if error is ErrorCode.unknown_member_id:
                self.member_id = ""

    def _join(self, driver: GroupDriver) -> None:
        if not self.keeps:
            self.owned = set()
        OldMember.tokens += 1
        self.token, self.syncs = ("old", OldMember.tokens), False
        mine = [("orders", tuple(sorted(self.owned)))] if self.owned else []
        data = subscription("orders", owned=mine, generation=self.generation)
        driver.join(self.token, member=self.member_id, protocols=(("range", data),))

    def _hear(self, driver: GroupDriver) -> None:
        reply = driver.answers.pop(self.token, None)
        if reply is None:
            return
        self.token = None
        if reply.error is ErrorCode.member_id_required:
            self.member_id = reply.member_id
        elif reply.error is not ErrorCode.none:
            self._react(driver, reply.error)
        elif self.syncs:
            self._take(reply)
        else:
            self._sync(driver, reply)

    def _sync(self, driver: GroupDriver, reply: JoinReply) -> None:
        self.silent_ms, self.member_id, self.generation = 0, reply.member_id, reply.generation
        given = shares(reply) if reply.leader == self.member_id else ()
        OldMember.tokens += 1
        self.token, self.syncs = ("old", OldMember.tokens), True
        try:
            driver.sync(self.token, self.member_id, self.generation, assignments=given)
        except Refused as refused:
            self.token = None
            self._react(driver, refused.code)

    def _take(self, reply: SyncReply) -> None:
        self.silent_ms = 0
        topics, _ = consumer_protocol.read_assignment(reply.assignment)
        self.owned = set(topics.get("orders", ()))


def shares(reply: JoinReply) -> list[tuple[str, bytes]]:
    """As a cooperative leader: members keep their partitions, the rest goes to the members with the fewest."""
    held: dict[str, list[int]] = {}
    for member in reply.members:
        read = consumer_protocol.read_subscription(member.metadata)
        taken = {partition for each in held.values() for partition in each}
        mine = [partition for _, partitions in read.owned for partition in partitions]
        # A claim of an old generation may have been given to another since.
        held[member.member_id] = [p for p in mine if p not in taken and read.generation == reply.generation - 1]
    for partition in set(range(PARTITIONS)) - {p for each in held.values() for p in each}:
        min(held.values(), key=len).append(partition)
    return [(m, consumer_protocol.write_assignment((("orders", tuple(p)),), 3)) for m, p in held.items()]


class MixedGroupHistory(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        quick = GroupSettings(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0)
        self.driver = GroupDriver(quick, image_of(orders=PARTITIONS))
        self.new: dict[str, NewMember] = {}
        self.old: dict[str, OldMember] = {}

    def readers(self) -> Sequence[Reader]:
        return [*self.new.values(), *self.old.values()]

    @rule(name=st.sampled_from("abc"), loses_answer=st.sampled_from([False, False, True]))
    def new_one_beats(self, name: str, loses_answer: bool) -> None:
        client = self.new.setdefault(name, NewMember())
        if client.epoch > 0 or not self._an_old_one_holds_more_than_its_record():
            client.step(self.driver, name, loses_answer)

    def _an_old_one_holds_more_than_its_record(self) -> bool:
        """When the last new member leaves, the record of the classic group has the targets of its members, as in
        Kafka. A member that has not revoked yet holds more, and a new member that joins before it rejoins gets those
        partitions at once: both read them until then. Kafka does the same."""
        group = self.driver.shard.groups.get("g")
        if not isinstance(group, ClassicGroup):
            return False
        for client in self.old.values():
            member = group.members.get(client.member_id)
            recorded = consumer_protocol.read_assignment(member.assignment)[0] if member and member.assignment else {}
            if not client.owned <= set(recorded.get("orders", ())):
                return True
        return False

    @rule(name=st.sampled_from("abc"), crashes=st.booleans())
    def new_one_goes(self, name: str, crashes: bool) -> None:
        client = self.new.pop(name, None)
        if client is not None and client.epoch > 0 and not crashes:
            try:
                self.driver.beat(name, -1)
            except Refused as refused:
                assert refused.code in (*GONE, ErrorCode.group_id_not_found)

    @rule(name=st.sampled_from("xyz"), keeps=st.booleans(), times=st.integers(1, 4))
    def old_one_goes_on(self, name: str, keeps: bool, times: int) -> None:
        client = self.old.setdefault(name, OldMember(keeps))
        for _ in range(times):
            client.step(self.driver)

    @rule(name=st.sampled_from("xyz"), crashes=st.booleans())
    def old_one_goes(self, name: str, crashes: bool) -> None:
        client = self.old.pop(name, None)
        if client is not None and client.member_id and not crashes:
            self.driver.apply(self.driver.shard.leave("g", [LeavingMember(client.member_id)], self.driver.now_ms))

    @rule(seconds=st.sampled_from([1, 4, 9, 30]))
    def time_passes(self, seconds: int) -> None:
        # Clients look at their own clocks a little before the coordinator looks at its.
        for client in self.readers():
            client.time_passes(seconds * 1_000)
        self.driver.advance(seconds * 1_000)

    @rule()
    def coordinator_moves(self) -> None:
        self.driver.reload()

    @rule()
    def settles(self) -> None:
        for _ in range(80):
            for name, new in self.new.items():
                new.step(self.driver, name)
            for old in self.old.values():
                old.step(self.driver)
            self.no_partition_has_two_readers()
            self.time_passes(1)
        if self.readers():
            assert set().union(*(client.owned for client in self.readers())) == set(range(PARTITIONS))

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        seen: set[int] = set()
        for client in self.readers() if hasattr(self, "new") else ():
            assert seen.isdisjoint(client.owned)
            seen |= client.owned


TestMixedGroupHistory = MixedGroupHistory.TestCase
TestMixedGroupHistory.settings = settings(
    max_examples=rounds(short=25, long=1_000), stateful_step_count=30, deadline=None
)
