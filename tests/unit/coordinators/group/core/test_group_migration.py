"""Groups that migrate between the classic and the consumer protocol (KIP-848)."""

from __future__ import annotations

import pytest

from headrace.coordinators.group.core.classic import embedded_protocol as consumer_protocol
from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicState
from headrace.coordinators.group.core.classic.messages import LeavingMember
from headrace.coordinators.group.core.consumer.group import ConsumerGroup
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.offset_commit import PartitionCommit
from tests.support.group_driver import GroupDriver, image_of, subscription, topic_id

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


def test_a_classic_group_is_upgraded_and_downgraded() -> None:
    driver = GroupDriver()
    classic = classic_member_with_everything(driver)

    # A member of the new protocol joins: the group is upgraded, the classic member keeps its partitions until it
    # rejoins.
    joined = driver.beat("n", 0)
    assert isinstance(driver.shard.groups["g"], ConsumerGroup)
    assert joined.epoch == 2 and joined.assignment == {}
    assert driver.heartbeat(classic, 1) is ErrorCode.rebalance_in_progress
    rejoin(driver, "r1", classic, (0, 1, 2, 3), 1)
    assert driver.answers["r1"].generation == 1
    reply = driver.sync("s1", classic, 1)
    assert reply is not None
    kept = consumer_protocol.read_assignment(reply.assignment)[0]["orders"]
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

    # The last member of the new protocol leaves: the group is downgraded and rebalances.
    driver.beat("n", -1)
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup) and group.state is ClassicState.PREPARING_REBALANCE
    assert driver.heartbeat(classic, 2) is ErrorCode.rebalance_in_progress
    driver.join("r3", member=classic)
    assert driver.answers["r3"].generation == 3
    driver.reload()
    assert isinstance(driver.shard.groups["g"], ClassicGroup)


def test_an_empty_group_takes_the_protocol_of_its_next_member() -> None:
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


def test_a_policy_can_forbid_migration_and_other_protocols_never_migrate() -> None:
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
    assert reply is not None and consumer_protocol.read_assignment(reply.assignment)[0] == {}
    left = driver.apply(
        driver.shard.leave("g", [LeavingMember(first.member_id), LeavingMember("nobody")], driver.now_ms)
    )
    assert [m.error for m in left] == [ErrorCode.none, ErrorCode.unknown_member_id]
    driver.reload()
    assert set(driver.shard.consumer_group("g").members) == {"n"}


def test_a_classic_member_that_does_not_rejoin_is_removed() -> None:
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


@pytest.mark.parametrize(("topics", "rebalances"), [(("orders",), False), (("orders", "more"), True)])
def test_the_last_static_member_of_the_new_protocol_returns_as_a_classic_one(
    topics: tuple[str, ...], rebalances: bool
) -> None:
    """The group is downgraded: with its target, or with a rebalance when that target is out of date."""
    driver = GroupDriver(image=image_of(orders=4, more=2))
    assert driver.beat("n", 0, instance_id="i").assignment == {ORDERS: frozenset(range(4))}
    driver.beat("n", -2, instance_id="i")
    joined = driver.join("c", instance_id="i", protocols=(("range", subscription(*topics)),))
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup) and joined is not None and joined.error is ErrorCode.none
    assert group.state is (ClassicState.PREPARING_REBALANCE if rebalances else ClassicState.STABLE)
    if not rebalances:
        assert joined.generation == group.generation == 2
        reply = driver.sync("cs", joined.member_id, 2, instance_id="i")
        assert reply is not None
        assert consumer_protocol.read_assignment(reply.assignment)[0] == {"orders": (0, 1, 2, 3)}
    driver.reload()
    assert isinstance(driver.shard.groups["g"], ClassicGroup)


def test_removing_the_last_member_of_the_new_protocol_downgrades_the_group() -> None:
    driver = GroupDriver()
    classic_member_with_everything(driver)
    driver.beat("n", 0)
    driver.apply(driver.shard.leave("g", [LeavingMember("n"), LeavingMember("n")], driver.now_ms))
    assert isinstance(driver.shard.groups["g"], ClassicGroup)


def test_a_full_group_refuses_a_new_member_and_its_waiting_members_keep_waiting() -> None:
    driver = GroupDriver(GroupSettings(consumer_max_size=1))
    member = driver.join_twice("a")
    with pytest.raises(Refused) as refused:
        driver.beat("n", 0)
    assert refused.value.code is ErrorCode.group_max_size_reached
    driver.advance(3_100)
    assert driver.answers["a"].member_id == member and driver.answers["a"].error is ErrorCode.none


def test_a_group_with_user_data_of_a_custom_assignor_stays_classic() -> None:
    driver = GroupDriver()
    member = driver.join_twice("a")
    driver.advance(3_100)
    plain = consumer_protocol.write_assignment((("orders", (0,)),), 1)
    driver.sync("sa", member, 1, assignments=[(member, plain[:-4] + b"\0\0\0\x02me")])
    with pytest.raises(Refused) as refused:
        driver.beat("n", 0)
    assert refused.value.code is ErrorCode.group_id_not_found


