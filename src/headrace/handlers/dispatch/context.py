"""Context of a request: its client, its listener, its header and its rights."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from headrace.handlers.dispatch.authorization import Access
from headrace.kernel.dataclass import dataclass
from headrace.wire.codec import RequestHeader


class Peer(Protocol):
    """What the broker knows about the other side of a connection."""

    software: tuple[str, str] | None
    """Name and version of the client's software, from ApiVersions."""

    @property
    def peer_port(self) -> int: ...
    def throttle(self, delay_ms: int) -> None: ...
    def when_closed(self, key: Hashable, call: Callable[[], None]) -> None: ...


# Not frozen: one is made per request, and a frozen dataclass costs three times as much to create. It is never changed.
@dataclass(slots=True)
class RequestContext:
    header: RequestHeader
    peer_host: str
    listener: str
    principal: str
    access: Access
    """What the principal may do from this address."""
    received_at_ms: int
    claims: tuple[str, ...] = ()
    """Claims of the client's token that may make it a member of roles, as principals `Claim:name=value`."""

    peer: Peer | None = None
    """The connection of the request; None for a forwarded one."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    def mute(self, delay_ms: int) -> None:
        """Stops reading from the client for so many ms: how a quota is enforced on one that does not wait by itself."""
        if self.peer is not None:
            self.peer.throttle(delay_ms)

    def when_closed(self, key: Hashable, call: Callable[[], None]) -> None:
        """Leaves word of what to do when the connection closes, by a key. A forwarded request has no connection."""
        if self.peer is not None:
            self.peer.when_closed(key, call)
