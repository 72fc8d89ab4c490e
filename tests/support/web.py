"""An HTTP service on a thread of this process, and plain HTTP requests to it."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from headrace.web.listener import WebServer
from tests.support.clock import PATIENCE_S


@contextmanager
def running_server(make: Callable[[Callable[[str], None]], WebServer]) -> Iterator[str]:
    """Runs the server that `make(ready)` returns. Yields its URL."""
    ready: Future[str] = Future()
    server = make(ready.set_result)

    def run() -> None:
        try:
            server.serve_forever()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=run, name="HTTP service", daemon=True)
    thread.start()
    try:
        yield ready.result(PATIENCE_S)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def ask(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> tuple[int, Any]:
    """(status, JSON, or text if it is not JSON). Bytes are sent unchanged as the body."""
    status, content, _ = exchange(url, method, path, body, tls=tls, **headers)
    try:
        return status, json.loads(content) if content else None
    except ValueError:
        return status, content.decode()


def exchange(
    url: str, method: str, path: str, body: Any = None, *, tls: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=tls)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()
