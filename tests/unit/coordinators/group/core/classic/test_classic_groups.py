"""Classic groups on virtual time: join, sync, leave, expiry of members."""

from __future__ import annotations

import pytest

from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicState
from headrace.coordinators.group.core.classic.messages import LeavingMember
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.group_driver import GroupDriver, subscription


def group(driver: GroupDriver, name: str = "g") -> ClassicGroup:
    found = driver.shard.groups[name]
    assert isinstance(found, ClassicGroup)
    return found


def stable_pair(driver: GroupDriver) -> tuple[str, str]:
    """Two members in generation 1 with their assignments; the first leads."""
    leader = driver.join_twice("a")
    follower = driver.join_twice("b")
    driver.advance(6_100)
    assert driver.answers["a"].leader == leader
    driver.sync("sb", follower, 1)
    driver.sync("sa", leader, 1, assignments=[(leader, b"A"), (follower, b"B")])
    assert group(driver).state is ClassicState.STABLE
    return leader, follower


def test_members_that_start_together_make_one_generation() -> None:
    driver = GroupDriver()
    ids = [driver.join_twice(i) for i in range(50)]
    assert not any(i in driver.answers for i in range(50))
    driver.advance(6_100)
    replies = [driver.answers[i] for i in range(50)]
    assert {r.generation for r in replies} == {1}
    assert {r.leader for r in replies} == {ids[0]}
    assert len(replies[0].members) == 50 and all(not r.members for r in replies[1:])


def test_each_new_member_extends_the_first_rebalance_up_to_the_rebalance_timeout() -> None:
    driver = GroupDriver()
    for i in range(5):
        driver.join_twice(i, rebalance_timeout_ms=7_000)
        driver.advance(2_000)
    assert driver.answers[0].generation == 1
    assert driver.now_ms == 1_010_000


@pytest.mark.parametrize(
    ("come_at_ms", "rebalance_timeout_ms", "begins_at_ms"),
    [
        ([0], 60_000, 800),
        ([0, 500], 60_000, 1_600),
        ([0, 500, 1_300], 60_000, 2_400),
        ([0, 500, 1_700], 60_000, 1_600),
        ([0, 400, 800, 1_200, 1_600], 2_000, 2_000),
        ([0, 400], 500, 800),
    ],
)
def test_the_first_generation_begins_at_the_same_time_as_in_kafka(
    come_at_ms: list[int], rebalance_timeout_ms: int, begins_at_ms: int
) -> None:
    """The times were measured with Apache Kafka 4.3, rounded to its delay."""
    driver = GroupDriver(GroupSettings(initial_rebalance_delay_ms=800))
    begun_ms, answered_ms = driver.now_ms, -1
    for at_ms in range(0, 5_000, 100):
        if at_ms in come_at_ms:
            driver.join_twice(at_ms, rebalance_timeout_ms=rebalance_timeout_ms)
        if come_at_ms[0] in driver.answers:
            answered_ms = driver.now_ms - begun_ms
            break
        driver.advance(100)
    assert answered_ms == begins_at_ms


def test_all_members_get_the_assignment_of_the_leader() -> None:
    driver = GroupDriver()
    stable_pair(driver)
    assert driver.answers["sa"].assignment == b"A"
    assert driver.answers["sb"].assignment == b"B"
    assert driver.answers["sb"].protocol_name == "range"


def test_a_sync_after_the_assignment_gets_it_at_once() -> None:
    driver = GroupDriver()
    _, follower = stable_pair(driver)
    reply = driver.sync("again", follower, 1)
    assert reply is not None and reply.assignment == b"B"


def test_a_new_member_makes_all_members_rejoin() -> None:
    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    driver.join_twice("c")
    assert driver.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress
    driver.join("a2", member=leader)
    assert "a2" not in driver.answers
    driver.join("b2", member=follower)
    assert driver.answers["a2"].generation == 2 and driver.answers["c"].generation == 2
    assert len(driver.answers["a2"].members) == 3


def test_a_member_that_does_not_rejoin_in_time_is_left_out() -> None:
    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    driver.join_twice("c")
    driver.join("b2", member=follower)
    # It beats, so its session holds; but it does not join.
    for _ in range(13):
        driver.advance(5_000)
        if leader in group(driver).members:
            driver.heartbeat(leader, 1)
    assert driver.answers["b2"].generation == 2
    assert driver.answers["b2"].leader == follower, "the leader did not come"
    assert leader not in group(driver).members


def test_a_dead_member_starts_a_rebalance() -> None:
    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    for _ in range(3):
        driver.advance(4_000)
        driver.heartbeat(leader, 1)
    assert follower not in group(driver).members
    assert driver.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress
    driver.join("a2", member=leader)
    assert driver.answers["a2"].generation == 2


