"""A client that sends no whole request, or an endless one, loses its connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace.web import listener
from headrace.web.address import ListenAddress
from headrace.web.listener import WebServer, bound_socket
from headrace.web.tls import HttpTls
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


@contextmanager
def serving(tls: HttpTls | None = None) -> Iterator[tuple[str, int]]:
    bound = bound_socket(ListenAddress("127.0.0.1", 0))
    ready: Future[str] = Future()
    app = Starlette(routes=[Route("/", length, methods=["GET", "POST"])])
    server = WebServer(bound, app, ready=ready.set_result, tls=tls)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    ready.result(PATIENCE_S)
    yield bound.getsockname()[:2]
    server.should_exit = True
    thread.join(PATIENCE_S)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(listener, "_HEAD_S", 0.3)
    with serving() as bound:
        yield bound


@pytest.mark.parametrize("sent", [b"", b"GET / HT", REQUEST[:-2], REQUEST + b"\r\n", REQUEST + b"GET / HTTP/1.1\r\n"])
def test_half_a_request_is_closed_after_the_deadline(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        client.sendall(sent)
        while client.recv(4096):
            pass


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_half_a_tls_handshake_is_closed_after_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(listener, "_HEAD_S", 0.3)
    tls = HttpTls(Authority.make(tmp_path).issue("http").properties())
    with serving(tls) as address, socket.create_connection(address, timeout=PATIENCE_S) as client:
        client.sendall(sent)
        while client.recv(4096):
            pass


def test_a_head_without_end_is_refused_early(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_HEAD_S", PATIENCE_S)
    with socket.create_connection(address, timeout=PATIENCE_S) as client, pytest.raises(OSError):
        client.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(10_000):
            client.sendall(b"X-Header: " + b"x" * 4096 + b"\r\n")


def test_bodies_and_further_requests_are_served(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        for _ in range(3):
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000)
            answer = b""
            while not answer.endswith(b"200000"):
                answer += client.recv(4096)
