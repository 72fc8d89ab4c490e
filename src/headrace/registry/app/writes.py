"""Runs a write here if this instance leads, or forwards it to the leading instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from headrace.kernel.json_values import JsonValue
from headrace.registry.app.answers import json_answer
from headrace.registry.app.forwarding import FORWARDED, LeaderGone, forward
from headrace.registry.core.errors import Code, StoreFailed
from headrace.registry.store.election import Identity
from headrace.registry.store.store import NotLeading, Operation, SchemaStore

_PAUSE_S = 0.1


def store_of(request: Request) -> SchemaStore:
    store = request.app.state.store
    assert isinstance(store, SchemaStore)
    return store


async def write(
    request: Request, operation: Operation, render: Callable[[JsonValue], JsonValue] = lambda reply: reply
) -> Response:
    """If the leader is dead, waits for a new one, which is elected within a session time-out."""
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
                answer = await _forwarded(request, store, other.leader)
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


async def _forwarded(request: Request, store: SchemaStore, leader: Identity) -> Response:
    """Stops waiting as soon as another instance leads: the old leader may be paused, and is fenced."""
    answer = asyncio.create_task(forward(request, leader, store.settings.timeout_s))
    change = asyncio.create_task(store.until_another_leads(leader))
    try:
        await asyncio.wait((answer, change), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise StoreFailed(
                Code.FORWARDING, f"Error while forwarding the request: {leader.url} is no longer the leader. Try again"
            )
        return answer.result()
    finally:
        answer.cancel()
        change.cancel()