def test_a_commit_keeps_a_member_alive() -> None:
    from headrace.coordinators.group.core.offsets.requests import CommitRequest

    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    for _ in range(3):
        driver.advance(4_000)
        driver.heartbeat(follower, 1)
        driver.apply(driver.shard.commit_offsets(CommitRequest("g", leader, None, 1, []), driver.now_ms))
    assert group(driver).state is ClassicState.STABLE


def test_the_last_member_to_leave_leaves_an_empty_group() -> None:
    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    left = driver.apply(driver.shard.leave("g", [LeavingMember(leader), LeavingMember(follower)], driver.now_ms))
    assert [m.error for m in left] == [ErrorCode.none, ErrorCode.none]
    assert group(driver).state is ClassicState.EMPTY and group(driver).generation == 2
    driver.reload()
    assert group(driver).state is ClassicState.EMPTY and group(driver).protocol_type == "consumer"


def test_leave_group_answers_for_every_member_of_the_request() -> None:
    driver = GroupDriver()
    leader, _ = stable_pair(driver)
    left = driver.apply(
        driver.shard.leave("g", [LeavingMember("nobody"), LeavingMember(leader), LeavingMember("", "i")], driver.now_ms)
    )
    assert [m.error for m in left] == [ErrorCode.unknown_member_id, ErrorCode.none, ErrorCode.unknown_member_id]
    unknown_group = driver.apply(driver.shard.leave("other", [LeavingMember("x", "i")], driver.now_ms))
    assert [m.error for m in unknown_group] == [ErrorCode.unknown_member_id]


def test_a_client_that_disconnects_after_it_got_its_id_leaves_no_member() -> None:
    driver = GroupDriver()
    assert driver.join("x").error is ErrorCode.member_id_required
    assert len(group(driver).pending_members) == 1
    driver.advance(10_100)
    assert not group(driver).pending_members and group(driver).state is ClassicState.EMPTY


def test_old_clients_join_without_requesting_a_member_id() -> None:
    driver = GroupDriver()
    assert driver.join("x", requires_known_member_id=False) is None
    driver.advance(3_100)
    assert driver.answers["x"].generation == 1


def test_the_protocol_with_the_most_votes_among_those_all_support_is_chosen() -> None:
    driver = GroupDriver()
    driver.join_twice("a", protocols=(("sticky", b"1"), ("range", b"2"), ("roundrobin", b"3")))
    driver.join_twice("b", protocols=(("range", b"4"), ("roundrobin", b"5")))
    driver.join_twice("c", protocols=(("roundrobin", b"6"), ("range", b"7")))
    driver.advance(6_100)
    assert driver.answers["a"].protocol_name == "range"
    assert [m.metadata for m in driver.answers["a"].members] == [b"2", b"4", b"7"]


def test_incompatible_protocols_and_types_are_refused() -> None:
    driver = GroupDriver()
    stable_pair(driver)
    assert driver.join("x", protocols=(("other", b""),)).error is ErrorCode.inconsistent_group_protocol
    assert driver.join("y", protocol_type="connect").error is ErrorCode.inconsistent_group_protocol
    assert driver.join("z", group="new", protocols=()).error is ErrorCode.inconsistent_group_protocol
    assert driver.join("w", group="new", protocol_type="").error is ErrorCode.inconsistent_group_protocol


def test_other_protocol_types_are_opaque() -> None:
    driver = GroupDriver()
    member = driver.join_twice("w", protocol_type="connect", protocols=(("default", b"\0opaque"),))
    driver.advance(3_100)
    reply = driver.answers["w"]
    assert (reply.protocol_type, reply.protocol_name, reply.members[0].metadata) == ("connect", "default", b"\0opaque")
    driver.sync("s", member, 1, assignments=[(member, b"\xff")])
    assert driver.answers["s"].assignment == b"\xff"


def test_wrong_generations_members_and_protocols_change_nothing() -> None:
    driver = GroupDriver()
    leader, _ = stable_pair(driver)
    for call, code in (
        (lambda: driver.heartbeat(leader, 2), ErrorCode.illegal_generation),
        (lambda: driver.heartbeat("nobody", 1), ErrorCode.unknown_member_id),
        (lambda: driver.heartbeat(leader, 1, group="other"), ErrorCode.unknown_member_id),
        (lambda: driver.sync("t", leader, 0), ErrorCode.illegal_generation),
        (lambda: driver.sync("t", "nobody", 1), ErrorCode.unknown_member_id),
        (lambda: driver.sync("t", leader, 1, protocol_name="sticky"), ErrorCode.inconsistent_group_protocol),
        (lambda: driver.sync("t", leader, 1, protocol_type="connect"), ErrorCode.inconsistent_group_protocol),
        (lambda: driver.sync("t", leader, 1, group="other"), ErrorCode.unknown_member_id),
    ):
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.code is code
    assert driver.join("u", group="other", member="someone").error is ErrorCode.unknown_member_id
    assert driver.join("v", member="someone").error is ErrorCode.unknown_member_id
    assert group(driver).state is ClassicState.STABLE and group(driver).generation == 1


