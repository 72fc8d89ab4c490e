"""Common part of ShareFetch and ShareAcknowledge: serving, refusing, answers, and the current leader of a partition."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from headrace.cluster.core import features
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.coordinators.share.consumption import Answers, CheckTopic, PartitionAnswer, ShareConsumption
from headrace.coordinators.share.core.share_partition import Acknowledgement
from headrace.handlers.dispatch.authorization import Access
from headrace.handlers.dispatch.context import RequestContext
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.security.acl.model import Operation, ResourceType

if TYPE_CHECKING:
    from headrace.wire.messages.share_fetch import LeaderIdAndEpoch, NodeEndpoint

# Defaults of unused fields, as in Kafka.
NO_LEADER: Final[LeaderIdAndEpoch] = {"leader_id": 0, "leader_epoch": 0}
_MOVED: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)

Row = TypeVar("Row")


class SessionRequest(Protocol):
    group_id: str | None
    member_id: str | None


class Acknowledged(Protocol):
    """A topic with acknowledgements, in both APIs."""

    topic_id: uuid.UUID | None

    @property
    def partitions(self) -> Sequence[AcknowledgedPartition]: ...


class AcknowledgedPartition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class AcknowledgementBatch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class SessionAnswer(NamedTuple, Generic[Row]):
    """Common answer of both APIs; `rows` are the partitions of each topic."""

    error: ErrorCode
    message: str | None
    lock_ms: int
    rows: dict[uuid.UUID, list[Row]]
    node_endpoints: list[NodeEndpoint]


@dataclass(frozen=True)
class ShareRequests:
    """Serves one request of a member's session."""

    consumption: ShareConsumption
    view: ClusterView

    async def serve(
        self,
        context: RequestContext,
        group_id: str | None,
        member_id: str | None,
        ask: Callable[[str, str], Awaitable[Answers]],
        row: Callable[[int, PartitionAnswer, LeaderIdAndEpoch], Row],
    ) -> SessionAnswer[Row]:
        """`ask` runs the request for the group and member; `row` encodes a partition for the API."""
        try:
            features.require(self.view.current, features.SHARE_GROUPS)
            if not group_id or not member_id:
                raise Refused(ErrorCode.invalid_request, "a request of a share session names its group and its member")
            context.access.require(Operation.READ, ResourceType.GROUP, group_id)
            answers = await ask(group_id, member_id)
        except Fault as fault:
            return SessionAnswer(fault.code, fault.message, 0, {}, [])
        image = self.view.current
        leaders: set[int] = set()
        topics: dict[uuid.UUID, list[Row]] = {}
        for partition, answer in answers.items():
            leader = _current_leader(image, partition, (answer.error, answer.acknowledge_error), leaders)
            topics.setdefault(partition[0], []).append(row(partition[1], answer, leader))
        lock_ms = self.consumption.lock_ms(group_id)
        return SessionAnswer(ErrorCode.none, None, lock_ms, topics, _node_endpoints(image, leaders, context))


def check_topic(view: ClusterView, access: Access) -> CheckTopic:
    """Raises TOPIC_AUTHORIZATION_FAILED for a topic that the client may not read."""

    def check(topic_id: uuid.UUID) -> None:
        name = view.current.topic_names.get(topic_id)
        if name is not None:
            access.require(Operation.READ, ResourceType.TOPIC, name)

    return check


def _current_leader(
    image: ClusterImage, partition: tuple[uuid.UUID, int], errors: tuple[ErrorCode, ...], leaders: set[int]
) -> LeaderIdAndEpoch:
    """The leader, only for a client that asked the wrong broker."""
    name = image.topic_names.get(partition[0])
    info = image.partition(name, partition[1]) if name is not None else None
    if info is None or not any(error in _MOVED for error in errors):
        return NO_LEADER
    leaders.add(info.leader)
    return {"leader_id": info.leader, "leader_epoch": info.leader_epoch}


def _node_endpoints(image: ClusterImage, leaders: set[int], context: RequestContext) -> list[NodeEndpoint]:
    found: list[NodeEndpoint] = []
    for broker_id in sorted(leaders):
        broker = image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(context.listener)
        if broker is not None and endpoint is not None:
            found.append({"node_id": broker_id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack})
    return found


def acknowledgements_of(topics: Iterable[Acknowledged]) -> dict[tuple[uuid.UUID, int], list[Acknowledgement]]:
    """The acknowledgements of every partition of the request; a partition may have none."""
    return {
        (topic.topic_id, partition.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        if topic.topic_id is not None
        for partition in topic.partitions
    }
