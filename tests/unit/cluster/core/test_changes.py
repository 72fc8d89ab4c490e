"""The image and its changes: replay gives the same image on every broker, from every version."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster import codecs
from headrace.cluster.core.changes import (
    AclsSet,
    BrokerRegistered,
    BrokerRemoved,
    Change,
    ConfigSet,
    ControllerElected,
    FeatureSet,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    QuotaSet,
    TopicCreated,
    TopicDeleted,
    apply,
)
from headrace.cluster.core.delta import deleted_topics, diff
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.security.acl.model import Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType

NAMES = ["a", "b", "c"]
# A topic id belongs to one name; a recreated topic has another id.
topics = st.tuples(st.sampled_from(NAMES), st.integers(1, 2)).map(lambda t: (t[0], UUID(int=10 * ord(t[0]) + t[1])))
brokers = st.integers(0, 4)
infos = st.builds(
    PartitionInfo,
    leader=st.integers(-1, 4),
    leader_epoch=st.integers(0, 9),
    partition_epoch=st.integers(0, 9),
    isr=st.lists(brokers, max_size=3).map(tuple),
    replicas=st.lists(brokers, min_size=1, max_size=3).map(tuple),
    adding=st.lists(brokers, max_size=1).map(tuple),
    eligible=st.lists(brokers, max_size=2).map(tuple),
)
partitions = st.lists(infos, min_size=1, max_size=3).map(tuple)
broker_infos = st.builds(
    BrokerInfo,
    id=brokers,
    epoch=st.integers(1, 9),
    endpoints=st.just((Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"), Endpoint("X", "::1", 1, "SSL"))),
    rack=st.none() | st.just("r"),
    fenced=st.booleans(),
    shutting_down=st.booleans(),
)
texts = st.dictionaries(st.sampled_from(["x", "y"]), st.text(max_size=3), max_size=2)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(lambda topic, infos: TopicCreated(TopicInfo(topic[0], topic[1], infos)), topics, partitions),
    st.builds(PartitionsAdded, st.sampled_from(NAMES), st.just(1), partitions),
    st.builds(PartitionChanged, st.sampled_from(NAMES), st.integers(0, 2), infos),
    topics.map(lambda topic: TopicDeleted(*topic)),
    st.builds(
        AclsSet,
        st.builds(
            ResourcePattern,
            st.sampled_from([ResourceType.TOPIC, ResourceType.USER]),
            st.sampled_from(NAMES),
            st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        ),
        st.lists(
            st.builds(
                Entry,
                st.sampled_from(["User:a", "Role:b,c"]),
                st.sampled_from(["*", "10.0.0.0/8"]),
                st.sampled_from([Operation.READ, Operation.ALL]),
                st.sampled_from([Permission.ALLOW, Permission.DENY]),
            ),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(BrokerRegistered, broker_infos),
    st.builds(BrokerRemoved, brokers),
    st.builds(ConfigSet, st.just("topic"), st.sampled_from(NAMES), texts),
    st.builds(QuotaSet, st.just((("user", None), ("client-id", "c/1"))), st.just({"producer_byte_rate": 1.5})),
    st.builds(FeatureSet, st.just("group.version"), st.integers(0, 1)),
    st.builds(ControllerElected, brokers, st.integers(1, 9)),
    st.builds(ProducerIdsAllocated, brokers, st.just(0), st.just(1000)),
)


@given(st.lists(changes, max_size=30))
def test_encoded_changes_give_the_same_image(listed: list[Change]) -> None:
    again = codecs.decode_changes(codecs.encode_changes(listed, 7))
    assert apply(ClusterImage(), again, 1) == apply(ClusterImage(), listed, 1)


@given(st.lists(changes, max_size=20), st.lists(changes, max_size=20))
def test_applying_changes_together_or_one_by_one_gives_the_same_image(
    first: list[Change], second: list[Change]
) -> None:
    together = apply(ClusterImage(), first + second, 2)
    apart = apply(apply(ClusterImage(), first, 1), second, 2)
    assert together == apart
    assert apart.topic_names == {topic.id: name for name, topic in apart.topics.items()}


@given(st.lists(changes, max_size=20), st.lists(changes, max_size=20))
def test_delta_contains_exactly_the_differences(first: list[Change], second: list[Change]) -> None:
    old = apply(ClusterImage(), first, 1)
    new = apply(old, second, 2)
    delta = diff(old, new)
    touched = {(topic.name, index) for topic, index, _, _ in delta.changed}
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        for index, info in enumerate(topic.partitions):
            same = before is not None and before.id == topic.id and old.partition(name, index) == info
            assert ((name, index) in touched) == (not same)
    assert {topic.id for topic in delta.deleted} == {
        topic.id for name, topic in old.topics.items() if name not in new.topics or new.topics[name].id != topic.id
    }


def test_overrides_of_a_deleted_topic_do_not_come_to_a_later_topic_of_its_name() -> None:
    """The nodes are read after the deletion, the changes before it are replayed over them."""
    info = PartitionInfo(1, 0, 0, (1,), (1,))
    later = TopicCreated(TopicInfo("a", UUID(int=2), (info,)))
    replayed: list[Change] = [ConfigSet("topic", "a", {"retention.ms": "1000"}), TopicDeleted("a", UUID(int=1)), later]
    for read in (ClusterImage(), apply(ClusterImage(), [later], 3)):
        assert apply(read, replayed, 3).config_of("topic", "a") == {}


def test_unchanged_parts_are_shared_between_images() -> None:
    info = PartitionInfo(1, 0, 0, (1,), (1,))
    created = [TopicCreated(TopicInfo(name, UUID(int=at + 1), (info, info))) for at, name in enumerate(NAMES)]
    old = apply(ClusterImage(), created, 1)
    new = apply(old, [PartitionChanged("b", 1, replace(info, leader=2))], 2)
    assert new.topics["a"] is old.topics["a"]
    assert new.brokers is old.brokers
    assert new.topics["b"].partitions[0] is info


def test_view_accepts_only_newer_images_and_calls_all_subscribers() -> None:
    view = ClusterView()
    seen: list[tuple[int, int]] = []
    stop = view.subscribe(lambda old, new: seen.append((old.version, new.version)))
    assert view.publish(ClusterImage(version=3))
    assert not view.publish(ClusterImage(version=3))
    assert not view.publish(ClusterImage(version=2))
    stop()
    view.publish(ClusterImage(version=4))
    assert seen == [(-1, 3)]
    assert view.current.version == 4


def test_missing_topic_counts_as_deleted_only_after_its_deletion() -> None:
    """A deleted topic loses its group offsets, share state and logs; a topic whose nodes are lost keeps them."""
    first, second = UUID(int=1), UUID(int=2)
    info = PartitionInfo(1, 0, 0, (1,), (1,))
    old = apply(ClusterImage(version=0), [TopicCreated(TopicInfo("a", first, (info,)))], 1)
    assert deleted_topics(old, ClusterImage(version=9)) == {}
    assert deleted_topics(old, apply(old, [TopicDeleted("a", first)], 2)) == {"a": first}
    again = [TopicDeleted("a", first), TopicCreated(TopicInfo("a", second, (info,)))]
    after = apply(old, again, 2)  # type: ignore[arg-type]
    assert deleted_topics(old, after) == {"a": first}
    assert deleted_topics(after, apply(after, [FeatureSet("x", 1)], 3)) == {}
