"""DeleteTopics deletes only topics that its client may delete."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from headrace.cluster.core.image import ClusterImage
from headrace.controller.core.topics import NewTopic
from headrace.controller.topic_operations import delete_topics
from headrace.handlers.topics.delete_topics import DeleteTopics
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from tests.support.clock import Stopwatch
from tests.unit.controller.test_controller import Opened, run


class MayOnlySee:
    """The rights of a client that may see every topic and delete none."""

    def may(self, operation: Operation, *_: object) -> bool:
        return operation is Operation.DESCRIBE

    def may_cluster(self, _: Operation) -> bool:
        return False


def test_a_topic_whose_creation_waits_is_not_deleted_without_the_right(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        gateway: Any = SimpleNamespace(controller=cluster.controller, view=cluster.view)
        request: Any = SimpleNamespace(topic_names=(), topics=(SimpleNamespace(name="orders", topic_id=None),))
        context: Any = SimpleNamespace(access=MayOnlySee(), version=6)
        created, answer = await asyncio.gather(
            cluster.controller.create_topics([NewTopic("orders")]),
            DeleteTopics(gateway)._delete(request, context),
        )
        assert created[0].error is ErrorCode.none
        assert [row["error_code"] for row in answer["responses"]] == [ErrorCode.unknown_topic_or_partition]
        assert "orders" in cluster.image.topics

    run(tmp_path, use)


def test_a_request_with_many_topics_does_not_hold_up_the_controller() -> None:
    asked = [(None, UUID(int=at + 1)) for at in range(30_000)]
    watch = Stopwatch()
    results = delete_topics([*asked, asked[0]], enabled=True)(ClusterImage()).reply
    watch.at_most(15, because="comparing each topic with every other one takes longer")
    errors = [result.error for result in results]
    assert errors == [ErrorCode.invalid_request] + [ErrorCode.unknown_topic_id] * 29_999
