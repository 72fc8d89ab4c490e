"""Results of the controller's operations: one per resource in the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from headrace.cluster.core.image import TopicInfo
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.security.acl.model import Acl


@dataclass(frozen=True, slots=True)
class TopicResult:
    name: str | None
    error: ErrorCode = ErrorCode.none
    message: str | None = None
    topic_id: UUID | None = None
    topic: TopicInfo | None = None  # as created (or as it would be)
    configs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def failed(cls, name: str | None, fault: Fault, topic_id: UUID | None = None) -> TopicResult:
        return cls(name, fault.code, fault.message or None, topic_id)


@dataclass(frozen=True, slots=True)
class PartitionResult:
    partition: TopicPartition
    error: ErrorCode = ErrorCode.none
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceResult:
    resource_type: str
    name: str
    error: ErrorCode = ErrorCode.none
    message: str | None = None


@dataclass(frozen=True, slots=True)
class NamedResult:
    name: str
    error: ErrorCode = ErrorCode.none
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AclResult:
    """Result of one creation, or of one filter of a deletion with the deleted `acls`."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None
    acls: tuple[Acl, ...] = ()
