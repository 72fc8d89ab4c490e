"""A store accepts a megabyte per write: large changes are split into writes that fit."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from headrace.cluster.core.changes import AclsSet, Change, ConfigSet, QuotaSet, TopicCreated, apply
from headrace.cluster.core.image import EMPTY_IMAGE, PartitionInfo, TopicInfo
from headrace.config import load_broker_config
from headrace.controller import writes
from headrace.controller.core.config_changes import check_values
from headrace.controller.core.topics import NewTopic
from headrace.controller.ledger import parts_of
from headrace.coordination.store import Create, Set
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.support.clock import PATIENCE_S
from tests.unit.controller.test_controller import Opened, run

ZOOKEEPER_TAKES_BYTES = 1 << 20


def a_topic(name: str, partitions: int) -> TopicCreated:
    info = PartitionInfo(1, 0, 0, (1, 2, 3), (1, 2, 3))
    return TopicCreated(TopicInfo(name, uuid.uuid4(), (info,) * partitions))


def size(changes: list[Change]) -> int:
    after = apply(EMPTY_IMAGE, changes, 1)
    ops = [*writes.ops_for(changes, EMPTY_IMAGE, after), *writes.version_ops(changes, after)]
    return sum(len(op.path) + len(op.data) for op in ops if isinstance(op, Create | Set))


def test_throttles_of_many_large_topics_are_stored_in_pieces() -> None:
    """As a reassignment of tens of thousands of partitions asks for them."""
    every_replica = ",".join(f"{partition}:{broker}" for partition in range(1500) for broker in (11, 12, 13))[:32_767]
    lists = {
        "leader.replication.throttled.replicas": every_replica,
        "follower.replication.throttled.replicas": every_replica,
    }
    changes: list[Change] = [ConfigSet("topic", f"t{at}", lists) for at in range(100)]
    assert size(changes) > ZOOKEEPER_TAKES_BYTES, "else this shows nothing"
    parts = parts_of(changes)
    assert [change for part in parts for change in part] == changes
    assert all(size(list(part)) < ZOOKEEPER_TAKES_BYTES // 2 for part in parts)


def test_small_settings_of_many_topics_are_stored_together() -> None:
    assert len(parts_of([ConfigSet("topic", f"t{at}", {"min.insync.replicas": "2"}) for at in range(500)])) == 1


def test_a_new_topic_and_its_settings_stay_in_one_write() -> None:
    other = ConfigSet("topic", "other", {"retention.ms": "5"})
    changes: list[Change] = []
    for at in range(8):
        changes += [ConfigSet("topic", f"t{at}", {"retention.ms": str(at)}), a_topic(f"t{at}", 200)]
    parts = parts_of([other, *changes, other])
    assert [change for part in parts for change in part] == [other, *changes, other]
    assert len(parts) == 2
    for part in parts:
        made = {change.topic.name for change in part if isinstance(change, TopicCreated)}
        set_here = {change.name for change in part if isinstance(change, ConfigSet)} - {"other"}
        assert made == set_here


def test_a_value_that_kafka_refuses_is_refused() -> None:
    key = "leader.replication.throttled.replicas"
    longest = ",".join(["1:1"] * 8192)
    assert len(longest) == 32_767
    config = load_broker_config({})
    assert check_values("topic", "t", {key: longest}, config) == {key: longest}
    with pytest.raises(Refused, match="exceeds the maximum value size of 32767 bytes") as refused:
        check_values("topic", "t", {key: longest + ",1:1"}, config)
    assert refused.value.code is ErrorCode.invalid_config


def test_a_name_that_no_node_can_have_is_refused_and_the_controller_goes_on(tmp_path: Path) -> None:
    """On the wire a name has up to 32,767 bytes. In the path of its node, most of them take three characters."""
    name = "ü" * 12_000

    async def use(cluster: Opened) -> None:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Refused, match="a name is too long") as refused:
                await cluster.controller.alter_quotas([([("user", name)], [("producer_byte_rate", 1000.0, False)])])
            assert refused.value.code is ErrorCode.invalid_request
            assert (await cluster.controller.create_topics([NewTopic("a")]))[0].error is ErrorCode.none

    run(tmp_path, use)


@pytest.mark.parametrize("letters", [10_000, 12_000])
def test_the_names_of_all_resources_are_checked(letters: int) -> None:
    name = "ü" * letters
    entry = Entry("User:ann", "*", Operation.READ, Permission.ALLOW)
    for change in (
        ConfigSet("group", name, {"consumer.session.timeout.ms": "45000"}),
        QuotaSet((("client-id", name),), {"producer_byte_rate": 1.0}),
        AclsSet(ResourcePattern(ResourceType.GROUP, name, PatternType.LITERAL), (entry,)),
    ):
        longest = max(len(op.path) for op in writes.ops_for([change], EMPTY_IMAGE, apply(EMPTY_IMAGE, [change], 1)))
        if longest <= writes.LONGEST_PATH:
            writes.check_paths([change])
        else:
            with pytest.raises(Refused):
                writes.check_paths([change])
