"""A schema registry on a thread of this process, and plain HTTP requests to it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from headrace.registry.app.serving import RegistryServer, identity_of
from headrace.registry.core.state import State
from headrace.registry.store.store import StoreSettings
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket


class RunningRegistry:
    def __init__(self, bootstrap: str, *, port: int = 0, **settings: Any) -> None:
        listener = bound_socket(ListenAddress("127.0.0.1", port))
        self._ready: Future[str] = Future()
        self.server = RegistryServer(
            listener, StoreSettings(bootstrap, identity_of(listener), **settings), self._ready.set_result
        )
        self._thread = threading.Thread(target=self._run, name="schema registry", daemon=True)
        self._thread.start()
        self.url = self._ready.result(30)

    def _run(self) -> None:
        try:
            self.server.serve_forever()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    @property
    def state(self) -> State:
        return self.server.store.state

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(30)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return ask(self.url, method, path, body, **headers)


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """(status, JSON). Bytes are sent unchanged as the body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            sent.setdefault("Content-Type", "application/vnd.schemaregistry.v1+json")
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    try:
        return answer.status, json.loads(content) if content else None
    except ValueError:
        return answer.status, content.decode()


@contextmanager
def registry(bootstrap: str, **settings: Any) -> Iterator[RunningRegistry]:
    running = RunningRegistry(bootstrap, **settings)
    try:
        yield running
    finally:
        running.stop()
