"""The table of handlers. ApiVersions and COMPATIBILITY.md are derived from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.handler import Handler
from headrace.wire.apis import api_name


class HandlerTable:
    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self.by_key: dict[int, Handler] = {}
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler) -> None:
        key = handler.api_key
        assert key not in self.by_key, f"{api_name(key)} has two handlers"
        assert isinstance(getattr(handler, "needs", None), Needs), f"{api_name(key)} does not declare what it needs"
        self.by_key[key] = handler

    def get(self, api_key: int) -> Handler | None:
        return self.by_key.get(api_key)

    def __iter__(self) -> Iterator[Handler]:
        return iter(sorted(self.by_key.values(), key=lambda handler: handler.api_key))

    def advertised(self) -> list[tuple[int, int, int]]:
        """(API key, lowest, highest version) of every served API, by key."""
        return [
            (h.api_key, h.versions.start if h.advertised_from is None else h.advertised_from, h.versions.stop - 1)
            for h in self
            if h.is_advertised
        ]
