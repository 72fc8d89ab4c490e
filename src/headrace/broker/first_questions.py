"""What a broker asks of the coordination store before it is a member: again, where the connection breaks meanwhile.

A member waits for its store as long as it takes. A broker that is only starting must not give up sooner, for one answer
that was lost on a busy machine: each of these questions may be asked twice. But it must not hang for ever either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from headrace.coordination.store import ConnectionLost, SessionExpired, StoreFailed

log = logging.getLogger("headrace.broker")

ANSWERED_WITHIN_S: Final = 60.0
_PAUSE_S: Final = 0.2

_Answer = TypeVar("_Answer")


async def answered(
    what: str, question: Callable[[], Awaitable[_Answer]], *, within_s: float = ANSWERED_WITHIN_S
) -> _Answer:
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
