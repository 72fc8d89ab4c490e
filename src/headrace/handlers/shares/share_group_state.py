"""The share coordinator's own APIs, for brokers only (KIP-932): 83 initialise, 84 read, 85 write, 86 delete and 87
summarise the state of share partitions. Partition leaders and the group coordinator send them.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar, cast

from headrace.coordinators.codec.share_state import ShareKey, StateBatch
from headrace.coordinators.share.core.runs import RecordState
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.state_coordinator import ShareStateCoordinator
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused, UnknownPartition
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.delete_share_group_state import (
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse,
    )
    from headrace.wire.messages.delete_share_group_state import PartitionData as DeleteShareGroupStatePartition
    from headrace.wire.messages.initialize_share_group_state import (
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
    )
    from headrace.wire.messages.initialize_share_group_state import PartitionData as InitializeShareGroupStatePartition
    from headrace.wire.messages.read_share_group_state import PartitionData as ReadShareGroupStatePartition
    from headrace.wire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
    from headrace.wire.messages.read_share_group_state_summary import (
        PartitionData as ReadShareGroupStateSummaryPartition,
    )
    from headrace.wire.messages.read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse,
    )
    from headrace.wire.messages.write_share_group_state import PartitionData as WriteShareGroupStatePartition
    from headrace.wire.messages.write_share_group_state import StateBatch as WrittenBatch
    from headrace.wire.messages.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse


_STATES: Final = frozenset(int(state) for state in RecordState)

Row = dict[str, object]
Partition = TypeVar("Partition", bound="StatePartition", covariant=True)


class StatePartition(Protocol):
    partition: int


class StateTopic(Protocol[Partition]):
    topic_id: uuid.UUID | None

    @property
    def partitions(self) -> Sequence[Partition]: ...


class StateRequest(Protocol[Partition]):
    """Common part of the five requests."""

    group_id: str

    @property
    def topics(self) -> Sequence[StateTopic[Partition]]: ...


async def _each(
    request: StateRequest[Partition], ask: Callable[[ShareKey, Partition], Awaitable[Row]], nothing: Row
) -> Row:
    """One answer per partition; an error of one does not affect the others."""
    results = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            try:
                if topic.topic_id is None:
                    raise UnknownPartition("a topic without an id: share partitions are named by it")
                key = ShareKey(request.group_id, topic.topic_id, partition.partition)
                answer: Row = {"error_code": ErrorCode.none, "error_message": None, **await ask(key, partition)}
            except Fault as fault:
                answer = {"error_code": fault.code, "error_message": fault.message, **nothing}
            partitions.append({"partition": partition.partition, **answer})
        results.append({"topic_id": topic.topic_id, "partitions": partitions})
    return {"results": results}


class _OfBrokers(Handler):
    """Refusal of a client that sends a request of brokers: an error for each partition."""

    nothing: ClassVar[Row] = {}

    def refuse(
        self, request: StateRequest[StatePartition], context: RequestContext, error_code: int, message: str
    ) -> Row:
        refused = {"error_code": error_code, "error_message": message, **self.nothing}
        results = [
            {
                "topic_id": topic.topic_id,
                "partitions": [{"partition": one.partition, **refused} for one in topic.partitions],
            }
            for topic in request.topics
        ]
        return {"results": results}


@dataclass(frozen=True)
class InitializeShareGroupState(_OfBrokers):
    states: ShareStateCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)

    async def serve(
        self, request: InitializeShareGroupStateRequest, context: RequestContext
    ) -> InitializeShareGroupStateResponse:
        async def ask(key: ShareKey, partition: InitializeShareGroupStatePartition) -> Row:
            await self.states.initialize(key, partition.state_epoch, partition.start_offset)
            return {}

        return cast("InitializeShareGroupStateResponse", await _each(request, ask, {}))


@dataclass(frozen=True)
class ReadShareGroupState(_OfBrokers):
    states: ShareStateCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.READ_SHARE_GROUP_STATE
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)
    nothing: ClassVar[Row] = {"state_epoch": 0, "start_offset": 0, "state_batches": []}

    async def serve(self, request: ReadShareGroupStateRequest, context: RequestContext) -> ReadShareGroupStateResponse:
        async def ask(key: ShareKey, partition: ReadShareGroupStatePartition) -> Row:
            found = await self.states.read(key, partition.leader_epoch)
            return {
                "state_epoch": found.state_epoch,
                "start_offset": found.start_offset,
                "state_batches": [batch._asdict() for batch in found.batches],
            }

        return cast("ReadShareGroupStateResponse", await _each(request, ask, self.nothing))


def _batch(given: WrittenBatch) -> StateBatch:
    if given.delivery_state not in _STATES or not 0 <= given.first_offset <= given.last_offset:
        raise Refused(
            ErrorCode.invalid_request,
            f"offsets {given.first_offset} to {given.last_offset} in state {given.delivery_state}: no run of records",
        )
    return StateBatch(given.first_offset, given.last_offset, given.delivery_state, given.delivery_count)


@dataclass(frozen=True)
class WriteShareGroupState(_OfBrokers):
    states: ShareStateCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.WRITE_SHARE_GROUP_STATE
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)

    async def serve(
        self, request: WriteShareGroupStateRequest, context: RequestContext
    ) -> WriteShareGroupStateResponse:
        async def ask(key: ShareKey, partition: WriteShareGroupStatePartition) -> Row:
            await self.states.write(
                key,
                partition.state_epoch,
                partition.leader_epoch,
                partition.start_offset,
                partition.delivery_complete_count,
                [_batch(one) for one in partition.state_batches],
            )
            return {}

        return cast("WriteShareGroupStateResponse", await _each(request, ask, {}))


@dataclass(frozen=True)
class DeleteShareGroupState(_OfBrokers):
    states: ShareStateCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_STATE
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)

    async def serve(
        self, request: DeleteShareGroupStateRequest, context: RequestContext
    ) -> DeleteShareGroupStateResponse:
        async def ask(key: ShareKey, partition: DeleteShareGroupStatePartition) -> Row:
            await self.states.delete(key)
            return {}

        return cast("DeleteShareGroupStateResponse", await _each(request, ask, {}))


@dataclass(frozen=True)
class ReadShareGroupStateSummary(_OfBrokers):
    states: ShareStateCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)
    nothing: ClassVar[Row] = {
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": NOT_STARTED,
        "delivery_complete_count": -1,
    }

    async def serve(
        self, request: ReadShareGroupStateSummaryRequest, context: RequestContext
    ) -> ReadShareGroupStateSummaryResponse:
        async def ask(key: ShareKey, partition: ReadShareGroupStateSummaryPartition) -> Row:
            found = await self.states.summary(key)
            if found is None:
                return self.nothing
            return {
                "state_epoch": found.state_epoch,
                "leader_epoch": found.leader_epoch,
                "start_offset": found.start_offset,
                "delivery_complete_count": found.delivery_complete_count,
            }

        return cast("ReadShareGroupStateSummaryResponse", await _each(request, ask, self.nothing))
