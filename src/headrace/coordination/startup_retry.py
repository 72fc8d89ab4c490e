"""Repeats the requests of a starting broker to the coordination store when the connection breaks.

A broker may start together with its ZooKeeper, which accepts connections before it serves. So no step of the start may
fail because one connection or session was lost. Every request of the start may be sent twice, and is repeated for up to
`zookeeper.connection.timeout.ms`, the time that the broker waits for its first connection. After the start a member
retries without a limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from headrace.coordination.store import ConnectionLost, SessionExpired, StoreFailed

log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.2

_Answer = TypeVar("_Answer")


async def answered(what: str, question: Callable[[], Awaitable[_Answer]], *, within_s: float) -> _Answer:
    """Raises StoreFailed if the connection is not back in time, and other faults of the request."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while True:
        try:
            return await question()
        except (ConnectionLost, SessionExpired) as lost:
            if clock() >= deadline:
                raise StoreFailed(
                    f"{what}: ZooKeeper was connected but gave no answer for {within_s:g} s ({lost}): "
                    "see that the servers of zookeeper.connect are up and have a quorum"
                ) from lost
            log.warning("%s: no answer from ZooKeeper (%s); asking again", what, lost)
            await asyncio.sleep(_PAUSE_S)
