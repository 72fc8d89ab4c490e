"""What a starting broker asks of the coordination store, and asks again when the connection breaks meanwhile.

A broker may start together with its ZooKeeper, which accepts connections before it serves. So no step of the start may
fail because one connection or session was lost: every question is one that may be asked twice, and is asked again for
as long as the broker would wait for its first connection (`zookeeper.connection.timeout.ms`). A member waits for its
store as long as it takes.
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
    """Raises StoreFailed when the connection does not come back in time, and whatever else the question raises."""
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
