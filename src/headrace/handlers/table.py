"""The handlers that are served. What ApiVersions advertises and what COMPATIBILITY.md lists is read from here.

A handler is called with the request (kio's entity) and its context, and gives the answer as a plain mapping, or an
awaitable of one when it has to wait. Fetch gives the parts of an encoded answer instead, or promises them, and Produce
reads its frame itself: they are the two hot ones (see `FrameHandler`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from typing import Any, ClassVar, Protocol, runtime_checkable

from headrace.handlers.context import RequestContext
from headrace.net.replies import Parts, Promise, Reply
from headrace.wire.apis import ApiKey, api_name

Answer = dict[str, Any]


class Handler(Protocol):
    api_key: ClassVar[ApiKey]
    versions: ClassVar[range]

    def __call__(self, request: Any, context: RequestContext) -> Answer | Awaitable[Answer] | Parts | Promise: ...


@runtime_checkable
class FrameHandler(Protocol):
    """A handler that reads its own frame, which is writable and valid only during the call."""

    api_key: ClassVar[ApiKey]
    versions: ClassVar[range]

    def serve_frame(self, frame: memoryview, body_at: int, context: RequestContext) -> Reply: ...


@runtime_checkable
class ReadsItself(Protocol):
    """A handler whose request is read by hand."""

    def read_body(self, frame: memoryview, at: int, version: int) -> Any: ...


@runtime_checkable
class RefusesItself(Protocol):
    """A handler whose API has no error code at its top: it says itself how a fault looks to its client."""

    def refuse(self, request: Any, context: RequestContext, error_code: int, message: str) -> Answer: ...


AnyHandler = Handler | FrameHandler


class HandlerTable:
    def __init__(self, handlers: Iterable[AnyHandler] = ()) -> None:
        self._handlers: dict[int, AnyHandler] = {}
        for handler in handlers:
            self.add(handler)

    def add(self, handler: AnyHandler) -> None:
        key = handler.api_key
        assert key not in self._handlers, f"{api_name(key)} has two handlers"
        self._handlers[key] = handler

    def get(self, api_key: int) -> AnyHandler | None:
        return self._handlers.get(api_key)

    def __iter__(self) -> Iterator[AnyHandler]:
        return iter(sorted(self._handlers.values(), key=lambda handler: handler.api_key))

    def advertised(self) -> list[tuple[int, int, int]]:
        """(API key, lowest, highest version) of everything a client may ask for, by key."""
        return [
            (h.api_key, getattr(h, "advertised_from", h.versions.start), h.versions.stop - 1)
            for h in self
            if getattr(h, "is_advertised", True)
        ]
