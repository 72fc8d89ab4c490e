"""Members of share groups, on virtual time: assignment, expiry, fencing, initialisation, and the separation of group
types.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinators.group.core.heartbeat_messages import (
    HeartbeatReply,
    ShareHeartbeatRequest,
    check_share_heartbeat,
)
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.share.group import Partitions, ShareGroup
from headrace.coordinators.group.core.share.simple_assignor import assign_simple
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.group_driver import GroupDriver, image_of, topic_id

ORDERS = topic_id("orders")


def beat(driver: GroupDriver, member: str, epoch: int, **changes: Any) -> HeartbeatReply:
    values: dict[str, Any] = {"client_id": "c", "client_host": "/h"}
    if epoch == 0:
        values["topic_names"] = ("orders",)
    request = ShareHeartbeatRequest("s", member, epoch, **{**values, **changes})
    reply: HeartbeatReply = driver.apply(driver.shard.share_heartbeat(request, driver.now_ms))
    return reply


def begun(driver: GroupDriver) -> None:
    """The share coordinator has initialised the share partitions of the group."""
    driver.apply(driver.shard.share_partitions_begun("s", group(driver).initializing))


def joined(driver: GroupDriver, member: str, **changes: Any) -> HeartbeatReply:
    """The answer to a joining member once its share partitions are initialised."""
    reply = beat(driver, member, 0, **changes)
    begun(driver)
    later = beat(driver, member, reply.epoch)
    return reply if later.assignment is None else later


def group(driver: GroupDriver) -> ShareGroup:
    return driver.shard.share_group("s")


def refusal(call: object) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    return refused.value.code


def test_members_share_the_partitions_and_several_may_read_one() -> None:
    driver = GroupDriver(image=image_of(orders=2))
    assert joined(driver, "a").assignment == {ORDERS: frozenset({0, 1})}
    beat(driver, "b", 0)
    beat(driver, "c", 0)
    for member in "abc":
        beat(driver, member, group(driver).members[member].epoch)
    shares = [set(m.assigned[ORDERS]) for m in group(driver).members.values()]
    assert sorted(map(len, shares)) == [1, 1, 2] and set().union(*shares) == {0, 1}, "two readers each"
    assert group(driver).state_name == "Stable"


def test_a_new_target_is_computed_only_after_the_interval() -> None:
    driver = GroupDriver(GroupSettings(share_assignment_interval_ms=1_000))
    assert joined(driver, "a").assignment, "nobody reads yet, so nobody has to wait"
    assert beat(driver, "b", 0).assignment == {}, "in the group, not yet in the target"
    driver.advance(999)
    assert beat(driver, "b", 3).assignment is None
    driver.advance(1)
    assert beat(driver, "b", 3).assignment


def test_an_expired_or_leaving_member_is_removed() -> None:
    driver = GroupDriver(image=image_of(orders=2))
    joined(driver, "a")
    driver.advance(30_000)
    beat(driver, "b", 0)
    driver.advance(20_000)
    assert set(group(driver).members) == {"b"}
    assert beat(driver, "b", 4).assignment == {ORDERS: frozenset({0, 1})}
    assert beat(driver, "b", -1).epoch == -1
    assert group(driver).state_name == "Empty"
    assert refusal(lambda: beat(driver, "b", -1)) is ErrorCode.unknown_member_id


def test_epochs_fence_and_a_lost_answer_does_not() -> None:
    driver = GroupDriver()
    beat(driver, "a", 0)
    beat(driver, "b", 0)
    assert beat(driver, "a", 2).epoch == 3
    assert beat(driver, "a", 2).epoch == 3, "the answer that raised the epoch may have been lost"
    assert refusal(lambda: beat(driver, "a", 8)) is ErrorCode.fenced_member_epoch
    assert refusal(lambda: beat(driver, "x", 2)) is ErrorCode.unknown_member_id
    assert beat(driver, "a", 0).epoch == 3


def test_topics_that_grow_and_subscriptions_that_change_are_followed() -> None:
    driver = GroupDriver(image=image_of(orders=1, other=1))
    joined(driver, "a")
    driver.set_image(image_of(2, orders=3, other=1))
    assert beat(driver, "a", 3).assignment is None, "the new share partitions are not initialised yet"
    begun(driver)
    assert beat(driver, "a", 4).assignment == {ORDERS: frozenset({0, 1, 2})}
    assert beat(driver, "a", 5, topic_names=("other",)).assignment == {}, "nothing of the topic that it gave up"
    assert beat(driver, "a", 6).assignment is None
    begun(driver)
    assert beat(driver, "a", 6).assignment == {topic_id("other"): frozenset({0})}
    assert set(group(driver).initialized) == {ORDERS, topic_id("other")}, "share partitions stay until they are deleted"
    assert beat(driver, "a", 7, topic_names=("orders",)).assignment == {ORDERS: frozenset({0, 1, 2})}


def test_an_unsubscribed_topic_is_revoked_at_once_within_the_interval() -> None:
    driver = GroupDriver(GroupSettings(share_assignment_interval_ms=1_000), image=image_of(orders=1, other=1))
    joined(driver, "a", topic_names=("orders", "other"))
    kept = {topic_id("other"): frozenset({0})}
    changed = beat(driver, "a", 3, topic_names=("other",))
    assert (changed.epoch, changed.assignment) == (3, kept)
    assert beat(driver, "a", 3).assignment is None and group(driver).members["a"].assigned == kept
    changed = beat(driver, "a", 3, topic_names=("orders",))
    assert (changed.epoch, changed.assignment) == (3, {ORDERS: frozenset({0})}), "the target still has it"
    driver.advance(1_000)
    assert beat(driver, "a", 3).epoch == 5


def test_a_newly_initialised_share_partition_raises_the_epoch_once() -> None:
    driver = GroupDriver(image=image_of(orders=2))
    beat(driver, "a", 0)
    driver.apply(driver.shard.share_partitions_begun("s", {ORDERS: ("orders", frozenset({1}))}))
    assert beat(driver, "a", 2).assignment == {ORDERS: frozenset({1})}
    assert beat(driver, "a", 3).epoch == 3
    driver.reload()
    assert beat(driver, "a", 3).epoch == 3, "another broker finds nothing to assign either"
    begun(driver)
    reply = beat(driver, "a", 3)
    assert (reply.epoch, reply.assignment) == (4, {ORDERS: frozenset({0, 1})})
    assert beat(driver, "a", 4).epoch == 4


def test_another_broker_takes_over() -> None:
    driver = GroupDriver()
    beat(driver, "a", 0)
    driver.reload()
    assert beat(driver, "a", 2).assignment is None
    assert group(driver).initializing == {ORDERS: ("orders", frozenset(range(4)))}
    driver.advance(46_000)
    assert group(driver).is_empty


def test_group_types_are_separate() -> None:
    driver = GroupDriver()
    beat(driver, "a", 0)
    assert refusal(lambda: driver.beat("m", 0, group="s")) is ErrorCode.group_id_not_found
    assert refusal(lambda: driver.join("t", group="s")) is ErrorCode.inconsistent_group_protocol
    commit = CommitRequest("s", "", None, -1, [])
    assert refusal(lambda: driver.shard.commit_offsets(commit, driver.now_ms)) is ErrorCode.group_id_not_found
    driver.beat("m", 0, group="c")
    request = ShareHeartbeatRequest("c", "a", 0, "c", "/h", None, ("orders",))
    assert refusal(lambda: driver.shard.share_heartbeat(request, driver.now_ms)) is ErrorCode.group_id_not_found


def test_only_an_empty_group_is_administered() -> None:
    driver = GroupDriver()
    beat(driver, "a", 0)
    assert refusal(lambda: driver.shard.begin_share_partitions("s", {})) is ErrorCode.non_empty_group
    assert refusal(lambda: driver.shard.end_share_partitions("s", ["orders"])) is ErrorCode.non_empty_group
    assert refusal(lambda: driver.shard.delete_share_group("s")) is ErrorCode.non_empty_group
    beat(driver, "a", -1)
    epoch = group(driver).epoch
    assert driver.apply(driver.shard.begin_share_partitions("s", {ORDERS: ("orders", frozenset({0}))})) == epoch
    assert group(driver).epoch == epoch, "its members, were there any, would not notice"
    driver.apply(driver.shard.delete_share_group("s"))
    driver.reload()
    assert refusal(lambda: driver.shard.share_group("s")) is ErrorCode.group_id_not_found


def test_initialisation_and_deletion_are_recorded_before_and_after() -> None:
    driver = GroupDriver(image=image_of(orders=2, other=1))
    other = topic_id("other")
    all_of_it = {ORDERS: ("orders", frozenset({0, 1}))}

    def noted() -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        driver.reload()
        found = group(driver).noted
        assert found is not None
        return dict(found.initializing), dict(found.initialized), dict(found.deleting)

    beat(driver, "a", 0)
    assert noted() == (all_of_it, {}, {})
    driver.apply(driver.shard.share_partitions_begun("s", {ORDERS: ("orders", frozenset({0}))}))
    assert noted() == ({ORDERS: ("orders", frozenset({1}))}, {ORDERS: ("orders", frozenset({0}))}, {})
    driver.apply(driver.shard.share_partitions_begun("s", {ORDERS: ("orders", frozenset({1}))}))
    assert noted() == ({}, all_of_it, {})
    driver.set_image(image_of(2, orders=3, other=1))
    beat(driver, "a", 2)
    assert noted() == ({ORDERS: ("orders", frozenset({2}))}, all_of_it, {}), "only what is new begins"
    all_of_it = {ORDERS: ("orders", frozenset({0, 1, 2}))}
    driver.apply(driver.shard.share_partitions_begun("s", all_of_it))
    beat(driver, "a", -1)

    going = driver.apply(driver.shard.end_share_partitions("s", ["orders", "other", "missing"]))
    assert [key.partition for key in going.share_partitions["orders"]] == [0, 1, 2]
    assert dict(going.errors) == dict.fromkeys(["other", "missing"], ErrorCode.unknown_topic_or_partition)
    assert noted() == ({}, {}, {ORDERS: "orders"})
    again = driver.apply(driver.shard.end_share_partitions("s", ["orders"]))
    assert again.share_partitions == {"orders": going.share_partitions["orders"]}, (
        "the first time may have failed half way"
    )
    beat(driver, "a", 0)
    assert noted() == (all_of_it, {}, {}), "a member that returns gets new share partitions"
    driver.apply(driver.shard.share_partitions_begun("s", all_of_it))
    beat(driver, "a", -1)
    driver.apply(driver.shard.begin_share_partitions("s", {other: ("other", frozenset({0}))}))
    assert noted() == ({other: ("other", frozenset({0}))}, all_of_it, {})
    driver.apply(driver.shard.share_topics_deleted({other}))
    driver.apply(driver.shard.share_partitions_begun("s", {other: ("other", frozenset({0}))}))
    assert noted() == ({}, all_of_it, {}), "its topic was gone before it had begun"
    assert len(driver.apply(driver.shard.end_share_group("s"))) == 3
    assert noted() == ({}, {}, {ORDERS: "orders"})
    assert len(driver.apply(driver.shard.end_share_group("s"))) == 3, "the first time may have failed half way"
    driver.apply(driver.shard.share_partitions_ended("s", {ORDERS}))
    assert noted() == ({}, {}, {})


def test_a_full_group_refuses_more() -> None:
    driver = GroupDriver(GroupSettings(share_max_size=1))
    beat(driver, "a", 0)
    assert refusal(lambda: beat(driver, "b", 0)) is ErrorCode.group_max_size_reached


@pytest.mark.parametrize(
    "changes", [{"group_id": ""}, {"member_id": " "}, {"rack_id": ""}, {"topic_names": None}, {"epoch": -2}]
)
def test_bad_requests_are_refused(changes: dict[str, Any]) -> None:
    values: dict[str, Any] = {
        "group_id": "s",
        "member_id": "m",
        "epoch": 0,
        "client_id": "c",
        "client_host": "/h",
        "topic_names": ("orders",),
    }
    check_share_heartbeat(ShareHeartbeatRequest(**values))
    assert (
        refusal(lambda: check_share_heartbeat(ShareHeartbeatRequest(**{**values, **changes})))
        is ErrorCode.invalid_request
    )


# Who reads what


A, B = uuid.UUID(int=1), uuid.UUID(int=2)


@settings(max_examples=150, deadline=None)
@given(
    lives=st.lists(
        st.dictionaries(st.sampled_from("abcdefg"), st.sets(st.sampled_from([A, B]), min_size=1), min_size=1),
        min_size=1,
        max_size=5,
    ),
    counts=st.tuples(st.integers(1, 9), st.integers(1, 3)),
    alike=st.booleans(),
)
def test_every_partition_has_readers_and_every_member_has_partitions(
    lives: list[dict[str, set[uuid.UUID]]], counts: tuple[int, int], alike: bool
) -> None:
    before: dict[str, Partitions] = {}
    topics = {A: range(counts[0]), B: range(counts[1])}
    for life in lives:
        wanted = {m: frozenset((A, B) if alike else topics) for m, topics in life.items()}
        found = assign_simple(wanted, topics, before)
        assert assign_simple(wanted, topics, found) == found, "fair as it is: nobody moves"
        for topic, count in ((A, counts[0]), (B, counts[1])):
            readers = [m for m, topics in wanted.items() if topic in topics]
            read = [p for m in wanted for p in found[m].get(topic, ())]
            assert set(read) == (set(range(count)) if readers else set()), "each has readers"
        sizes = [sum(map(len, found[m].values())) for m in wanted]
        assert min(sizes) > 0
        assert not alike or max(sizes) - min(sizes) <= 1, "as evenly as numbers allow"
        before = found


def test_remaining_members_keep_their_partitions() -> None:
    both = {A: range(2), B: range(2)}
    alone = assign_simple({"a": frozenset((A, B))}, both, {})
    assert alone == {"a": {A: {0, 1}, B: {0, 1}}}
    two = assign_simple({m: frozenset((A, B)) for m in "ab"}, both, alone)
    assert {m: sum(map(len, found.values())) for m, found in two.items()} == {"a": 2, "b": 2}
    assert all(two["a"][topic] <= alone["a"][topic] for topic in two["a"])
    many = assign_simple({m: frozenset((A,)) for m in "abcde"}, {A: range(2)}, {})
    assert {m: len(found[A]) for m, found in many.items()} == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1}
