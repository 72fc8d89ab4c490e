"""Static members of classic groups (KIP-345) on virtual time: restart, absence, fencing."""

from __future__ import annotations

import pytest

from headrace.coordinators.group.core.classic.group import ClassicState
from headrace.coordinators.group.core.classic.messages import LeavingMember
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.group_driver import GroupDriver
from tests.unit.coordinators.group.core.classic.test_classic_groups import group, stable_pair


def static_pair(driver: GroupDriver, rebalance_timeout_ms: int = 60_000) -> tuple[str, str]:
    driver.join("a", instance_id="one", rebalance_timeout_ms=rebalance_timeout_ms)
    driver.join("b", instance_id="two", rebalance_timeout_ms=rebalance_timeout_ms)
    driver.advance(6_100)
    leader, follower = driver.answers["a"].member_id, driver.answers["b"].member_id
    driver.sync("sb", follower, 1, instance_id="two")
    driver.sync("sa", leader, 1, assignments=[(leader, b"A"), (follower, b"B")], instance_id="one")
    return leader, follower


def test_a_static_member_that_restarts_takes_its_place_without_a_rebalance() -> None:
    driver = GroupDriver()
    leader, follower = static_pair(driver)
    again = driver.join("b2", instance_id="two")
    assert again is not None and again.generation == 1 and again.member_id != follower
    assert again.leader == leader
    assert group(driver).state is ClassicState.STABLE
    reply = driver.sync("sb2", again.member_id, 1, instance_id="two")
    assert reply is not None and reply.assignment == b"B"
    with pytest.raises(Refused) as refused:
        driver.heartbeat(follower, 1, instance="two")
    assert refused.value.code is ErrorCode.fenced_instance_id
    driver.reload()
    assert again.member_id in group(driver).members


def test_a_restarted_static_leader_gets_skip_assignment() -> None:
    driver = GroupDriver()
    static_pair(driver)
    again = driver.join("a2", instance_id="one")
    assert again is not None and again.skip_assignment and again.leader == again.member_id
    assert len(again.members) == 2
    old_client = driver.join("a3", instance_id="one", can_skip_assignment=False)
    assert old_client is not None and not old_client.skip_assignment
    assert old_client.leader == again.member_id != old_client.member_id


def test_an_absent_static_member_keeps_its_place_through_a_rebalance() -> None:
    driver = GroupDriver()
    leader, follower = static_pair(driver, rebalance_timeout_ms=5_000)
    driver.join_twice("c", rebalance_timeout_ms=5_000)
    driver.join("a2", member=leader, instance_id="one", rebalance_timeout_ms=5_000)
    # The other one is away; its session of ten seconds outlives a rebalance of five.
    driver.advance(5_100)
    assert driver.answers["a2"].generation == 2
    assert follower in group(driver).members


def test_a_static_member_with_another_protocol_makes_all_members_rejoin() -> None:
    driver = GroupDriver()
    driver.join("a", instance_id="one", protocols=(("range", b"1"), ("sticky", b"2")))
    driver.advance(3_100)
    member = driver.answers["a"].member_id
    driver.sync("sa", member, 1, assignments=[(member, b"A")], instance_id="one")
    driver.join("a2", instance_id="one", protocols=(("sticky", b"2"),))
    reply = driver.answers["a2"]
    assert (reply.generation, reply.protocol_name) == (2, "sticky")


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    driver = GroupDriver()
    leader, follower = static_pair(driver)
    left = driver.apply(driver.shard.leave("g", [LeavingMember("", "two")], driver.now_ms))
    assert left[0].error is ErrorCode.none and left[0].instance_id == "two"
    assert follower not in group(driver).members
    fenced = driver.apply(driver.shard.leave("g", [LeavingMember("wrong", "one")], driver.now_ms))
    assert fenced[0].error is ErrorCode.fenced_instance_id and leader in group(driver).members


def test_a_second_process_with_the_same_instance_id_fences_the_waiting_first() -> None:
    driver = GroupDriver()
    driver.join("a", instance_id="one")
    driver.join("a2", instance_id="one")
    assert driver.answers["a"].error is ErrorCode.fenced_instance_id
    driver.advance(3_100)
    assert driver.answers["a2"].generation == 1


def test_a_static_member_that_restarts_during_a_join_stays_while_it_waits() -> None:
    driver = GroupDriver()
    leader, _ = stable_pair(driver)
    driver.join("s", instance_id="i")
    driver.join("s2", instance_id="i")
    assert driver.answers["s"].error is ErrorCode.fenced_instance_id
    for _ in range(5):
        driver.advance(6_000)
        assert driver.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress
    assert "s2" not in driver.answers, "three sessions long it has waited for the others"
