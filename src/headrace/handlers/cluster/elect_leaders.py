"""ElectLeaders (key 43, versions 0–2): back to the preferred replicas, or an unclean election (KIP-183, 460).

v0  preferred only · v1 election type · v2 flexible. No topics given means every partition that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.controller.core.partition_states import Election
from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import PartitionResult
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, ReplicaElectionResult
    from headrace.wire.messages.elect_leaders import PartitionResult as PartitionResultRow


_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


@dataclass(frozen=True)
class ElectLeaders(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    async def serve(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        if millis(request.timeout) <= 0:
            return self.refuse(request, context, int(ErrorCode.request_timed_out), None)
        return await self.gateway.serve(
            request,
            context,
            lambda: self._elect(request),
            timeout=millis(request.timeout) / 1000,
        )

    def refuse(
        self, request: ElectLeadersRequest, context: RequestContext, error_code: int, message: str | None
    ) -> ElectLeadersResponse:
        # v0 has no top-level error, so every partition carries it; later versions carry both.
        results = [PartitionResult(p, ErrorCode(error_code), message) for p in _asked(request) or ()]
        return {"throttle_time": 0, "error_code": error_code, "replica_election_results": _rows(results)}

    async def _elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        election = _ELECTIONS.get(request.election_type)
        if election is None:
            why = f"election type {request.election_type}: must be 0 (preferred) or 1 (unclean)"
            raise Refused(ErrorCode.invalid_request, why)
        results = await self.gateway.controller.elect_leaders(election, _asked(request))
        rows = _rows(results)
        if request.topic_partitions is None:
            # As in Kafka: the answer has every topic, even if no partition of it needed an election.
            named = {row["topic"] for row in rows}
            everyone = self.gateway.view.current.topics
            rows += [{"topic": topic, "partition_result": []} for topic in everyone if topic not in named]
        return {"throttle_time": 0, "error_code": 0, "replica_election_results": rows}


def _asked(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return [TopicPartition(str(t.topic), int(p)) for t in request.topic_partitions for p in t.partitions]


def _rows(results: Sequence[PartitionResult]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[PartitionResultRow]] = {}
    for result in results:
        topics.setdefault(result.partition.topic, []).append(
            {
                "partition_id": result.partition.partition,
                "error_code": int(result.error),
                "error_message": result.message,
            }
        )
    return [{"topic": topic, "partition_result": rows} for topic, rows in topics.items()]
