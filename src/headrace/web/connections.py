"""Things that each caller has of its own, made when the caller first needs them: broker connections, producers.

    async with clients.lease(caller) as client:        # a ClusterClient that is logged in as the caller
        await client.request(...)

An entry without a user is closed after `idle_s`. It is made again after `age_s`, so a user that is deleted, or has a
new password, does not keep old connections for longer than that. Entries are limited in number, and so are logins at a
time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import Fault
from headrace.web.errors import Problem, problem_answer, problem_of
from headrace.web.login import Brokers, Caller, Login

_LOGINS_AT_A_TIME: Final = 16
_SWEEP_S: Final = 10.0


class Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class _Entry(Generic[T]):
    def __init__(self, made: asyncio.Future[T], now: float) -> None:
        self.made = made
        self.made_at = self.used_at = now
        self.users = 0


class PerCaller(Generic[T]):
    """Owned by the event loop."""

    def __init__(
        self,
        make: Callable[[Caller], Awaitable[T]],
        *,
        idle_s: float = 300.0,
        age_s: float = 600.0,
        most: int = 1000,
    ) -> None:
        self._make = make
        self._idle_s, self._age_s, self._most = idle_s, age_s, most
        self._entries: dict[Caller, _Entry[T]] = {}
        self._old: list[_Entry[T]] = []
        self._logins = asyncio.Semaphore(_LOGINS_AT_A_TIME)
        self._swept_at = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    @asynccontextmanager
    async def lease(self, caller: Caller) -> AsyncIterator[T]:
        """The caller's own. Raises the fault of the login, and Problem 503 if too many callers are served."""
        entry = await self._entry(caller)
        entry.users += 1
        try:
            yield await asyncio.shield(entry.made)
        finally:
            entry.users -= 1
            entry.used_at = asyncio.get_running_loop().time()
            if entry.made.done() and (entry.made.cancelled() or entry.made.exception() is not None):
                self._drop(caller, entry)

    async def _entry(self, caller: Caller) -> _Entry[T]:
        now = asyncio.get_running_loop().time()
        if now - self._swept_at > _SWEEP_S:
            self._swept_at = now
            await self._sweep(now)
        entry = self._entries.get(caller)
        if entry is not None and now - entry.made_at > self._age_s:
            self._old.append(self._entries.pop(caller))
            entry = None
        if entry is None:
            if len(self._entries) >= self._most:
                await self._make_room()
            entry = self._entries[caller] = _Entry(asyncio.ensure_future(self._logged_in(caller)), now)
        return entry

    async def _logged_in(self, caller: Caller) -> T:
        async with self._logins:
            return await self._make(caller)

    def _drop(self, caller: Caller, entry: _Entry[T]) -> None:
        if self._entries.get(caller) is entry:
            del self._entries[caller]

    async def _sweep(self, now: float) -> None:
        idle = [
            (caller, entry)
            for caller, entry in self._entries.items()
            if not entry.users and now - entry.used_at > self._idle_s
        ]
        for caller, entry in idle:
            self._drop(caller, entry)
        ended = [entry for entry in self._old if not entry.users]
        self._old = [entry for entry in self._old if entry.users]
        for entry in (*(entry for _, entry in idle), *ended):
            await _close(entry)

    async def _make_room(self) -> None:
        unused = [(entry.used_at, caller) for caller, entry in self._entries.items() if not entry.users]
        if not unused:
            raise Problem(503, 503, f"the service serves {self._most} callers already: try again")
        _, oldest = min(unused, key=lambda one: one[0])
        await _close(self._entries.pop(oldest))

    async def close(self) -> None:
        for entry in (*self._entries.values(), *self._old):
            await _close(entry)
        self._entries.clear()
        self._old.clear()


async def _close(entry: _Entry[T]) -> None:
    entry.made.cancel()
    with contextlib.suppress(Fault, asyncio.CancelledError):
        await (await entry.made).close()


async def logged_in_client(brokers: Brokers, caller: Caller, *, client_id: str, timeout_s: float) -> ClusterClient:
    """A client whose first connection is open, so the brokers have verified the caller. Raises Fault."""
    client = ClusterClient(brokers.bootstrap, client_id=client_id, timeout=timeout_s, security=caller.security)
    try:
        await client.refresh(topics=())
    except BaseException:
        # Boundary to the caller: the connection is closed, also after a cancellation, and the error goes on.
        await client.close()
        raise
    return client


class LoginRequired:
    """Answers 401 unless the brokers accept the caller of a request. `request.state.caller` is the caller then.

    `open_paths` need no login: they show nothing of the cluster.
    """

    def __init__(
        self, app: ASGIApp, *, login: Login, clients: PerCaller[ClusterClient], open_paths: frozenset[str] = frozenset()
    ) -> None:
        self.app = app
        self._login = login
        self._clients = clients
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            try:
                caller = await self._login.caller(Request(scope))
                if self._login.brokers.need_login:
                    async with self._clients.lease(caller):
                        pass
            except Problem as problem:
                await problem_answer(problem)(scope, receive, send)
                return
            except Fault as fault:
                await problem_answer(problem_of(fault))(scope, receive, send)
                return
            scope.setdefault("state", {})["caller"] = caller
        await self.app(scope, receive, send)
