"""Runs a write here or on the leading instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from headrace.registry.app.answers import json_answer
from headrace.registry.app.forwarding import FORWARDED, LeaderGone, forward
from headrace.registry.core.errors import Code, StoreFailed
from headrace.registry.store.store import NotLeading, Operation, SchemaStore

_PAUSE_S = 0.1


def store_of(request: Request) -> SchemaStore:
    store = request.app.state.store
    assert isinstance(store, SchemaStore)
    return store


async def write(request: Request, operation: Operation, render: Callable[[Any], Any] = lambda reply: reply) -> Response:
    """A leader that died is waited for: its place is taken within a session time-out."""
    store = store_of(request)
    deadline = asyncio.get_running_loop().time() + store.settings.timeout_s
    while True:
        try:
            return json_answer(request, render(await store.write(operation)))
        except NotLeading as other:
            if FORWARDED in request.headers:
                raise StoreFailed(
                    Code.NO_LEADER, f"this instance does not lead; the leader is {other.leader.url}"
                ) from None
            try:
                answer = await forward(request, other.leader, store.settings.timeout_s)
            except LeaderGone:
                if asyncio.get_running_loop().time() > deadline:
                    raise StoreFailed(
                        Code.FORWARDING, f"Error while forwarding the request: nothing listens at {other.leader.url}"
                    ) from None
                await asyncio.sleep(_PAUSE_S)
                continue
            if answer.status_code < 300:
                await store.catch_up()
            return answer
