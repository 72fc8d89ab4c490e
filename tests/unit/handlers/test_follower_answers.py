"""Answers of a follower about its replica, and answers about partitions without a leader and stopped brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.core.image import NO_LEADER, BrokerInfo, ClusterImage, Endpoint, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.handlers.cluster.describe_cluster import DescribeCluster
from headrace.handlers.data.list_offsets import ListOffsets
from headrace.handlers.data.offset_for_leader_epoch import OffsetForLeaderEpoch
from headrace.handlers.topics.describe_topic_partitions import DescribeTopicPartitions
from headrace.handlers.transactions.describe_producers import DescribeProducers
from headrace.kernel.errors import ErrorCode, NotLeader
from headrace.wire import codec
from tests.unit.handlers.dispatch.test_dispatcher import ask, dispatcher
from tests.unit.replication.test_partitions import EPOCH, TOPIC_ID, Setting, elsewhere, followed

LATEST = -1
CONSUMER, DEBUGGER = -1, -2
HERE = 3  # the leader epoch of what is followed here
# (current leader epoch of the request, error)
EPOCHS = [
    (-1, ErrorCode.not_leader_or_follower),
    (HERE, ErrorCode.not_leader_or_follower),
    (HERE - 1, ErrorCode.fenced_leader_epoch),
    (HERE + 1, ErrorCode.unknown_leader_epoch),
]


@pytest.fixture
def setting() -> Setting:
    made = Setting()
    made.partitions.registered_as(EPOCH)
    made.publish(followed(epoch=HERE), elsewhere())
    return made


def answer(handler: Any, version: int, body: dict[str, Any]) -> Any:
    return codec.read_response(handler.api_key, version, ask(dispatcher(handler), handler.api_key, version, body)[4:])[
        1
    ]


def listed(setting: Setting, partition: int, epoch: int, asker: int = CONSUMER) -> Any:
    question = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": LATEST}
    topics = [{"name": "t", "partitions": [question]}]
    body = {"replica_id": asker, "isolation_level": 0, "topics": topics}
    return answer(ListOffsets(setting.partitions), 6, body).topics[0].partitions[0]


@pytest.mark.parametrize(("epoch", "code"), EPOCHS)
def test_epochs_are_compared_before_leadership(setting: Setting, epoch: int, code: ErrorCode) -> None:
    """A client that knows a newer leader than this broker must not be sent away to look for it."""
    assert listed(setting, 0, epoch).error_code is code
    question = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0}
    body = {"replica_id": CONSUMER, "topics": [{"topic": "t", "partitions": [question]}]}
    found = answer(OffsetForLeaderEpoch(setting.partitions), 4, body).topics[0].partitions[0]
    assert found.error_code is code


def test_a_replica_reports_the_end_of_its_log(setting: Setting) -> None:
    found = listed(setting, 0, -1, DEBUGGER)
    assert (found.error_code, found.offset, found.leader_epoch) == (0, 0, HERE)
    assert listed(setting, 0, HERE + 1, DEBUGGER).error_code is ErrorCode.unknown_leader_epoch
    assert listed(setting, 1, -1, DEBUGGER).error_code is ErrorCode.not_leader_or_follower, "no replica is here"


def test_a_follower_describes_the_producers_of_its_replica(setting: Setting) -> None:
    one = SimpleNamespace(
        producer_id=7, epoch=1, last_sequence=4, last_timestamp_ms=5, coordinator_epoch=0, txn_first_offset=None
    )
    log: Any = setting.partitions.held("t", 0).log
    log.producers = SimpleNamespace(entries={7: one})
    body = {"topics": [{"name": "t", "partition_indexes": [0, 1]}]}
    held, other = answer(DescribeProducers(setting.partitions), 0, body).topics[0].partitions
    assert held.error_code == 0
    assert [(producer.producer_id, producer.last_sequence) for producer in held.active_producers] == [(7, 4)]
    assert other.error_code is ErrorCode.not_leader_or_follower


def test_a_partition_without_a_leader_has_no_leader_in_metadata(setting: Setting) -> None:
    setting.publish(PartitionInfo(NO_LEADER, HERE + 1, 9, (), (1, 2), eligible=(2,)))
    with pytest.raises(NotLeader, match="t-0 has no leader at the moment"):
        setting.partitions.led("t", 0)


def broker(number: int, *, fenced: bool = False) -> BrokerInfo:
    return BrokerInfo(number, number, (Endpoint("PLAINTEXT", "h", number, "PLAINTEXT"),), "r", fenced)


@pytest.fixture
def view() -> ClusterView:
    info = PartitionInfo(NO_LEADER, 4, 4, (), (2,), eligible=(2,), last_known_eligible=(2,))
    image = ClusterImage(
        version=1,
        brokers={1: broker(1)},
        fenced_brokers={2: broker(2, fenced=True)},
        topics={"t": TopicInfo("t", TOPIC_ID, (info,))},
        topic_names={TOPIC_ID: "t"},
    )
    made = ClusterView()
    made.publish(image)
    return made


def test_a_page_of_topics_has_no_error_for_a_partition_without_a_leader(view: ClusterView) -> None:
    body = {"topics": [{"name": "t"}], "response_partition_limit": 10, "cursor": None}
    (found,) = answer(DescribeTopicPartitions(view), 0, body).topics[0].partitions
    assert (found.error_code, found.leader_id, tuple(found.offline_replicas)) == (0, NO_LEADER, (2,))
    assert (tuple(found.eligible_leader_replicas), tuple(found.last_known_elr)) == ((2,), (2,))


@pytest.mark.parametrize(("asked", "told"), [(False, [(1, False)]), (True, [(1, False), (2, True)])])
def test_fenced_brokers_are_listed_on_request(view: ClusterView, asked: bool, told: list[Any]) -> None:
    body = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": asked}
    assert [(one.broker_id, one.is_fenced) for one in answer(DescribeCluster(view), 2, body).brokers] == told
