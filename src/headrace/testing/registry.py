"""A schema registry in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

from headrace.registry.app.serving import RegistryServer, identity_of
from headrace.registry.store.store import StoreSettings
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket

_START_TIMEOUT_S: Final = 30


class RunningRegistry:
    """A started registry at `url`, whose schemas are in a topic of its broker."""

    def __init__(self, bootstrap: str) -> None:
        listener = bound_socket(ListenAddress("127.0.0.1", 0))
        self._ready: Future[str] = Future()
        settings = StoreSettings(bootstrap, identity_of(listener))
        self._server = RegistryServer(listener, settings, self._ready.set_result)
        self._thread = threading.Thread(target=self._run, name="headrace registry", daemon=True)
        self._thread.start()
        self.url = self._ready.result(_START_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self._server.serve_forever()
        except BaseException as error:  # boundary of the thread: the constructor raises it to its caller
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(_START_TIMEOUT_S)


@contextmanager
def registry(bootstrap: str) -> Iterator[RunningRegistry]:
    running = RunningRegistry(bootstrap)
    try:
        yield running
    finally:
        running.stop()
