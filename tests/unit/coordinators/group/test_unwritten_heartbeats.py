"""A heartbeat whose records are not written: the next one finds the same changes, and its member is alive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, HeartbeatRequest, ShareHeartbeatRequest
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.coordinator_logs import MemoryLog
from tests.support.counting_shard import on_loop
from tests.support.group_driver import GroupDriver, image_of, topic_id
from tests.unit.coordinators.test_lost_lease import groups_on

FEW_REPLICAS = Refused(ErrorCode.not_enough_replicas, "one replica left")
BEFORE, AFTER = image_of(1, **{"orders-eu": 1}), image_of(2, **{"orders-eu": 1, "orders-us": 1})
CONSUMER = HeartbeatRequest("g", "m", 0, "me", "here", rebalance_timeout_ms=60_000, owned={})
SHARE = ShareHeartbeatRequest("g", "m", 0, "me", "here", topic_names=("orders-eu", "orders-us"))


class Member:
    """Of a group whose coordinator has just seen a new topic of its subscription."""

    def __init__(self, groups: GroupCoordinator, joining: HeartbeatRequest | ShareHeartbeatRequest) -> None:
        self.groups, self._joining = groups, joining

    async def joins(self) -> None:
        self._follow(BEFORE)
        await self.beat()
        self._follow(AFTER)

    def _follow(self, image: Any) -> None:
        self.groups._view.publish(image)
        for hosted in self.groups.runtime.hosted_shards():
            hosted.shard.follow(image)

    async def beat(self, epoch: int = 0) -> HeartbeatReply:
        request = self._joining
        if isinstance(request, ShareHeartbeatRequest):
            sent = replace(request, epoch=epoch, topic_names=None if epoch else request.topic_names)
            return await self.groups.share_heartbeat(sent)
        if epoch:
            request = replace(request, rebalance_timeout_ms=-1, owned=None, topic_names=None, topic_regex=None)
        return await self.groups.consumer_heartbeat(replace(request, epoch=epoch), 1)

    async def is_refused(self, epoch: int) -> None:
        with pytest.raises(Refused) as refused:
            await self.beat(epoch)
        assert refused.value.code is ErrorCode.coordinator_not_available


def play(joining: Any, scenario: Callable[[Member, MemoryLog], Any]) -> None:
    async def play_it() -> None:
        log = MemoryLog()
        groups = groups_on(log)
        groups.settings_changed(replace(groups.settings, consumer_assignment_interval_ms=0))
        member = Member(groups, joining)
        await member.joins()
        await scenario(member, log)
        groups.close()

    on_loop(play_it)


@pytest.mark.parametrize(
    "joining", [replace(CONSUMER, topic_regex="orders-.*"), replace(CONSUMER, topic_names=("orders-eu", "orders-us"))]
)
def test_a_new_topic_is_assigned_although_the_first_heartbeat_after_it_was_not_written(joining: Any) -> None:
    """Otherwise no member would read it until topics are created or deleted again."""

    async def scenario(member: Member, log: MemoryLog) -> None:
        log.refuses_with = FEW_REPLICAS
        await member.is_refused(2)
        log.refuses_with = None
        reply = await member.beat(2)
        assert set(reply.assignment or {}) == {topic_id("orders-eu"), topic_id("orders-us")}

    play(joining, scenario)


def test_share_partitions_of_a_new_topic_are_begun_although_the_first_heartbeat_was_not_written() -> None:
    async def scenario(member: Member, log: MemoryLog) -> None:
        log.refuses_with = FEW_REPLICAS
        await member.is_refused(2)
        log.refuses_with = None
        await member.beat(2)
        assert topic_id("orders-us") in (await member.groups.share_group("g")).initializing

    play(SHARE, scenario)


def test_members_whose_heartbeats_are_not_written_stay() -> None:
    """Their sessions would end as soon as the log accepts writes again."""
    driver = GroupDriver(image=BEFORE)
    shard = driver.shard
    consumer, share = replace(CONSUMER, topic_names=SHARE.topic_names), replace(SHARE, group_id="s")
    driver.apply(shard.consumer_heartbeat(consumer, driver.now_ms))
    driver.apply(shard.share_heartbeat(share, driver.now_ms))
    driver.set_image(AFTER)
    for _ in range(3):
        driver.advance(40_000)
        for result in (
            shard.consumer_heartbeat(replace(consumer, epoch=2, owned=None), driver.now_ms),
            shard.share_heartbeat(replace(share, epoch=2), driver.now_ms),
        ):
            assert result.records and result.then is not None
            following = result.then(ErrorCode.not_enough_replicas, driver.now_ms)
            assert following is not None
            driver.apply(following)
    assert shard.consumer_group("g").members and shard.share_group("s").members
    driver.advance(45_000)
    assert not shard.consumer_group("g").members and not shard.share_group("s").members
