"""The controller's side of the fallback channel: reads the requests that brokers wrote to the store, and answers them.

Runs while this broker is the controller. It also reads requests that were there before, because their senders could
not reach the former controller. It answers a request once: it writes the answer only over the request. A controller
that was replaced in the meantime writes nothing; its successor answers.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final

from headrace.coordination import paths
from headrace.coordination.fallback_channel import LARGEST_REQUEST_BYTES
from headrace.coordination.store import BadVersion, NoNode, Store, StoreFault, ensure_path
from headrace.coordination.waiting import until

logger = logging.getLogger(__name__)

Serve = Callable[[bytes], Awaitable[bytes]]

_LONGEST_UNSEEN_S: Final = 2.0
_PAUSE_AFTER_FAULT_S: Final = 0.2


class FallbackReader:
    def __init__(self, store: Store, serve: Serve, in_office: Callable[[], bool]) -> None:
        self._store = store
        self._serve = serve
        self._in_office = in_office
        self._answering: dict[str, asyncio.Task[None]] = {}
        self._hint = asyncio.Event()
        self._is_watching = False

    async def run(self) -> None:
        """Runs until it is cancelled."""
        timeout = self._store.session_timeout
        pause = None if math.isinf(timeout) else min(_LONGEST_UNSEEN_S, timeout / 4)
        try:
            while True:
                self._hint.clear()
                try:
                    await self._look()
                except StoreFault:
                    self._is_watching = False
                    await asyncio.sleep(_PAUSE_AFTER_FAULT_S)
                    continue
                await until(self._hint, pause)
        finally:
            for task in self._answering.values():
                task.cancel()
            self._answering.clear()

    async def _look(self) -> None:
        watch, self._is_watching = None if self._is_watching else self._hinted, True
        try:
            names = await self._store.children(paths.FALLBACK_REQUESTS, watch=watch)
        except NoNode:  # a cluster of a release without fallback requests
            self._is_watching = False
            await ensure_path(self._store, paths.FALLBACK_REQUESTS)
            self._hint.set()
            return
        there = set(names)
        self._answering = {name: task for name, task in self._answering.items() if name in there or not task.done()}
        for name in sorted(there - self._answering.keys()):
            self._answering[name] = asyncio.create_task(self._answer(name), name=f"fallback request {name}")

    def _hinted(self) -> None:
        self._is_watching = False
        self._hint.set()

    async def _answer(self, name: str) -> None:
        path = f"{paths.FALLBACK_REQUESTS}/{name}"
        try:
            node = await self._store.get(path)
            if node.version > 0:
                return
            answer = await self._serve(node.data)
            if self._in_office():
                fits = len(answer) <= LARGEST_REQUEST_BYTES
                await self._store.set(path, answer if fits else b"", version=node.version)
        except (NoNode, BadVersion):
            pass  # its sender gave up, or it is answered
        except StoreFault:
            self._answering.pop(name, None)  # read again later
        except Exception:  # boundary of a request: one that fails must not end the answers to others
            logger.exception("fallback request %s could not be answered", name)
