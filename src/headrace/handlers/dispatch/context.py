"""Context of a request: its client, its listener, its header and its rights."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from headrace.handlers.dispatch.authorization import Access
from headrace.kernel.dataclass import dataclass
from headrace.wire.codec import RequestHeader


def _no_connection(delay_ms: int) -> None:
    """Mutes nothing: the request came from no connection."""


def _never(key: Hashable, call: Callable[[], None]) -> None:
    """Never calls back: the request came from no connection."""


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
    mute: Callable[[int], None] = _no_connection
    """Stops reading from the client for so many ms: how a quota is enforced on one that does not wait by itself."""
    when_closed: Callable[[Hashable, Callable[[], None]], None] = _never
    """Leaves word of what to do when the connection closes, by a key."""

    claims: tuple[str, ...] = ()
    """Claims of the client's token that may make it a member of roles, as principals `Claim:name=value`."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id
