"""All consumer instances of a service. An instance belongs to the principal that created it, and ends when idle."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.http.v2.instance import ConsumerInstance, InstanceSettings
from headrace.web.errors import Problem
from headrace.web.login import Caller

_MOST: Final = 500
_LOOK_EVERY_S: Final = 5.0


class ConsumerInstances:
    """Owned by the event loop."""

    def __init__(self, opened: Callable[[Caller], Awaitable[ClusterClient]], *, idle_s: float = 300.0) -> None:
        self._opened = opened
        self._idle_s = idle_s
        self._known: dict[tuple[str, str], ConsumerInstance] = {}

    def __len__(self) -> int:
        return len(self._known)

    @staticmethod
    def new_name() -> str:
        return f"rest-consumer-{uuid.uuid4()}"

    async def create(self, caller: Caller, settings: InstanceSettings) -> None:
        """Raises Problem 40902 if the name is taken, and 50301 if there are too many instances."""
        key = (settings.group, settings.name)
        self._check_free(key)
        clients = [await self._opened(caller) for _ in range(2)]
        try:
            self._check_free(key)
        except Problem:
            for client in clients:
                await client.close()
            raise
        self._known[key] = ConsumerInstance(settings, caller.principal, *clients)

    def _check_free(self, key: tuple[str, str]) -> None:
        if key in self._known:
            raise Problem(
                409, 40902, "Consumer with specified consumer ID already exists in the specified consumer group."
            )
        if len(self._known) >= _MOST:
            raise Problem(503, 50301, f"the service has {_MOST} consumer instances already: delete some")

    @asynccontextmanager
    async def used(self, caller: Caller, group: str, name: str) -> AsyncIterator[ConsumerInstance]:
        """The instance, for one request at a time. Another principal's instance is not found."""
        instance = self._known.get((group, name))
        if instance is None or instance.principal != caller.principal:
            raise Problem(404, 40403, "Consumer instance not found.")
        async with instance.lock:
            if self._known.get((group, name)) is not instance:
                raise Problem(404, 40403, "Consumer instance not found.")
            instance.used_at = asyncio.get_running_loop().time()
            # A token ends long before its instance, and a password may change.
            instance.log_in_with(caller.security)
            try:
                yield instance
            finally:
                instance.used_at = asyncio.get_running_loop().time()

    async def delete(self, caller: Caller, group: str, name: str) -> None:
        async with self.used(caller, group, name) as instance:
            del self._known[group, name]
            await instance.close()

    async def expire_idle(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, self._idle_s / 2))
            now = asyncio.get_running_loop().time()
            for key, instance in list(self._known.items()):
                if not instance.lock.locked() and now - instance.used_at > self._idle_s:
                    del self._known[key]
                    await instance.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        expiry = asyncio.create_task(self.expire_idle(), name="expiry of consumer instances")
        try:
            yield
        finally:
            expiry.cancel()
            with suppress(asyncio.CancelledError):
                await expiry
            await asyncio.gather(*(one.close() for one in self._known.values()))
            self._known.clear()
