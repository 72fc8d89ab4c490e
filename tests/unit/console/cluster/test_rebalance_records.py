"""What the records of a group tell about its rebalances: the causes that its coordinator noted, for each protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.console.cluster.rebalances import generations
from headrace.console.core.rebalances import rebalances
from headrace.coordinators.codec.rebalance_causes import HEADER, MAX_CAUSES, causes_in
from headrace.coordinators.group.core.classic.group import ClassicGroup
from headrace.coordinators.group.core.classic.messages import LeavingMember
from tests.support.group_driver import GroupDriver
from tests.unit.coordinators.group.core.share.test_share_groups import beat as share_beat
from tests.unit.coordinators.group.core.streams.test_streams_groups import beat as streams_beat
from tests.unit.coordinators.group.core.streams.test_streams_groups import driver_of as streams_driver


def reasons(driver: GroupDriver, group: str = "g") -> list[str]:
    """As the page shows them, newest first."""
    return [one.reason for one in rebalances(generations([record for record, _, _ in driver.log], group, {}))]


def classic(driver: GroupDriver) -> ClassicGroup:
    found = driver.shard.groups["g"]
    assert isinstance(found, ClassicGroup)
    return found


def stable_pair() -> tuple[GroupDriver, str, str]:
    """Two members of a classic group that have their assignments: the leader and another."""
    driver = GroupDriver()
    ann, bob = (driver.join_twice(name, client_id=name) for name in ("ann", "bob"))
    driver.advance(driver.settings.initial_rebalance_delay_ms * 2)
    assign(driver, ann, bob)
    return driver, ann, bob


def assign(driver: GroupDriver, *members: str) -> None:
    generation = classic(driver).generation
    for member in sorted(members, key=classic(driver).is_leader):
        driver.sync(("sync", member, generation), member, generation, assignments=[(one, b"") for one in members])


def rejoined(driver: GroupDriver, member: str, **changes: Any) -> None:
    driver.join(("again", member, driver.now_ms), member=member, **changes)
    assign(driver, member)


def test_a_classic_member_that_leaves_is_told_with_its_reason() -> None:
    driver, ann, bob = stable_pair()
    driver.apply(driver.shard.leave("g", [LeavingMember(bob, None, "the consumer is being closed")], driver.now_ms))
    rejoined(driver, ann, client_id="ann")
    assert reasons(driver)[0] == "left: bob (127.0.0.1) (“the consumer is being closed”)"


def test_a_classic_member_whose_session_expires_is_told() -> None:
    driver, ann, _bob = stable_pair()
    driver.advance(6_000)
    driver.heartbeat(ann, classic(driver).generation)
    driver.advance(6_000)
    rejoined(driver, ann, client_id="ann")
    assert reasons(driver)[0] == "session expired: bob (127.0.0.1)"
    # A cause is told once: the next generation has its own.
    driver.join_twice("cat", client_id="cat")
    driver.join(("third", ann), member=ann, client_id="ann")
    assign(driver, *classic(driver).members)
    assert reasons(driver)[0] == "joined: cat (127.0.0.1)"


def test_the_last_members_of_a_classic_group_are_told() -> None:
    driver, _ann, bob = stable_pair()
    driver.apply(driver.shard.leave("g", [LeavingMember(bob)], driver.now_ms))
    driver.advance(30_000)
    assert reasons(driver)[0] == "left: bob (127.0.0.1); session expired: ann (127.0.0.1)"


def test_a_member_that_does_not_rejoin_in_time_is_told() -> None:
    driver, ann, bob = stable_pair()
    driver.join(("again", ann), member=ann, client_id="ann", reason="rebalance enforced by user")
    for _ in range(12):
        driver.heartbeat(bob, classic(driver).generation)  # is alive, and does not rejoin
        driver.advance(5_000)
    assign(driver, ann)
    assert reasons(driver)[0] == "did not answer within the rebalance timeout: bob (127.0.0.1)"


def test_a_leader_that_asks_for_a_rebalance_is_told_with_its_reason() -> None:
    driver, ann, bob = stable_pair()
    leader, other = (ann, bob) if classic(driver).is_leader(ann) else (bob, ann)
    driver.join("again", member=leader, reason="rebalance enforced by user")
    driver.join("other", member=other)
    assign(driver, ann, bob)
    assert reasons(driver)[0].startswith("joined again: ")
    assert reasons(driver)[0].endswith("(“rebalance enforced by user”)")


def test_an_administrator_removes_a_static_member() -> None:
    driver = GroupDriver()
    driver.join("ann", instance_id="till-1")
    driver.advance(driver.settings.initial_rebalance_delay_ms * 2)
    assign(driver, *classic(driver).members)
    driver.apply(driver.shard.leave("g", [LeavingMember("", "till-1")], driver.now_ms))
    assert reasons(driver)[0] == "removed by an administrator: till-1 (127.0.0.1)"


def consumer_beat(driver: GroupDriver, member: str, epoch: int, **changes: str) -> object:
    return driver.beat(member, epoch, "s", **changes)


@pytest.mark.parametrize(
    ("driver", "beat"),
    [(GroupDriver(), consumer_beat), (GroupDriver(), share_beat), (streams_driver(), streams_beat)],
    ids=["consumer", "share", "streams"],
)
def test_members_of_the_newer_protocols(driver: GroupDriver, beat: Callable[..., object]) -> None:
    for name in ("ann", "bob"):
        beat(driver, name, 0, client_id=name, client_host="/h")
    beat(driver, "bob", -1)
    assert reasons(driver, "s")[0] == "left: bob (h)"
    driver.advance(120_000)
    assert reasons(driver, "s")[0] == "session expired: ann (h)"


def test_a_member_that_does_not_revoke_in_time_is_told() -> None:
    driver = GroupDriver()
    driver.beat("ann", 0, client_id="ann")
    driver.beat("bob", 0, client_id="bob")
    for _ in range(3):
        driver.beat("ann", 2)  # is to revoke, and does not
        driver.beat("bob", 3)
        driver.advance(20_000)
    assert reasons(driver)[0] == "did not answer within the rebalance timeout: ann (127.0.0.1)"


def test_a_record_stays_small_if_many_members_disappear_together() -> None:
    driver = GroupDriver()
    for number in range(MAX_CAUSES + 20):
        driver.join_twice(number, client_id=f"client-{number}")
    driver.advance(driver.settings.initial_rebalance_delay_ms * 2)
    assign(driver, *classic(driver).members)
    driver.advance(60_000)
    assert len(driver.log[-1][0].headers) == MAX_CAUSES
    assert reasons(driver)[0] == f"session expired: {MAX_CAUSES} members; left, or the session expired: 20 members"


def test_headers_of_others_are_skipped() -> None:
    assert causes_in([("trace", b"1"), (HEADER, b"{"), (HEADER, b"[1]"), (HEADER, b'["new kind","m",""]')]) == []
