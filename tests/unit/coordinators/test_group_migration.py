"""Groups that change between the classic and the consumer protocol while they live (KIP-848)."""

from __future__ import annotations

import pytest

from headrace.coordinators.group.core import consumer_protocol
from headrace.coordinators.group.core.classic_group import ClassicGroup, ClassicState
from headrace.coordinators.group.core.classic_messages import LeavingMember
from headrace.coordinators.group.core.consumer_group import ConsumerGroup
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.group_driver import GroupDriver, subscription, topic_id

ORDERS = topic_id("orders")


def classic_member_with_everything(driver: GroupDriver) -> str:
    member = driver.join_twice("a")
    driver.advance(3_100)
    assignment = consumer_protocol.write_assignment((("orders", (0, 1, 2, 3)),), 3)
    driver.sync("sa", member, 1, assignments=[(member, assignment)])
    return member


def rejoin(driver: GroupDriver, token: str, member: str, owned: tuple[int, ...], generation: int) -> None:
    data = subscription("orders", owned=[("orders", owned)], generation=generation)
    driver.join(token, member=member, protocols=(("range", data),))


def test_a_classic_group_goes_over_and_back() -> None:
    driver = GroupDriver()
    classic = classic_member_with_everything(driver)

    # A member of the new protocol joins: the group goes over, the classic member keeps what it has until it rejoins.
    joined = driver.beat("n", 0)
    assert isinstance(driver.shard.groups["g"], ConsumerGroup)
    assert joined.epoch == 2 and joined.assignment == {}
    assert driver.heartbeat(classic, 1) is ErrorCode.rebalance_in_progress
    rejoin(driver, "r1", classic, (0, 1, 2, 3), 1)
    assert driver.answers["r1"].generation == 1
    reply = driver.sync("s1", classic, 1)
    assert reply is not None
    kept = consumer_protocol.read_assignment(reply.assignment)["orders"]
    assert len(kept) == 2
    assert driver.heartbeat(classic, 1) is ErrorCode.rebalance_in_progress, "it gave up: it rejoins to go on"
    rejoin(driver, "r2", classic, kept, 1)
    assert driver.answers["r2"].generation == 2
    driver.sync("s2", classic, 2)
    assert driver.heartbeat(classic, 2) is ErrorCode.none
    other = driver.beat("n", 2).assignment
    assert other == {ORDERS: frozenset({0, 1, 2, 3} - set(kept))}

    driver.reload()
    assert driver.heartbeat(classic, 2) is ErrorCode.none

    # The last member of the new protocol leaves: the group goes back and rebalances.
    driver.beat("n", -1)
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup) and group.state is ClassicState.PREPARING_REBALANCE
    assert driver.heartbeat(classic, 2) is ErrorCode.rebalance_in_progress
    driver.join("r3", member=classic)
    assert driver.answers["r3"].generation == 3
    driver.reload()
    assert isinstance(driver.shard.groups["g"], ClassicGroup)


def test_a_group_without_members_becomes_what_its_next_member_speaks() -> None:
    driver = GroupDriver()
    member = classic_member_with_everything(driver)
    driver.apply(driver.shard.leave("g", [LeavingMember(member)], driver.now_ms))
    driver.beat("n", 0)
    assert isinstance(driver.shard.groups["g"], ConsumerGroup)
    driver.beat("n", -1)
    driver.join_twice("b")
    assert isinstance(driver.shard.groups["g"], ClassicGroup)
    driver.reload()
    assert isinstance(driver.shard.groups["g"], ClassicGroup)


def test_a_policy_can_forbid_it_and_other_protocols_never_go_over() -> None:
    driver = GroupDriver(GroupSettings(consumer_migration_policy="disabled"))
    classic_member_with_everything(driver)
    with pytest.raises(Refused) as refused:
        driver.beat("n", 0)
    assert refused.value.code is ErrorCode.group_id_not_found
    driver = GroupDriver()
    driver.join_twice("w", protocol_type="connect", protocols=(("default", b""),))
    with pytest.raises(Refused) as refused:
        driver.beat("n", 0)
    assert refused.value.code is ErrorCode.group_id_not_found


def test_a_classic_member_joins_a_consumer_group_and_leaves_it() -> None:
    driver = GroupDriver()
    driver.beat("n", 0)
    first = driver.join("c")
    assert first is not None and first.error is ErrorCode.member_id_required
    rejoin(driver, "c1", first.member_id, (), -1)
    assert driver.answers["c1"].generation == 3
    reply = driver.sync("cs", first.member_id, 3)
    assert reply is not None and consumer_protocol.read_assignment(reply.assignment) == {}
    left = driver.apply(
        driver.shard.leave("g", [LeavingMember(first.member_id), LeavingMember("nobody")], driver.now_ms)
    )
    assert [m.error for m in left] == [ErrorCode.none, ErrorCode.unknown_member_id]
    driver.reload()
    assert set(driver.shard.consumer_group("g").members) == {"n"}


def test_a_classic_member_that_is_told_to_rejoin_and_does_not_is_put_out() -> None:
    driver = GroupDriver()
    classic = classic_member_with_everything(driver)
    driver.beat("n", 0)
    for _ in range(14):
        driver.advance(5_000)
        driver.beat("n", driver.shard.consumer_group("g").members["n"].epoch)
        if classic in driver.shard.consumer_group("g").members:
            assert driver.heartbeat(classic, 1) is ErrorCode.rebalance_in_progress
    assert set(driver.shard.consumer_group("g").members) == {"n"}


def test_a_classic_member_that_joined_must_fetch_its_assignment() -> None:
    driver = GroupDriver()
    driver.beat("n", 0, rebalance_timeout_ms=600_000)
    first = driver.join("c")
    assert first is not None
    rejoin(driver, "c1", first.member_id, (), -1)
    for _ in range(14):
        driver.advance(5_000)
        driver.beat("n", driver.shard.consumer_group("g").members["n"].epoch)
        if first.member_id in driver.shard.consumer_group("g").members:
            driver.heartbeat(first.member_id, 3)
    assert set(driver.shard.consumer_group("g").members) == {"n"}