def test_a_classic_member_rejoins_only_after_a_new_target() -> None:
    driver = GroupDriver(GroupSettings(consumer_assignment_interval_ms=1_000))
    driver.beat("n", 0)
    driver.advance(1_000)
    rejoin(driver, "c", "classic", (), -1)
    generation = driver.answers["c"].generation
    assert driver.sync("cs", "classic", generation) is not None
    driver.beat("another", 0)
    assert driver.shard.consumer_group("g").state_name == "Assigning"
    assert driver.heartbeat("classic", generation) is ErrorCode.none
    driver.advance(1_000)
    driver.beat("n", 2)
    assert driver.heartbeat("classic", generation) is ErrorCode.rebalance_in_progress


def test_a_commit_in_flight_is_accepted_for_partitions_to_revoke() -> None:
    """For both protocols: no other member reads the partition until this one has revoked it (KIP-1251)."""
    driver = GroupDriver()
    classic = classic_member_with_everything(driver)
    driver.beat("n", 0)
    rejoin(driver, "r1", classic, (0, 1, 2, 3), 1)
    member = driver.shard.consumer_group("g").members[classic]
    (given_up, *_) = member.pending_revocation[ORDERS]
    kept = tuple(member.assigned[ORDERS])

    def commit(partition: int, epoch: int) -> object:
        topic = TopicCommit("orders", ORDERS, [PartitionCommit(partition, 5, -1, "")])
        return driver.apply(
            driver.shard.commit_offsets(CommitRequest("g", classic, None, epoch, [topic]), driver.now_ms)
        )

    assert commit(given_up, 1) == set()
    rejoin(driver, "r2", classic, kept, 1)
    assert commit(kept[0], 1) == set(), "its generation has been raised meanwhile"
    with pytest.raises(Refused) as refused:
        commit(given_up, 1)
    assert refused.value.code is ErrorCode.illegal_generation


def test_a_classic_member_that_returns_to_an_empty_consumer_group_starts_again() -> None:
    driver = GroupDriver()
    driver.beat("n", 0)
    driver.beat("n", -1)
    reply = driver.join("c", member="of-before")
    assert reply is not None and reply.error is ErrorCode.unknown_member_id
    driver.reload()
    assert "g" not in driver.shard.groups


def test_a_static_member_changes_its_protocol_without_a_rebalance() -> None:
    """It keeps its partitions: the group is upgraded, and the generation becomes its epoch."""
    driver = GroupDriver()
    first = driver.join("a", instance_id="i")
    driver.advance(3_100)
    assert first is None
    member = driver.answers["a"].member_id
    assignment = consumer_protocol.write_assignment((("orders", (0, 1, 2, 3)),), 3)
    driver.sync("sa", member, 1, instance_id="i", assignments=[(member, assignment)])
    joined = driver.beat("n", 0, instance_id="i")
    assert (joined.epoch, joined.assignment) == (1, {ORDERS: frozenset(range(4))})


def test_a_static_member_that_changes_its_protocol_during_a_rebalance_gets_its_partitions() -> None:
    """The classic leader has not assigned them yet, and nothing else raises the epoch."""
    driver = GroupDriver()
    driver.join("a", instance_id="i")
    driver.advance(3_100)
    assert driver.answers["a"].generation == 1
    joined = driver.beat("n", 0, instance_id="i")
    assert (joined.epoch, joined.assignment) == (2, {ORDERS: frozenset(range(4))})


def test_a_group_that_a_static_member_downgrades_during_a_rebalance_assigns_again() -> None:
    """A classic member that waited for partitions has the generation of the classic group already: it would not ask for
    them again."""
    driver = GroupDriver()
    driver.beat("n", 0, instance_id="i")
    rejoin(driver, "c", "classic", (), -1)
    waits = driver.sync("cs", "classic", 3)
    assert waits is not None and consumer_protocol.read_assignment(waits.assignment)[0] == {}
    driver.beat("n", -2, instance_id="i")
    driver.join("returns", instance_id="i")
    assert isinstance(driver.shard.groups["g"], ClassicGroup)
    assert driver.heartbeat("classic", 3) is ErrorCode.rebalance_in_progress


def test_a_downgraded_group_rebalances_after_a_change_of_coordinator() -> None:
    """The next coordinator reassigns the partitions of the member that left."""
    driver = GroupDriver()
    driver.beat("n", 0)
    rejoin(driver, "c", "classic", (), -1)
    driver.beat("n", -1)
    driver.reload()
    assert driver.heartbeat("classic", 3) is ErrorCode.rebalance_in_progress
    driver.join("again", member="classic")
    assert driver.answers["again"].leader == "classic"


@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade", "bidirectional"])
def test_a_policy_sets_the_direction_of_migration(policy: str) -> None:
    driver = GroupDriver(GroupSettings(consumer_migration_policy=policy, consumer_assignment_interval_ms=0))
    classic_member_with_everything(driver)
    try:
        driver.beat("n", 0)
    except Refused as refused:
        assert refused.code is ErrorCode.group_id_not_found
    assert isinstance(driver.shard.groups["g"], ConsumerGroup) == (policy in ("upgrade", "bidirectional"))

    # Classic members may join a consumer group under any policy; a policy may forbid its downgrade.
    driver.beat("n", 0, group="h")
    driver.join("c", group="h", member="classic")
    driver.beat("n", -1, group="h")
    assert isinstance(driver.shard.groups["h"], ClassicGroup) == (policy in ("downgrade", "bidirectional"))
