"""Cordoned brokers get no new replicas (KIP-1066); the replicas that they have stay."""

from __future__ import annotations

from uuid import UUID

import pytest

from headrace.cluster.codecs import decode_accepted, decode_registration, encode_accepted, encode_registration
from headrace.cluster.core.changes import BrokerRegistered, ConfigSet, TopicCreated, apply
from headrace.cluster.core.cordons import is_cordoned
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint, PartitionInfo, TopicInfo
from headrace.controller.core.elections import TopicRules
from headrace.controller.core.reassignments import reassign
from headrace.controller.core.topics import NewTopic, PlacementDraw, more_partitions, new_topic
from headrace.kernel.errors import ErrorCode, Refused

DIRECTORIES = (("a", "/data/a"), ("b", "/data/b"))


def broker(broker_id: int, cordoned: tuple[str, ...] = ()) -> BrokerInfo:
    endpoint = Endpoint("PLAINTEXT", "h", 9092 + broker_id, "PLAINTEXT")
    return BrokerInfo(broker_id, 1, (endpoint,), log_dirs=DIRECTORIES, cordoned_log_dirs=cordoned)


def cluster(
    dynamic: str | None = None, *, static: tuple[str, ...] = (), partition: tuple[int, ...] = (1,)
) -> ClusterImage:
    """Three brokers, the third with cordons, and a topic."""
    changes = [BrokerRegistered(broker(1)), BrokerRegistered(broker(2)), BrokerRegistered(broker(3, static))]
    topic = TopicInfo("t", UUID(int=1), (PartitionInfo(partition[0], 0, 0, partition, partition),))
    image = apply(ClusterImage(), [*changes, TopicCreated(topic)], 1)
    return image if dynamic is None else apply(image, [ConfigSet("broker", "3", {"cordoned.log.dirs": dynamic})], 2)


def created(image: ClusterImage, asked: NewTopic) -> list[tuple[int, ...]]:
    topic = new_topic(image, asked, UUID(int=2), PlacementDraw(), default_partitions=1, default_factor=1)
    return [info.replicas for info in topic.partitions]


@pytest.mark.parametrize(
    ("dynamic", "static", "cordoned"),
    [
        (None, (), False),
        ("*", (), True),
        ("a,b", (), True),
        (" /data/a , b ", (), True),
        ("a", (), False),
        ("a,a", (), False),
        (None, ("*",), True),
        (None, ("a", "/data/b"), True),
        ("a", ("*",), False),
        ("", ("*",), False),
    ],
)
def test_a_broker_is_cordoned_if_all_its_directories_are(
    dynamic: str | None, static: tuple[str, ...], cordoned: bool
) -> None:
    image = cluster(dynamic, static=static)
    assert is_cordoned(image, 3) is cordoned
    assert not is_cordoned(image, 1)
    assert {3 in replicas for replicas in created(image, NewTopic("n", 6, 2))} == (
        {False} if cordoned else {True, False}
    )


def test_a_broker_that_names_no_directories_is_not_cordoned() -> None:
    """It runs an earlier version."""
    image = apply(ClusterImage(), [BrokerRegistered(BrokerInfo(1, 1, (), cordoned_log_dirs=("*",)))], 1)
    assert not is_cordoned(image, 1)


def test_a_topic_that_needs_a_cordoned_broker_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        created(cluster("*"), NewTopic("n", 1, 3))
    assert refused.value.code is ErrorCode.invalid_replication_factor
    assert "only 2 broker(s) are registered; the log directories of brokers [3] are cordoned." in refused.value.message


def test_new_partitions_avoid_a_cordoned_broker() -> None:
    added = more_partitions(cluster("*", partition=(1, 2)), "t", 8, None, PlacementDraw())
    assert all(set(info.replicas) == {1, 2} for info in added)


def test_an_assignment_to_a_cordoned_broker_is_refused() -> None:
    image = cluster("*")
    for call in (
        lambda: created(image, NewTopic("n", assignments={0: [1, 3]})),
        lambda: more_partitions(image, "t", 2, [[3]], PlacementDraw()),
        lambda: reassign(image, "t", 0, [1, 3], lambda _: TopicRules(1, False)),
    ):
        with pytest.raises(Refused, match="broker 3, but all its log directories are cordoned") as refused:
            call()
        assert refused.value.code is ErrorCode.invalid_replica_assignment


def test_a_replica_may_stay_on_a_cordoned_broker_and_leave_it() -> None:
    image = cluster("*", partition=(3, 1))
    stays = reassign(image, "t", 0, [3, 2], lambda _: TopicRules(1, False))
    leaves = reassign(image, "t", 0, [1, 2], lambda _: TopicRules(1, False))
    assert stays is not None and leaves is not None


def test_directories_and_cordons_survive_the_nodes() -> None:
    info = broker(3, ("a",))
    data = encode_registration(info, clean_start=True, timestamp_ms=0, version="1")
    assert decode_registration(3, data, 1) == (info, True)
    assert decode_accepted(encode_accepted(info)) == info
