"""DescribeQuorum (key 55, versions 0–2): the voters of Kafka's Raft metadata log. Refused.

Not done: Headrace has no Raft quorum. Its cluster state lives in the coordination store (embedded, or ZooKeeper), whose
members are not brokers. The answer is what a client gets from a Kafka broker in ZooKeeper mode: UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.handlers.context import RequestContext
from headrace.kernel.errors import ErrorCode, Refused


@dataclass(frozen=True)
class DescribeQuorum:
    api_key: ClassVar[int] = 55
    versions: ClassVar[range] = range(3)

    def __call__(self, request: Any, context: RequestContext) -> dict[str, Any]:
        why = "there is no Raft quorum here: cluster state lives in the coordination store"
        raise Refused(ErrorCode.unsupported_version, why)
