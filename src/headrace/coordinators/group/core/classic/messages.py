"""Requests and answers of the classic protocol, without wire versions."""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.coordinators.codec.rebalance_causes import CauseKind
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode

NO_MEMBER_ID: Final = ""
Protocols = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class JoinRequest:
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    # From version 4 a new dynamic member first gets its id (KIP-394); from 9 the answer can ask a leader to skip
    # assigning.
    requires_known_member_id: bool = True
    can_skip_assignment: bool = True
    reason: str = ""


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    member_id: str
    error: ErrorCode = ErrorCode.none
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class SyncReply:
    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None = None
    reason: str = ""

    @property
    def cause(self) -> CauseKind:
        """An administrator removes a static member by its instance id alone."""
        return CauseKind.REMOVED if self.member_id == NO_MEMBER_ID else CauseKind.LEFT


class LeftMember(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode
