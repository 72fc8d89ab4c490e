"""What the caller of a request may do with subjects. The brokers decide, by the caller's own ACLs for topics.

The subject `orders-value` (or `orders-key`) belongs to the topic `orders`; any other subject, for example the name of a
record, is looked up as a topic of that name. So an ACL with the prefix `orders` also covers `orders-shop.Order`.

    right of the registry                   right in Kafka                  how the registry asks, as the caller
    read a subject                          Describe on the topic           Metadata
    register in it, change tags             Write on the topic              Produce without records: nothing is appended
    delete it, set its level or mode        AlterConfigs on the topic       IncrementalAlterConfigs, validate only
    global level or mode, delete a context  AlterConfigs on the cluster     IncrementalAlterConfigs, validate only

Each of these requests is refused with an authorization error before anything else is looked at, so they work for
topics that do not exist. The registry remembers an answer for a few seconds. It has no list of rights of its own.

A right is granted only by a code that a broker gives after it has checked the caller's ACLs. Any other code leaves the
right unknown, for example while the cluster has no controller, and the request fails with 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.registry.core.errors import BadRequest
from headrace.registry.core.subjects import QualifiedSubject
from headrace.web.connections import PerCaller
from headrace.web.errors import BROKER_GONE, Problem
from headrace.web.login import Caller
from headrace.wire.apis import ApiKey

FORBIDDEN: Final = 40301
_KEPT_S: Final = 5.0
_MOST_KEPT: Final = 100_000
_AT_ONCE: Final = 2000
_TOPIC: Final = 2
_BROKER: Final = 4
_CLUSTER: Final = ""
_DENIED: Final = frozenset({ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed})


class Right(Enum):
    READ = "Describe"
    WRITE = "Write"
    ADMINISTER = "AlterConfigs"


_ANY_TOPIC: Final = (ErrorCode.none, ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception)
# The answers to the requests of the table above once the caller is allowed, from Headrace and from Kafka.
_ALLOWED: Final[Mapping[Right, frozenset[int]]] = {
    Right.READ: frozenset({*_ANY_TOPIC, ErrorCode.leader_not_available}),
    # The records are missing, the partition may be led elsewhere, and the topic may have settings that refuse records.
    Right.WRITE: frozenset(
        {
            *_ANY_TOPIC,
            ErrorCode.invalid_record,
            ErrorCode.corrupt_message,
            ErrorCode.not_leader_or_follower,
            ErrorCode.invalid_config,
        }
    ),
    # The values that the topic already has are checked again.
    Right.ADMINISTER: frozenset({*_ANY_TOPIC, ErrorCode.invalid_config, ErrorCode.policy_violation}),
}


def topic_of(subject: str) -> str:
    name = QualifiedSubject.parse(subject).name
    for suffix in ("-value", "-key"):
        if name.endswith(suffix) and len(name) > len(suffix):
            return name.removesuffix(suffix)
    return name


class Rights:
    """Owned by the event loop."""

    def __init__(self, clients: PerCaller[ClusterClient]) -> None:
        self._clients = clients
        self._kept: dict[tuple[Caller, Right, str], tuple[float, bool]] = {}

    async def check(self, caller: Caller, right: Right, subject: str) -> None:
        """Raises 40301, or 503 if the brokers cannot tell."""
        if not await self._allowed(caller, right, topic_of(subject)):
            raise _forbidden(caller, right, f"topic '{topic_of(subject)}', to which subject '{subject}' belongs")

    async def check_cluster(self, caller: Caller) -> None:
        """Raises 40301, or 503 if the brokers cannot tell."""
        if not await self._allowed(caller, Right.ADMINISTER, _CLUSTER):
            raise _forbidden(caller, Right.ADMINISTER, "the cluster")

    async def readable(self, caller: Caller, subjects: Iterable[str]) -> Callable[[str], bool]:
        """Which of the subjects the caller may read. Asks for many topics in one request."""
        found = {topic: self._known(caller, Right.READ, topic) for topic in {topic_of(subject) for subject in subjects}}
        unknown = sorted(topic for topic, allowed in found.items() if allowed is None)
        for first in range(0, len(unknown), _AT_ONCE):
            some = unknown[first : first + _AT_ONCE]
            denied = await self._denied_reads(caller, some)
            for topic in some:
                found[topic] = topic not in denied
                self._keep(caller, Right.READ, topic, allowed=topic not in denied)
        # Not by `_known`: an answer may have become too old, or been forgotten, while the brokers answered.
        return lambda subject: bool(found.get(topic_of(subject)))

    async def _allowed(self, caller: Caller, right: Right, topic: str) -> bool:
        known = self._known(caller, right, topic)
        if known is None:
            if right is Right.READ:
                known = topic not in await self._denied_reads(caller, [topic])
            else:
                code = await (self._write(caller, topic) if right is Right.WRITE else self._alter(caller, topic))
                known = _is_allowed(right, topic, code)
            self._keep(caller, right, topic, allowed=known)
        return known

    def _known(self, caller: Caller, right: Right, topic: str) -> bool | None:
        found = self._kept.get((caller, right, topic))
        return None if found is None or found[0] < asyncio.get_running_loop().time() else found[1]

    def _keep(self, caller: Caller, right: Right, topic: str, *, allowed: bool) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[caller, right, topic] = (asyncio.get_running_loop().time() + _KEPT_S, allowed)

    async def _denied_reads(self, caller: Caller, topics: Collection[str]) -> set[str]:
        wanted = [{"topic_id": None, "name": topic} for topic in topics]
        async with self._clients.lease(caller) as client:
            answer = await client.request(ApiKey.METADATA, {"topics": wanted, "allow_auto_topic_creation": False})
        codes = {str(each.name): int(each.error_code) for each in answer.topics}
        return {topic for topic in topics if not _is_allowed(Right.READ, topic, codes.get(topic))}

    async def _write(self, caller: Caller, topic: str) -> int:
        data = [{"name": topic, "partition_data": [{"index": 0, "records": b""}]}]
        body = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": data}
        async with self._clients.lease(caller) as client:
            answer = await client.request(ApiKey.PRODUCE, body, at_most=8)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def _alter(self, caller: Caller, topic: str) -> int:
        kind = _BROKER if topic == _CLUSTER else _TOPIC
        body = {
            "resources": [{"resource_type": kind, "resource_name": topic, "configs": []}],
            "validate_only": True,
        }
        async with self._clients.lease(caller) as client:
            answer = await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
        return int(answer.responses[0].error_code)


def _is_allowed(right: Right, topic: str, code: int | None) -> bool:
    """`code` is None if the answer lacks the topic. Raises Problem 503."""
    if code in _DENIED:
        return False
    if code in _ALLOWED[right]:
        return True
    what = "the cluster" if topic == _CLUSTER else f"topic '{topic}'"
    why = "their answer lacks it" if code is None else f"they answered {ErrorCode(code).name.upper()}"
    raise Problem(*BROKER_GONE, f"the brokers cannot say now whether you may {right.value} {what}: {why}. Try again")


def _forbidden(caller: Caller, right: Right, what: str) -> BadRequest:
    return BadRequest(FORBIDDEN, f"{caller.principal} may not {right.value} {what}: add an ACL, or use another user")
