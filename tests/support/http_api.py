"""The HTTP API on a thread of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.http.service import HttpService, http_server
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket
from headrace.web.login import Brokers
from tests.support.web import ask, basic, exchange, running_server


class RunningApi:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return ask(self.url, method, path, body, tls=None, **headers)

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        return exchange(self.url, method, path, body, tls=None, **headers)


@contextmanager
def http_api(bootstrap: str, *, settings: dict[str, str] | None = None, **options: Any) -> Iterator[RunningApi]:
    brokers = Brokers.from_settings(bootstrap, settings or {})
    listener = bound_socket(ListenAddress("127.0.0.1", 0))
    with running_server(lambda ready: http_server(listener, HttpService(brokers, **options), ready=ready)) as url:
        yield RunningApi(url)


__all__ = ["RunningApi", "basic", "http_api"]
