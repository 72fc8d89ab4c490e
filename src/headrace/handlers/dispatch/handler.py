"""Interface of handlers: the versions of an API, the rights it needs, and how it reads, serves and refuses requests.

A handler is a frozen dataclass of the services it needs. Its request has a Protocol in `wire.messages`, its answer a
TypedDict. `serve` returns the answer, as a mapping or encoded, or something to wait for: a coroutine, or a `Pending`
where a task for every request would cost too much (Produce with acks=all, Fetch).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import ClassVar, Never

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.error_answers import error_answer
from headrace.net.replies import Reply
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader, read_request

# An answer that is not encoded yet; its fields are those of the newest version.
Fields = Mapping[str, object]
Served = Fields | Coroutine[None, None, Fields] | Reply


class Handler(ABC):
    api_key: ClassVar[ApiKey]
    versions: ClassVar[range]
    needs: ClassVar[Needs]
    # Advertised lowest version: old clients choose features by it, even if it is not served any more.
    advertised_from: ClassVar[int | None] = None
    is_advertised: ClassVar[bool] = True

    def read(self, header: RequestHeader, frame: memoryview, body_at: int) -> object:
        """The request. Raises MalformedRequest. The frame is writable, and valid only until `serve` returns."""
        return read_request(header, frame, body_at)

    @abstractmethod
    def serve(self, request: Never, context: RequestContext) -> Served:
        """Each handler declares its own request type here."""

    def serve_at_controller(self, request: Never, context: RequestContext) -> Served:
        """Serves a request that another broker forwarded, after that broker did its own part."""
        return self.serve(request, context)

    def refuse(self, request: Never, context: RequestContext, error_code: int, message: str) -> Fields | None:
        """The error answer; None if the API has no top-level error code."""
        return error_answer(self.api_key, context.version, error_code, message)
