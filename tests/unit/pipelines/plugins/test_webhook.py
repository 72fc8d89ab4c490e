"""Rows as HTTP requests: a row counts as delivered only if the server has taken its body."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.plugins.api import Batch, Ledger
from headrace.pipelines.plugins.webhook import Webhook


class _Moved(BaseHTTPRequestHandler):
    """`/old` moved to `/new`, which takes everything."""

    status = 301

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status if self.path == "/old" else 200)
        if self.path == "/old":
            self.send_header("Location", "/new")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _server(status: int) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (_Moved,), {"status": status}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_of_a_row_is_a_refusal(status: int) -> None:
    """The request to the new address would be a GET without the row."""
    ledger = Ledger("flow", 0)
    with _server(status) as address:
        sink = Webhook(End("http", {"url": f"{address}/old"}, "c.yml: to.http"))
        with pytest.raises(PipelineError, match=f"answered {status}"):
            sink.write(Batch.of(["id"], [{"id": 1}]), ledger)
        assert ledger.rows_done == 0
        Webhook(End("http", {"url": f"{address}/new"}, "c.yml: to.http")).write(Batch.of(["id"], [{"id": 1}]), ledger)
    assert ledger.rows_done == 1
