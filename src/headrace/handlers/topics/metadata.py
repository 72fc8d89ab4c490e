"""Metadata (key 3, versions 0–13): the brokers of the cluster, and the leader of each partition.

v0  empty list = all topics (null from v1) · v4 auto-creation can be declined (KIP-204) · v5 offline replicas
v7  leader epoch · v8 authorised operations · v9 flexible · v10 topic ids · v12 topics by id · v13 top-level error
A missing topic is created if `auto.create.topics.enable` and the client allow it. The answer does not wait for that: it
is UNKNOWN_TOPIC_OR_PARTITION, and the client retries, as with Kafka. Encoded answers about existing topics are cached
until the cluster image changes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Final, Protocol
from uuid import UUID

from headrace.cluster.core.image import ClusterImage, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.handlers.dispatch.authorization import NOT_ASKED, UNRESTRICTED, Access, Needs, cluster_operations
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.topics.partition_states import partition_state
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import INTERNAL_TOPICS, topic_name_problem
from headrace.net.replies import Parts
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import encode_response

if TYPE_CHECKING:
    from headrace.wire.messages.metadata import (
        MetadataRequest,
        MetadataRequestTopic,
        MetadataResponse,
        MetadataResponseBroker,
        MetadataResponseTopic,
    )


_AUTO_CREATE_CHOICE_FROM: Final = 4
_TOPICS_BY_ID_FROM: Final = 12
_KEPT_ANSWERS: Final = 128


class AutoCreation(Protocol):
    """Creates topics that clients request, if the broker's settings allow it."""

    def is_enabled(self) -> bool: ...

    def begin(self, names: Iterable[str]) -> None:
        """Starts the creation of each topic, unless it is in progress already."""


@dataclass
class EncodedAnswers:
    """Cache of encoded answers of the current image; only the correlation id changes."""

    image: ClusterImage | None = None
    frames: dict[tuple[Hashable, ...], bytes] = field(default_factory=dict)

    def get(self, image: ClusterImage, key: tuple[Hashable, ...], encode: Callable[[], bytearray]) -> bytes:
        if self.image is not image or len(self.frames) >= _KEPT_ANSWERS:
            self.image = image
            self.frames.clear()
        frame = self.frames.get(key)
        if frame is None:
            frame = self.frames[key] = bytes(encode())
        return frame


