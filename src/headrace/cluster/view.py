"""The current image of this broker, and who wants to hear of the next one.

Owned by the event loop: `publish` runs the subscribers in the order they came, before anyone reads the new image from a
later event. An image that is not newer than the current one is dropped: the controller publishes what it wrote at once,
and the follower of the store meets the same version again a moment later.
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
        """Calls `callback(old, new)` for every published image; gives back the way to stop that."""
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
                # One part that cannot digest an image must not keep the others from it; the fault is loud in the log.
                logger.exception("a subscriber failed on cluster image %d", image.version)
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)
        return True

    async def wait_until(self, condition: Callable[[ClusterImage], bool], timeout: float) -> bool:
        """Whether `condition` came to hold for the current image within `timeout` seconds."""
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
