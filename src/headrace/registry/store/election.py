"""Elects the instance that writes, among the members of the group `schema-registry`, with Confluent's protocol `sr`.

Each member sends its address when it joins. The group leader chooses the eligible member with the smallest URL, and the
assignment tells every member. So our instances and Confluent's can be members of one group.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.wire.apis import ApiKey

_log = logging.getLogger(__name__)
_PROTOCOL_TYPE: Final = "sr"
_PROTOCOL: Final = "v0"
_PAUSE_S: Final = 0.2
_BEATS_PER_SESSION: Final = 5


@dataclass(frozen=True, slots=True)
class Identity:
    host: str
    port: int
    scheme: str = "http"
    eligible: bool = True

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def as_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Identity:
        return cls(
            str(document["host"]),
            int(document["port"]),
            str(document.get("scheme") or "http"),
            bool(document.get("master_eligibility", True)),
        )


def elected(members: Mapping[str, Identity]) -> tuple[str, Identity] | None:
    """(member id, identity) of the instance that writes."""
    eligible = sorted((each.url, member, each) for member, each in members.items() if each.eligible)
    return eligible[0][1:] if eligible else None


def assignment(members: Mapping[str, Identity]) -> bytes:
    chosen = elected(members)
    duplicates = len({each.url for each in members.values()}) != len(members)
    document: dict[str, Any] = {"version": 1, "error": 1 if duplicates else 0}
    if chosen is not None and not duplicates:
        document |= {"master": chosen[0], "master_identity": chosen[1].as_json()}
    return json.dumps(document, separators=(",", ":")).encode()


class Election:
    """Calls `on_leader` with each new leader, and with None when it loses its membership."""

    def __init__(
        self,
        client: ClusterClient,
        group: str,
        identity: Identity,
        session_timeout_ms: int,
        on_leader: Callable[[Identity | None], Awaitable[None]],
    ) -> None:
        self.client, self.group, self.identity = client, group, identity
        self.session_timeout_ms = session_timeout_ms
        self._on_leader = on_leader
        self._member_id = ""
        self._generation = -1

    async def run(self) -> None:
        while True:
            try:
                await self._join()
                await self._beat()
            except Fault as fault:
                _log.warning("group %s: %s", self.group, fault.message)
                await asyncio.sleep(_PAUSE_S)

    async def leave(self) -> None:
        if self._member_id:
            body = {"group_id": self.group, "members": [{"member_id": self._member_id, "group_instance_id": None}]}
            try:
                await self._ask(ApiKey.LEAVE_GROUP, body, 3)
            except Fault as fault:
                _log.info("leaving group %s: %s", self.group, fault.message)

    async def _ask(self, api: ApiKey, body: dict[str, Any], version: int, timeout: float | None = None) -> Any:
        wait = self.client.timeout if timeout is None else timeout
        return await self.client.to_coordinator(self.group, api, body, at_most=version, timeout=wait)

    async def _join(self) -> None:
        """Joins and learns the leader. Returns without a leader if the group rebalances again at once."""
        metadata = json.dumps(self.identity.as_json(), separators=(",", ":")).encode()
        body = {
            "group_id": self.group,
            "session_timeout": self.session_timeout_ms,
            "rebalance_timeout": self.session_timeout_ms,
            "member_id": self._member_id,
            "group_instance_id": None,
            "protocol_type": _PROTOCOL_TYPE,
            "protocols": [{"name": _PROTOCOL, "metadata": metadata}],
        }
        joined = await self._ask(ApiKey.JOIN_GROUP, body, 5, self.session_timeout_ms / 1000 + self.client.timeout)
        if joined.error_code == ErrorCode.member_id_required:
            self._member_id = str(joined.member_id)
            return
        if joined.error_code:
            await self._lost(ErrorCode(joined.error_code))
            return
        self._member_id, self._generation = str(joined.member_id), int(joined.generation_id)
        assignments = []
        if joined.leader == joined.member_id:
            members = {str(m.member_id): Identity.from_json(json.loads(bytes(m.metadata))) for m in joined.members}
            told = assignment(members)
            assignments = [{"member_id": member, "assignment": told} for member in members]
        body = {**self._membership(), "assignments": assignments}
        synced = await self._ask(ApiKey.SYNC_GROUP, body, 3, self.session_timeout_ms / 1000 + self.client.timeout)
        if synced.error_code:
            if synced.error_code != ErrorCode.rebalance_in_progress:
                await self._lost(ErrorCode(synced.error_code))
            return
        document = json.loads(bytes(synced.assignment) or b"{}")
        if document.get("error"):
            _log.error("two instances of group %s have the same address %s", self.group, self.identity.url)
        leader = document.get("master_identity")
        await self._on_leader(Identity.from_json(leader) if leader else None)

    def _membership(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self._generation,
            "member_id": self._member_id,
            "group_instance_id": None,
        }

    async def _beat(self) -> None:
        """Sends heartbeats until the group rebalances. The leader leads meanwhile: fencing protects writes, not a
        lease."""
        if self._generation < 0:
            return
        while True:
            await asyncio.sleep(self.session_timeout_ms / 1000 / _BEATS_PER_SESSION)
            answer = await self._ask(ApiKey.HEARTBEAT, self._membership(), 3)
            if answer.error_code == ErrorCode.rebalance_in_progress:
                return
            if answer.error_code:
                await self._lost(ErrorCode(answer.error_code))
                return

    async def _lost(self, code: ErrorCode) -> None:
        if code in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.fenced_instance_id):
            self._member_id, self._generation = "", -1
            await self._on_leader(None)
            return
        raise Fault(f"{code.name}", code=code)
