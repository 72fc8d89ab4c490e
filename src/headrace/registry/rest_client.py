"""A small HTTP client of a schema registry, for commands and other programs without an event loop."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from headrace.registry.core.errors import Code, RegistryError, StoreFailed

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryClient:
    def __init__(self, url: str, *, timeout_s: float = 30.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"registry {url!r}: must be http://HOST:PORT")
        self.url = url
        self._parts = parts
        self._timeout_s = timeout_s

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer. Raises RegistryError with the code and message of the registry."""
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None
        connection = kind(self._parts.hostname, self._parts.port, timeout=self._timeout_s)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, self._parts.path.rstrip("/") + path, data, {"Content-Type": _CONTENT_TYPE})
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            raise StoreFailed(Code.STORE, f"no schema registry answers at {self.url}: {fault}") from fault
        finally:
            connection.close()
        try:
            document = json.loads(content) if content else None
        except ValueError as fault:
            raise StoreFailed(Code.STORE, f"{self.url} is not a schema registry: its answer is not JSON") from fault
        if status >= 300:
            found = document if isinstance(document, dict) else {}
            raise RegistryError(int(found.get("error_code", status)), str(found.get("message", f"HTTP {status}")))
        return document


def in_path(text: str) -> str:
    """A subject as a path segment."""
    return quote(text, safe="")
