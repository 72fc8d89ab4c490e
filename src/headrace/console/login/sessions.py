"""The sessions of browsers, in memory: a restart of the console ends them.

A login makes a new session with a new random id, so an id that was planted in a browser before the login is
worthless. A session ends after an hour without requests, at the latest after twelve hours, and not later than its
token.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.kernel.dataclass import dataclass
from headrace.web.login import Caller

COOKIE: Final = "headrace_session"
IDLE_S: Final = 3600.0
LONGEST_S: Final = 12 * 3600.0
_MOST: Final = 10_000


@dataclass(slots=True)
class Session:
    callers: dict[str, Caller]
    """Cluster → the user there."""
    ends_s: float
    used_s: float


class Sessions:
    """Owned by the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def caller(self, request: Request, cluster: str) -> Caller | None:
        """The user of this browser; None without a session that is still valid."""
        session = self._valid(request.cookies.get(COOKIE, ""))
        if session is None:
            return None
        session.used_s = self._clock()
        return session.callers.get(cluster)

    def begin(self, request: Request, cluster: str, caller: Caller, lasts_s: float = LONGEST_S) -> str:
        """A new session with a new id. Logins at other clusters move to it."""
        now_s = self._clock()
        before = request.cookies.get(COOKIE, "")
        old = self._valid(before)
        self._sessions.pop(before, None)
        callers = {} if old is None else dict(old.callers)
        callers[cluster] = caller
        name = secrets.token_urlsafe(32)
        # A login at another cluster does not make the earlier ones last longer.
        ends_s = min(now_s + min(lasts_s, LONGEST_S), now_s + LONGEST_S if old is None else old.ends_s)
        self._sessions[name] = Session(callers, ends_s, now_s)
        if len(self._sessions) > _MOST:
            self._sweep()
        return name

    def end(self, request: Request) -> None:
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)

    def _valid(self, name: str) -> Session | None:
        session = self._sessions.get(name)
        if session is None:
            return None
        now_s = self._clock()
        if now_s > session.ends_s or now_s - session.used_s > IDLE_S:
            del self._sessions[name]
            return None
        return session

    def _sweep(self) -> None:
        for name in list(self._sessions):
            self._valid(name)
        while len(self._sessions) > _MOST:
            oldest = min(self._sessions, key=lambda name: self._sessions[name].used_s)
            del self._sessions[oldest]


def keep_cookie(response: Response, request: Request, name: str) -> None:
    # "lax": the way back from an OpenID provider is a link of another site.
    response.set_cookie(COOKIE, name, httponly=True, samesite="lax", secure=request.url.scheme == "https")
