"""FindCoordinator (key 10, versions 0–6): which broker coordinates a group, a transactional id or a share partition.

v1 key type (group, transaction) · v3 flexible · v4 several keys at once (KIP-699) · v5 TRANSACTION_ABORTABLE · v6 share
The first request creates the coordinator's topic. The answer waits for it, so the first consumer starts without
retries.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from headrace.cluster.view import ClusterView
from headrace.handlers.dispatch.authorization import Needs, denied
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    coordinator_partition,
    uuid_from_text,
)
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse


_TOPICS: Final = {0: GROUP_METADATA_TOPIC, 1: TRANSACTION_STATE_TOPIC, 2: SHARE_GROUP_STATE_TOPIC}
_PROTECTED: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_SHARE: Final = 2
_BATCHED_FROM: Final = 4
_SHARE_FROM: Final = 6
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,10}")
_LEADER_WITHIN_SECONDS: Final = 2.0


class InternalTopics(Protocol):
    async def ensure(self, name: str) -> bool:
        """Creates the topic if it is missing. True when it exists."""


class OwnLease(Protocol):
    """This broker, and whether it may act as a coordinator."""

    @property
    def broker_id(self) -> int: ...
    def lease_held(self) -> bool: ...


@dataclass(frozen=True)
class FindCoordinator(Handler):
    view: ClusterView
    internal_topics: InternalTopics
    own: OwnLease

    api_key: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    versions: ClassVar[range] = range(7)
    needs: ClassVar[Needs] = Needs(
        group=Operation.DESCRIBE, transactional_id=Operation.DESCRIBE, cluster=Operation.CLUSTER_ACTION
    )

    async def serve(self, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
        key_type = request.key_type
        if context.version < _BATCHED_FROM:
            alone = await self._find(request.key, key_type, context)
            return {
                "error_code": alone["error_code"],
                "error_message": alone["error_message"],
                "node_id": alone["node_id"],
                "host": alone["host"],
                "port": alone["port"],
            }
        found = await asyncio.gather(*(self._find(key, key_type, context) for key in request.coordinator_keys))
        return {"coordinators": found}

    def refuse(
        self, request: FindCoordinatorRequest, context: RequestContext, error_code: int, message: str
    ) -> FindCoordinatorResponse:
        if context.version >= _BATCHED_FROM:
            code = ErrorCode(error_code)
            return {"coordinators": [_answer(key, code, message) for key in request.coordinator_keys]}
        return {"error_code": error_code, "error_message": message, "node_id": -1, "host": "", "port": -1}

    async def _find(self, key: str, key_type: int, context: RequestContext) -> Coordinator:
        topic = _TOPICS.get(key_type)
        protected = _PROTECTED.get(key_type)
        if protected is not None and not context.access.may(Operation.DESCRIBE, protected, key):
            fault = denied(protected)
            return _answer(key, fault.code, fault.message)
        if topic is None or (key_type == _SHARE and context.version < _SHARE_FROM):
            return _answer(key, ErrorCode.invalid_request, f"coordinator key type {key_type}")
        if key_type == _SHARE:
            context.access.require_cluster(Operation.CLUSTER_ACTION)
        if key_type == _SHARE and not _names_a_share_partition(key):
            return _answer(key, ErrorCode.invalid_request, f"key {key!r}: must be group:topic id:partition")
        if topic not in self.view.current.topics and not await self.internal_topics.ensure(topic):
            return _answer(key, ErrorCode.coordinator_not_available, f"{topic} could not be created yet: ask again")
        await self.view.wait_until(
            lambda image: self._endpoint(topic, key, context) is not None, _LEADER_WITHIN_SECONDS
        )
        endpoint = self._endpoint(topic, key, context)
        if endpoint is None:
            return _answer(key, ErrorCode.coordinator_not_available, "its partition has no leader: ask again")
        node_id, host, port = endpoint
        if node_id == self.own.broker_id and not self.own.lease_held():
            # Its image may be old: another broker can be the coordinator by now, and knows that.
            return _answer(key, ErrorCode.coordinator_not_available, "this broker lost its session: ask another broker")
        # Kafka's messages for success, in the two forms of the answer.
        words = "NONE" if context.version < _BATCHED_FROM else ""
        return _answer(key, ErrorCode.none, words, node_id, host, port)

    def _endpoint(self, topic: str, key: str, context: RequestContext) -> tuple[int, str, int] | None:
        image = self.view.current
        info = image.topics.get(topic)
        if info is None or not info.partitions:
            return None
        leader = info.partitions[coordinator_partition(key, len(info.partitions))].leader
        broker = image.brokers.get(leader)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(context.listener)
        return None if endpoint is None else (leader, endpoint.host, endpoint.port)


def _names_a_share_partition(key: str) -> bool:
    # A group id may contain colons; Kafka ignores colons at the end of the key.
    group_id, topic_id, index = ["", "", *key.rstrip(":").rsplit(":", 2)][-3:]
    try:
        uuid_from_text(topic_id)
    except ValueError:
        return False
    return bool(group_id.strip()) and _INDEX.fullmatch(index) is not None and -(2**31) <= int(index) < 2**31


def _answer(key: str, error: ErrorCode, message: str, node_id: int = -1, host: str = "", port: int = -1) -> Coordinator:
    return {
        "key": key,
        "error_code": error,
        "error_message": message,
        "node_id": node_id,
        "host": host,
        "port": port,
    }
