"""A topic is deleted, and created again under its name: the new topic does not begin at offsets of the old one."""

from __future__ import annotations

import uuid

from headrace.cluster.core.changes import TopicDeleted, apply
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.wire.offset_commit import PartitionCommit
from tests.support.coordinator_logs import MemoryLog
from tests.support.counting_shard import on_loop
from tests.support.group_driver import image_of, topic_id
from tests.unit.coordinators.test_lost_lease import groups_on

BEFORE = image_of(1, orders=1)
AFTER = apply(BEFORE, [TopicDeleted("orders", topic_id("orders"))], 2)


def request(id_of_topic: uuid.UUID | None) -> CommitRequest:
    return CommitRequest("g", "", None, -1, [TopicCommit("orders", id_of_topic, [PartitionCommit(0, 7, -1, "")])])


def test_an_offset_of_an_open_transaction_goes_with_its_topic() -> None:
    """Also if the coordinator has no other offset."""

    async def scenario() -> None:
        groups = groups_on(MemoryLog())
        groups.commit_transactional_offsets(request(topic_id("orders")), 7, 0)
        hosted = groups.runtime.hosted(0)
        # The cluster of this test has no leaders, so the image does not go through `follow` of the runtime.
        groups.runtime.follow = lambda image: None  # type: ignore[method-assign]
        groups.follow(BEFORE, AFTER)
        await groups.complete_transaction(0, 7, 0, 1, True)
        assert hosted.shard.offsets.offsets.get("g", "orders", 0) is None
        groups.close()

    on_loop(scenario)