@dataclass(frozen=True)
class Metadata(Handler):
    view: ClusterView
    auto_creation: AutoCreation
    answers: EncodedAnswers = field(default_factory=EncodedAnswers)

    api_key: ClassVar[ApiKey] = ApiKey.METADATA
    versions: ClassVar[range] = range(14)
    needs: ClassVar[Needs] = Needs(
        topic=(Operation.DESCRIBE, Operation.CREATE), cluster=(Operation.CREATE, Operation.DESCRIBE)
    )

    def serve(self, request: MetadataRequest, context: RequestContext) -> MetadataResponse | Parts:
        version, image, access = context.version, self.view.current, context.access
        topics = request.topics
        if topics is None or (version == 0 and not topics):
            return self._known(image, _visible(image, access), request, context)
        problem = _misuse_of_ids(topics, version)
        if problem is not None:
            return self.refuse(request, context, int(ErrorCode.invalid_request), problem)
        by_id = [topic for topic in topics if topic.topic_id is not None]
        if by_id:
            # As in Kafka: with one id, topics with only a name are ignored.
            return self._answer(
                image, [self._by_id(image, topic, request, context) for topic in by_id], request, context
            )
        names = tuple(dict.fromkeys(str(topic.name) for topic in topics))
        denied = {name for name in names if not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name)}
        missing = [name for name in names if name not in image.topics and name not in denied]
        if not missing and not denied:
            return self._known(image, names, request, context)
        allowed = version < _AUTO_CREATE_CHOICE_FROM or request.allow_auto_topic_creation
        if missing and allowed and self.auto_creation.is_enabled():
            if not access.may_cluster(Operation.CREATE):
                denied |= {name for name in missing if not access.may(Operation.CREATE, ResourceType.TOPIC, name)}
            creatable = (name for name in missing if name not in denied and topic_name_problem(name) is None)
            self.auto_creation.begin(creatable)
        return self._by_name(image, names, denied, request, context)

    def refuse(
        self, request: MetadataRequest, context: RequestContext, error_code: int, message: str
    ) -> MetadataResponse:
        """Metadata has no top-level error before v13: every requested topic carries it."""
        topics = [_missing_topic(error_code, topic.name or "", topic.topic_id) for topic in request.topics or ()]
        return {
            "brokers": [],
            "cluster_id": None,
            "controller_id": -1,
            "topics": topics,
            "cluster_authorized_operations": NOT_ASKED,
            "error_code": 0,
        }

    def _by_name(
        self,
        image: ClusterImage,
        names: tuple[str, ...],
        denied: set[str],
        request: MetadataRequest,
        context: RequestContext,
    ) -> MetadataResponse:
        topics: list[MetadataResponseTopic] = []
        for name in names:
            if name in denied:
                # The same whether the topic exists or not.
                topics.append(_hidden_topic(name, None))
                continue
            # The rights on a topic do not depend on its existence.
            operations = _topic_operations(name, request, context)
            info = image.topics.get(name)
            if info is not None:
                topics.append(self._topic(image, info, request, context))
            elif topic_name_problem(name) is not None:
                topics.append(_missing_topic(int(ErrorCode.invalid_topic_exception), name, None, operations))
            else:
                topics.append(_missing_topic(int(ErrorCode.unknown_topic_or_partition), name, None, operations))
        return self._answer(image, topics, request, context)

    def _by_id(
        self, image: ClusterImage, topic: MetadataRequestTopic, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponseTopic:
        info = None if topic.topic_id is None else image.topic_by_id(topic.topic_id)
        if info is None:
            return _missing_topic(int(ErrorCode.unknown_topic_id), None, topic.topic_id)
        if not context.access.may(Operation.DESCRIBE, ResourceType.TOPIC, info.name):
            return _hidden_topic(None, topic.topic_id)
        return self._topic(image, info, request, context)

    def _known(
        self, image: ClusterImage, names: tuple[str, ...] | None, request: MetadataRequest, context: RequestContext
    ) -> Parts:
        """An answer whose topics all exist and are visible; `names` is None for all topics of the cluster."""
        version, asks_operations = context.version, _asked_operations(request)
        key = (version, context.listener, names, *asks_operations)

        def encode() -> bytearray:
            infos = image.topics.values() if names is None else [image.topics[name] for name in names]
            topics = [self._topic(image, info, request, context) for info in infos]
            return encode_response(self.api_key, version, 0, self._answer(image, topics, request, context))

        # The operations are those of this client, so the answer is not cached.
        is_own = any(asks_operations) and context.access is not UNRESTRICTED
        frame = encode() if is_own else bytearray(self.answers.get(image, key, encode))
        struct.pack_into(">i", frame, 4, context.header.correlation_id)
        return [frame]

    def _topic(
        self, image: ClusterImage, info: TopicInfo, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponseTopic:
        listener = context.listener
        return {
            "error_code": 0,
            "name": info.name,
            "topic_id": info.id,
            "is_internal": info.is_internal,
            "partitions": [partition_state(image, index, one, listener) for index, one in enumerate(info.partitions)],
            "topic_authorized_operations": _topic_operations(info.name, request, context),
        }

    def _answer(
        self,
        image: ClusterImage,
        topics: list[MetadataResponseTopic],
        request: MetadataRequest,
        context: RequestContext,
    ) -> MetadataResponse:
        brokers: list[MetadataResponseBroker] = []
        for broker in image.brokers.values():
            endpoint = broker.endpoint(context.listener)
            if endpoint is not None and not broker.fenced:
                brokers.append(
                    {"node_id": broker.id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack}
                )
        return {
            "brokers": brokers,
            "cluster_id": image.cluster_id,
            "controller_id": image.controller_id,
            "topics": topics,
            "cluster_authorized_operations": _cluster_operations(request, context.access),
            "error_code": 0,
        }


def _asked_operations(request: MetadataRequest) -> tuple[bool, bool]:
    return request.include_topic_authorized_operations, request.include_cluster_authorized_operations


def _visible(image: ClusterImage, access: Access) -> tuple[str, ...] | None:
    """The topics of the cluster that the client may see; None for all."""
    if access is UNRESTRICTED:
        return None
    visible = access.filter(Operation.DESCRIBE, ResourceType.TOPIC, image.topics)
    return None if len(visible) == len(image.topics) else tuple(name for name in image.topics if name in visible)


def _topic_operations(name: str, request: MetadataRequest, context: RequestContext) -> int:
    if not request.include_topic_authorized_operations:
        return NOT_ASKED
    return context.access.operations(ResourceType.TOPIC, name)


def _cluster_operations(request: MetadataRequest, access: Access) -> int:
    return cluster_operations(access) if request.include_cluster_authorized_operations else NOT_ASKED


def _hidden_topic(name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    hidden = _missing_topic(int(ErrorCode.topic_authorization_failed), name, topic_id)
    hidden["is_internal"] = False
    return hidden


def _missing_topic(
    error_code: int, name: str | None, topic_id: UUID | None, operations: int = NOT_ASKED
) -> MetadataResponseTopic:
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": [],
        "topic_authorized_operations": operations,
    }


def _misuse_of_ids(topics: Iterable[MetadataRequestTopic], version: int) -> str | None:
    for topic in topics:
        topic_id = topic.topic_id
        if version >= _TOPICS_BY_ID_FROM:
            if topic.name is None and topic_id is None:
                return "a topic with neither a name nor an id"
        elif topic.name is None:
            return f"a topic without a name: metadata v{version} needs names"
        elif topic_id is not None:
            return f"topic id {topic.topic_id}: metadata v{version} needs names"
    return None
