"""What a handler knows about a request besides its body."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.codec import RequestHeader

ANONYMOUS = "User:ANONYMOUS"


# Not frozen: one is made per request, and a frozen dataclass costs three times as much to make. Nobody changes it.
@dataclass(slots=True)
class RequestContext:
    header: RequestHeader
    peer_host: str
    listener: str
    principal: str
    received_at_ms: int

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id
