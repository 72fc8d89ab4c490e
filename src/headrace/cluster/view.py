"""The current cluster image of this broker, and its subscribers.

Owned by the event loop: `publish` calls the subscribers in the order of their subscription, before any later event can
read the new image. It drops an image that is not newer than the current one: the controller publishes its changes at
once, and the follower of the store reads the same version a moment later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headrace.cluster.core.image import EMPTY_IMAGE, ClusterImage

logger = logging.getLogger(__name__)

Subscriber = Callable[[ClusterImage, ClusterImage], None]


class ClusterView:
    def __init__(self, image: ClusterImage = EMPTY_IMAGE) -> None:
        self.current = image
        self._subscribers: list[Subscriber] = []
        self._waiting: set[asyncio.Future[None]] = set()

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Calls `callback(old, new)` for every published image. Returns a function that unsubscribes."""
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return unsubscribe

    def publish(self, image: ClusterImage) -> bool:
        old = self.current
        if image.version <= old.version:
            return False
        self.current = image
        for callback in tuple(self._subscribers):
            try:
                callback(old, image)
            except Exception:
                # A subscriber that fails on an image must not keep it from the others.
                logger.exception("a subscriber failed on cluster image %d", image.version)
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)
        return True

    async def wait_until(self, condition: Callable[[ClusterImage], bool], timeout: float) -> bool:
        """Whether `condition` became true for the current image within `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not condition(self.current):
            left = deadline - loop.time()
            if left <= 0:
                return False
            changed: asyncio.Future[None] = loop.create_future()
            self._waiting.add(changed)
            try:
                async with asyncio.timeout(left):
                    await changed
            except TimeoutError:
                self._waiting.discard(changed)
                return condition(self.current)
        return True
