"""A topic is deleted, and created again under its name: the new topic does not begin at offsets of the old one."""

from __future__ import annotations

import uuid

from headrace.cluster.core.changes import TopicCreated, TopicDeleted, apply
from headrace.cluster.core.image import ClusterImage, TopicInfo
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.handlers.dispatch.authorization import UNRESTRICTED
from headrace.handlers.groups.offset_fetch import GroupQuery, OffsetFetch
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.offset_commit import PartitionCommit
from tests.support.coordinator_logs import MemoryLog
from tests.support.counting_shard import on_loop
from tests.support.group_driver import image_of, topic_id
from tests.unit.coordinators.test_lost_lease import groups_on

FEW_REPLICAS = Refused(ErrorCode.not_enough_replicas, "one replica left")
BEFORE = image_of(1, orders=1)
DELETED = TopicDeleted("orders", topic_id("orders"))
AFTER = apply(BEFORE, [DELETED], 2)
AGAIN = apply(
    BEFORE, [DELETED, TopicCreated(TopicInfo("orders", uuid.UUID(int=5), BEFORE.topics["orders"].partitions))], 2
)


def request(id_of_topic: uuid.UUID | None) -> CommitRequest:
    return CommitRequest("g", "", None, -1, [TopicCommit("orders", id_of_topic, [PartitionCommit(0, 7, -1, "")])])


def follow(groups: GroupCoordinator, image: ClusterImage) -> None:
    # `__consumer_offsets` is not in the image, so the runtime must not look for its leaders there.
    groups.runtime.follow = lambda image: None  # type: ignore[method-assign]
    groups._view.publish(image)
    groups.follow(BEFORE, image)


def test_an_offset_of_an_open_transaction_goes_with_its_topic() -> None:
    """Also if the coordinator has no other offset."""

    async def scenario() -> None:
        groups = groups_on(MemoryLog())
        groups.commit_transactional_offsets(request(topic_id("orders")), 7, 0)
        hosted = groups.runtime.hosted(0)
        follow(groups, AFTER)
        await groups.complete_transaction(0, 7, 0, 1, True)
        assert hosted.shard.offsets.offsets.get("g", "orders", 0) is None
        groups.close()

    on_loop(scenario)


def test_offsets_that_could_not_be_deleted_are_not_those_of_the_new_topic() -> None:
    """Too few replicas were in sync when the topic was deleted. The clean-up deletes them later."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = groups_on(log)
        handler, asked = OffsetFetch(groups, groups._view), GroupQuery("g", [("orders", None, [0])])

        async def fetched() -> int:
            answer = await handler._group(asked, False, 9, UNRESTRICTED)
            return answer["topics"][0]["partitions"][0]["committed_offset"]

        groups._view.publish(BEFORE)
        groups.commit_offsets(request(topic_id("orders")))
        assert await fetched() == 7
        log.refuses_with = FEW_REPLICAS
        follow(groups, AGAIN)
        assert await fetched() == -1
        log.refuses_with = None
        hosted = groups.runtime.hosted(0)
        hosted.submit(lambda shard, now_ms: shard.clean_up(now_ms))
        assert hosted.shard.offsets.offsets.is_empty
        groups.commit_offsets(request(uuid.UUID(int=5)))
        assert await fetched() == 7
        groups.close()

    on_loop(scenario)
