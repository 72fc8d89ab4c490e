"""Waiting for a hint, but not for ever."""

from __future__ import annotations

import asyncio


async def until(event: asyncio.Event, seconds: float | None) -> None:
    """Returns when `event` is set or the time is over. (`asyncio.wait_for` may swallow a cancellation that comes with
    the event, and whoever cancels then waits for ever.)"""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
