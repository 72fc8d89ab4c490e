"""Consumer groups (KIP-848) on virtual time: join, reconciliation, leave, fencing, regular expressions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from headrace.coordinators.group.core.consumer.group import ConsumerGroup, MemberState
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, HeartbeatRequest, check_heartbeat
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.group_driver import GroupDriver, image_of, topic_id

ORDERS = topic_id("orders")


def group(driver: GroupDriver) -> ConsumerGroup:
    return driver.shard.consumer_group("g")


def held(reply: HeartbeatReply) -> set[int]:
    assert reply.assignment is not None
    return set(reply.assignment.get(ORDERS, ()))


def owns(*partitions: int) -> dict[object, frozenset[int]]:
    return {ORDERS: frozenset(partitions)} if partitions else {}


def refused_with(code: ErrorCode, call: object) -> None:
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    assert refused.value.code is code


def test_the_first_member_gets_everything_in_one_answer() -> None:
    driver = GroupDriver()
    reply = driver.beat("a", 0)
    assert (reply.epoch, held(reply), reply.heartbeat_interval_ms) == (2, {0, 1, 2, 3}, 5_000)
    assert group(driver).state_name == "Stable"
    assert driver.beat("a", 2, owned=owns(0, 1, 2, 3)).assignment is None, "nothing new to tell"


def test_a_second_member_gets_its_share_after_the_first_has_revoked() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    second = driver.beat("b", 0)
    assert (second.epoch, held(second)) == (3, set()), "all of it is still held"
    first = driver.beat("a", 2)
    kept = held(first)
    assert first.epoch == 2 and len(kept) == 2, "asked to give up two, still in its epoch"
    assert driver.beat("b", 3).assignment is None
    done = driver.beat("a", 2, owned=owns(*kept))
    assert done.epoch == 3
    assert held(driver.beat("b", 3)) == {0, 1, 2, 3} - kept
    assert group(driver).state_name == "Stable"


def test_a_new_target_is_computed_only_after_the_interval() -> None:
    driver = GroupDriver(GroupSettings(consumer_assignment_interval_ms=1_000))
    assert held(driver.beat("a", 0)) == {0, 1, 2, 3}, "the first target waits for nobody"
    second = driver.beat("b", 0)
    assert (second.epoch, held(second), group(driver).epoch) == (2, set(), 3), "in the group, not yet in the target"
    assert group(driver).state_name == "Assigning"
    driver.advance(999)
    driver.reload()
    assert driver.beat("a", 2).assignment is None, "another broker knows when the last target was made"
    driver.advance(1)
    assert len(held(driver.beat("a", 2))) == 2
    assert group(driver).assignment_epoch == 3


def test_a_target_does_not_wait_for_a_clock_that_was_set_back() -> None:
    driver = GroupDriver(GroupSettings(consumer_assignment_interval_ms=1_000))
    driver.beat("a", 0)
    driver.now_ms -= 3_600_000
    assert driver.beat("b", 0).epoch == 3


def test_a_group_may_have_an_interval_of_its_own() -> None:
    driver = GroupDriver(GroupSettings(consumer_assignment_interval_ms=60_000))
    driver.shard.follow(replace(driver.image, configs={("group", "g"): {"consumer.assignment.interval.ms": "0"}}))
    driver.beat("a", 0)
    assert driver.beat("b", 0).epoch == 3


def test_no_member_gets_a_partition_that_another_may_still_read() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    driver.beat("b", 0)
    driver.beat("a", 2)
    member = group(driver).members["a"]
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    for _ in range(3):
        assert driver.beat("b", 3).assignment is None
        driver.beat("a", 2, owned=owns(0, 1, 2, 3))
    assert group(driver).state_name == "Reconciling"


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    driver = GroupDriver()
    driver.beat("a", 0, rebalance_timeout_ms=20_000)
    driver.beat("b", 0)
    driver.beat("a", 2)
    for _ in range(5):
        driver.advance(5_000)
        driver.beat("b", group(driver).members["b"].epoch)
        if "a" in group(driver).members:
            driver.beat("a", 2)
    assert set(group(driver).members) == {"b"}
    driver.beat("b", group(driver).members["b"].epoch)
    assert group(driver).members["b"].assigned_partitions == {ORDERS: frozenset(range(4))}
    refused_with(ErrorCode.unknown_member_id, lambda: driver.beat("a", 2))


def test_an_expired_member_is_removed_and_its_partitions_are_reassigned() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    driver.advance(40_000)
    driver.beat("b", 0)
    driver.advance(10_000)
    assert set(group(driver).members) == {"b"}
    reply = driver.beat("b", 3)
    assert held(reply) == {0, 1, 2, 3}


def test_partitions_of_a_leaving_member_are_reassigned_at_once() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    driver.beat("b", 0)
    left = driver.beat("a", -1)
    assert left.epoch == -1
    assert held(driver.beat("b", 3)) == {0, 1, 2, 3}
    driver.beat("b", -1)
    assert group(driver).state_name == "Empty"
    refused_with(ErrorCode.unknown_member_id, lambda: driver.beat("b", -1))


def test_stale_and_future_epochs_are_fenced() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    refused_with(ErrorCode.fenced_member_epoch, lambda: driver.beat("a", 3))
    driver.beat("b", 0)
    driver.beat("a", 2)
    kept = set(group(driver).members["a"].assigned_partitions[ORDERS])
    driver.beat("a", 2, owned=owns(*kept))
    assert group(driver).members["a"].epoch == 3
    again = driver.beat("a", 2, owned=owns(*kept))
    assert again.epoch == 3, "the answer that raised the epoch may have been lost"
    refused_with(ErrorCode.fenced_member_epoch, lambda: driver.beat("a", 2))
    refused_with(ErrorCode.fenced_member_epoch, lambda: driver.beat("a", 2, owned=owns(0, 1, 2, 3)))
    rejoined = driver.beat("a", 0)
    assert held(rejoined) == kept, "it gave everything up and joins again"


def test_the_previous_epoch_ends_with_the_first_heartbeat_of_the_new_one() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    driver.beat("b", 0)
    assert driver.beat("b", 3).epoch == 3, "it waits for what a still holds"
    driver.beat("c", 0)
    assert driver.beat("b", 3, owned={}).epoch == 4
    assert driver.beat("b", 3, owned={}).epoch == 4, "that answer may have been lost"
    driver.beat("b", 4, owned={})
    refused_with(ErrorCode.fenced_member_epoch, lambda: driver.beat("b", 3, owned={}))


def test_an_unknown_group_or_member_gets_its_error() -> None:
    driver = GroupDriver()
    refused_with(ErrorCode.group_id_not_found, lambda: driver.beat("a", 4))
    driver.beat("a", 0)
    refused_with(ErrorCode.unknown_member_id, lambda: driver.beat("b", 2))


def test_a_member_without_an_id_gets_one() -> None:
    driver = GroupDriver()
    reply = driver.beat("", 0)
    assert reply.member_id and reply.member_id in group(driver).members


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": " "}, ErrorCode.invalid_request),
        ({"instance_id": ""}, ErrorCode.invalid_request),
        ({"rack_id": ""}, ErrorCode.invalid_request),
        ({"member_id": ""}, ErrorCode.invalid_request),
        ({"rebalance_timeout_ms": -1}, ErrorCode.invalid_request),
        ({"owned": None}, ErrorCode.invalid_request),
        ({"owned": {ORDERS: frozenset({1})}}, ErrorCode.invalid_request),
        ({"topic_names": None}, ErrorCode.invalid_request),
        ({"epoch": -2}, ErrorCode.invalid_request),
        ({"epoch": -3}, ErrorCode.invalid_request),
        ({"server_assignor": "mine"}, ErrorCode.unsupported_assignor),
        ({"topic_regex": "("}, ErrorCode.invalid_regular_expression),
        ({"topic_regex": r"(a)\1"}, ErrorCode.invalid_regular_expression),
    ],
)
def test_bad_requests_get_kafkas_own_codes(changes: dict[str, object], code: ErrorCode) -> None:
    values: dict[str, object] = {
        "group_id": "g",
        "member_id": "a",
        "epoch": 0,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout_ms": 1_000,
        "topic_names": ("orders",),
        "owned": {},
    }
    check_heartbeat(HeartbeatRequest(**values), GroupSettings(), 1)  # type: ignore[arg-type]
    refused_with(code, lambda: check_heartbeat(HeartbeatRequest(**{**values, **changes}), GroupSettings(), 1))  # type: ignore[arg-type]


def test_a_topic_that_grows_is_noticed_at_the_next_heartbeat() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    driver.set_image(image_of(version=2, orders=6))
    reply = driver.beat("a", 2)
    assert (reply.epoch, held(reply)) == (3, set(range(6)))
    driver.set_image(image_of(version=3, orders=6, other=1))
    assert driver.beat("a", 3).epoch == 3, "a topic that nobody reads changes nothing"


def test_a_topic_that_is_created_later_is_assigned() -> None:
    driver = GroupDriver(image=image_of(other=1))
    assert held(driver.beat("a", 0)) == set()
    driver.set_image(image_of(version=2, orders=2, other=1))
    assert held(driver.beat("a", 2)) == {0, 1}


def test_a_changed_subscription_raises_the_group_epoch() -> None:
    driver = GroupDriver(image=image_of(orders=2, other=2))
    driver.beat("a", 0)
    reply = driver.beat("a", 2, topic_names=("orders", "other"))
    assert reply.epoch == 3 and set(reply.assignment or {}) == {ORDERS, topic_id("other")}


def test_a_regular_expression_follows_the_topics() -> None:
    driver = GroupDriver(image=image_of(**{"orders-eu": 1, "orders-us": 1, "other": 1}))
    reply = driver.beat("a", 0, topic_names=None, topic_regex="orders-.*")
    assert set(reply.assignment or {}) == {topic_id("orders-eu"), topic_id("orders-us")}
    driver.set_image(image_of(2, **{"orders-eu": 1, "orders-us": 1, "orders-asia": 1, "other": 1}))
    reply = driver.beat("a", 2)
    assert topic_id("orders-asia") in (reply.assignment or {})
    assert group(driver).is_subscribed_to("orders-asia") and not group(driver).is_subscribed_to("other")
    driver.reload()
    assert group(driver).regexes["orders-.*"].topics == {"orders-eu", "orders-us", "orders-asia"}
    driver.beat("a", 3, topic_regex="other")
    assert set(group(driver).regexes) == {"other"}, "nobody uses the old one"


def test_a_regular_expression_subscribes_to_topics_that_the_member_may_describe() -> None:
    def visible(names: Iterable[str]) -> set[str]:
        return set(names) - {"orders-secret"}

    driver = GroupDriver(image=image_of(**{"orders-eu": 1, "orders-secret": 1}))
    reply = driver.beat("a", 0, topic_names=None, topic_regex="orders-.*", visible=visible)
    assert set(reply.assignment or {}) == {topic_id("orders-eu")}
    driver.beat("b", 0, topic_names=("orders-eu",), visible=visible)
    # The rights of a leaving member do not count: the topics stay unchanged until the next heartbeat.
    driver.set_image(image_of(2, **{"orders-eu": 1, "orders-secret": 1, "orders-us": 1}))
    driver.beat("b", -1)
    assert group(driver).regexes["orders-.*"].topics == {"orders-eu"}
    driver.beat("a", group(driver).members["a"].epoch, visible=visible)
    assert group(driver).regexes["orders-.*"].topics == {"orders-eu", "orders-us"}


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    driver = GroupDriver(image=image_of(orders=2, other=2))
    topics = ("orders", "other")
    driver.beat("a", 0, topic_names=topics, server_assignor="range")
    driver.beat("b", 0, topic_names=topics, server_assignor="range")
    target = group(driver).target
    assert all(
        partitions == {ORDERS: frozenset({at}), topic_id("other"): frozenset({at})}
        for at, partitions in enumerate(target[m] for m in "ab")
    )


def test_a_full_group_refuses_more() -> None:
    driver = GroupDriver(GroupSettings(consumer_max_size=1))
    driver.beat("a", 0)
    refused_with(ErrorCode.group_max_size_reached, lambda: driver.beat("b", 0))


def test_another_broker_takes_over_a_group() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    driver.beat("b", 0)
    kept = held(driver.beat("a", 2))
    driver.reload()
    assert group(driver).members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert driver.beat("a", 2, owned=owns(*kept)).epoch == 3
    assert held(driver.beat("b", 3)) == {0, 1, 2, 3} - kept
    driver.advance(46_000)
    assert group(driver).is_empty


# Static members


def test_a_static_member_that_leaves_temporarily_keeps_its_partitions() -> None:
    driver = GroupDriver()
    driver.beat("a1", 0, instance_id="one")
    driver.beat("b", 0)
    kept = held(driver.beat("a1", 2, instance_id="one"))
    driver.beat("a1", 2, instance_id="one", owned=owns(*kept))
    driver.beat("b", 3)
    assert driver.beat("a1", -2, instance_id="one").epoch == -2
    back = driver.beat("a2", 0, instance_id="one")
    assert (back.epoch, held(back)) == (3, kept), "no new epoch: nothing moved"
    assert set(group(driver).members) == {"a2", "b"}
    refused_with(ErrorCode.fenced_instance_id, lambda: driver.beat("a1", 3, instance_id="one"))


def test_a_static_member_that_does_not_return_is_removed() -> None:
    driver = GroupDriver()
    driver.beat("a1", 0, instance_id="one")
    driver.beat("a1", -2, instance_id="one")
    driver.advance(46_000)
    assert group(driver).is_empty


def test_an_instance_id_in_use_is_refused() -> None:
    driver = GroupDriver()
    driver.beat("a1", 0, instance_id="one")
    refused_with(ErrorCode.unreleased_instance_id, lambda: driver.beat("a2", 0, instance_id="one"))
    refused_with(ErrorCode.unknown_member_id, lambda: driver.beat("x", 2, instance_id="unknown"))