def test_a_follower_that_rejoins_unchanged_stays_and_a_leader_starts_a_new_assignment() -> None:
    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    assert driver.join("f", member=follower).generation == 1
    assert group(driver).state is ClassicState.STABLE
    driver.join("l", member=leader)
    assert group(driver).state is ClassicState.PREPARING_REBALANCE


def test_a_follower_with_a_new_subscription_starts_a_rebalance() -> None:
    driver = GroupDriver()
    _, follower = stable_pair(driver)
    driver.join("f", member=follower, protocols=(("range", subscription("orders", "other")),))
    assert group(driver).state is ClassicState.PREPARING_REBALANCE


def test_a_member_that_never_fetches_its_assignment_is_removed() -> None:
    driver = GroupDriver()
    leader = driver.join_twice("a")
    follower = driver.join_twice("b")
    driver.advance(6_100)
    driver.sync("sa", leader, 1, assignments=[(leader, b"A")])
    for _ in range(13):
        driver.advance(5_000)
        driver.heartbeat(leader, 1)
        if follower in group(driver).members:
            driver.heartbeat(follower, 1)
    assert follower not in group(driver).members
    assert driver.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress


def test_waiting_syncs_get_an_error_when_the_generation_ends() -> None:
    driver = GroupDriver()
    driver.join_twice("a")
    follower = driver.join_twice("b")
    driver.advance(6_100)
    driver.sync("sb", follower, 1)
    driver.join_twice("c")
    assert driver.answers["sb"].error is ErrorCode.rebalance_in_progress


def test_a_full_group_refuses_more() -> None:
    driver = GroupDriver(GroupSettings(max_size=2))
    stable_pair(driver)
    assert driver.join("c").error is ErrorCode.group_max_size_reached
    assert driver.join("d", group="h", requires_known_member_id=False) is None
    driver.join("e", group="h", requires_known_member_id=False)
    assert driver.join("f", group="h", requires_known_member_id=False).error is ErrorCode.group_max_size_reached


def test_another_broker_takes_over_a_stable_group() -> None:
    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    driver.reload()
    assert driver.heartbeat(leader, 1) is ErrorCode.none
    reply = driver.sync("again", follower, 1)
    assert reply is not None and reply.assignment == b"B"
    driver.advance(11_000)
    assert not group(driver).members, "sessions are watched again from the moment of loading"


def test_waiting_members_get_not_coordinator_when_the_coordinator_moves() -> None:
    driver = GroupDriver()
    driver.join_twice("a")
    driver.reload()
    assert driver.answers["a"].error is ErrorCode.not_coordinator


@pytest.mark.parametrize("waits_for", ["join", "sync"])
def test_a_member_that_dies_while_it_waits_leaves_after_a_lapse_of_the_lease(waits_for: str) -> None:
    """Its session ended while its request waited, which did not count. The lapse ends the wait, and the coordinator
    stays. Until then a timer of the session must fire: it notices the lapse on a coordinator that nobody calls."""
    driver = GroupDriver()
    leader, follower = driver.join_twice("a"), driver.join_twice("b")
    driver.advance(6_100)
    if waits_for == "join":
        driver.join_twice("c")
        driver.join("waits", member=follower)
    else:
        driver.sync("waits", follower, 1)
    for _ in range(4):
        driver.advance(4_000)
        driver.heartbeat(leader, 1)
    assert follower in group(driver).members and "waits" not in driver.answers
    assert ("session", "g", follower) in driver.timers
    driver.answers.update(driver.shard.refuse_waiting())
    assert driver.answers["waits"].error is ErrorCode.not_coordinator
    for _ in range(3):
        driver.advance(4_000)
        driver.heartbeat(leader, 1)
    assert follower not in group(driver).members


def test_a_session_expires_exactly_after_its_timeout() -> None:
    driver = GroupDriver()
    leader, follower = stable_pair(driver)
    for _ in range(3):
        driver.advance(9_999)
        assert driver.heartbeat(leader, 1) is ErrorCode.none
        assert driver.heartbeat(follower, 1) is ErrorCode.none
    driver.advance(9_999)
    assert driver.heartbeat(leader, 1) is ErrorCode.none
    driver.advance(1)
    assert list(group(driver).members) == [leader]


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    driver = GroupDriver()
    stable_pair(driver)
    driver.join("c", requires_known_member_id=False, protocols=(("range", b"1"), ("range", b"2")))
    leader, follower = list(group(driver).members)[:2]
    driver.join("a2", member=leader)
    driver.join("b2", member=follower)
    assert {driver.answers[token].generation for token in ("a2", "b2", "c")} == {2}
