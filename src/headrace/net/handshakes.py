"""Unauthenticated connections: their deadline, their number, and their share of a turn of the event loop.

A handshake costs as much CPU as hundreds of small requests, and any client may begin one. So one turn of the loop makes
at most a few steps, and then all other connections have their turn. Handshake and login together have ten seconds. When
too many are in progress, the oldest is closed: an honest client needs milliseconds, so the oldest is one that stalls.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

log = logging.getLogger("headrace.net")

DEADLINE_S: Final = 10.0
# Handshake steps in one turn. Each may sign with the private key.
_STEPS_IN_A_TURN: Final = 4
UNPROVEN_LIMIT: Final = 1024
# At the limit, the whole list is searched for proven connections only after this number of new ones: a search costs
# more than a handshake, and every new connection of a flood would pay for one.
_BEGUN_BETWEEN_SEARCHES: Final = 128


class Unproven(Protocol):
    """The part of a connection that handshakes need."""

    @property
    def is_closed(self) -> bool: ...
    @property
    def is_proven(self) -> bool: ...
    def close(self) -> None: ...


class Handshaking(Unproven, Protocol):
    def handshake(self) -> None:
        """Makes the next step without blocking."""


class Handshakes:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, deadline_s: float = DEADLINE_S, limit: int = UNPROVEN_LIMIT
    ) -> None:
        self.dropped = 0
        """Connections that were closed because they took too long, or to let others in."""
        self._loop = loop
        self._deadline_s = deadline_s
        self._limit = limit
        # Oldest first.
        self._begun: dict[Unproven, float] = {}
        self._since_search = 0
        self._ready: deque[Handshaking] = deque()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether a new connection closes an older one. Then the listeners accept slowly: a client that reconnects at
        once would otherwise keep the loop busy with accepting and closing."""
        return len(self._begun) >= self._limit

    def begin(self, connection: Unproven) -> None:
        """Starts the deadline for handshake and login of a connection."""
        self._since_search += 1
        if self.is_full:
            self._make_room()
        self._begun[connection] = self._loop.time() + self._deadline_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._deadline_s, self._expire)

    def ready(self, connection: Handshaking) -> None:
        """Queues the next step of its handshake."""
        self._ready.append(connection)
        self._schedule()

    def forget(self, connection: Unproven) -> None:
        """The connection is closed."""
        self._begun.pop(connection, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._begun.clear()
        self._ready.clear()

    def _schedule(self) -> None:
        if self._ready and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        for _ in range(min(_STEPS_IN_A_TURN, len(self._ready))):
            connection = self._ready.popleft()
            if not connection.is_closed:
                connection.handshake()
        self._schedule()

    def _expire(self) -> None:
        self._timer = None
        self._forget_proven()
        now = self._loop.time()
        for connection, deadline in list(self._begun.items()):
            if deadline > now:
                break
            self._drop(connection, f"it has not proven itself within {self._deadline_s:g} s")
        if self._begun:
            first = next(iter(self._begun.values()))
            self._timer = self._loop.call_at(first, self._expire)

    def _make_room(self) -> None:
        if self._since_search >= _BEGUN_BETWEEN_SEARCHES:
            self._since_search = 0
            self._forget_proven()
            if len(self._begun) < self._limit:
                return
        oldest = next(iter(self._begun))
        if oldest.is_closed or oldest.is_proven:
            del self._begun[oldest]
        else:
            self._drop(oldest, f"{self._limit} connections that have not proven themselves are open")

    def _forget_proven(self) -> None:
        for connection in [one for one in self._begun if one.is_closed or one.is_proven]:
            del self._begun[connection]

    def _drop(self, connection: Unproven, why: str) -> None:
        self.forget(connection)
        self.dropped += 1
        log.info("%s: closed, %s", connection, why)
        connection.close()
