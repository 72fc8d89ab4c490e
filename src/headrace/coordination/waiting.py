"""Waits for an event with a deadline."""

from __future__ import annotations

import asyncio


async def until(event: asyncio.Event, seconds: float | None) -> None:
    """Returns when `event` is set or the time is over. (`asyncio.wait_for` may swallow a cancellation that comes with
    the event; the canceller would then wait for ever.)"""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
