"""Real servers that connectors talk to: Redis, an MQTT broker, an S3-compatible store, an HTTP server with a memory."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headrace.net.free_ports import free_port
from tests.support.clock import wait_for


@contextmanager
def running_redis(directory: Path) -> Iterator[str]:
    import redis

    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
    with _process([*command, "--appendonly", "yes"]):
        client = redis.Redis(port=port)

        def serves() -> bool:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

        wait_for(serves, "Redis to serve")
        client.close()
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def running_mosquitto(directory: Path) -> Iterator[int]:
    port = free_port()
    file = directory / "mosquitto.conf"
    file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 100000\nuser root\n")
    with _process(["mosquitto", "-c", str(file)]):
        wait_for(lambda: _listens(port), "mosquitto to listen")
        yield port


@contextmanager
def running_object_store() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _listens(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@dataclass
class HttpServer:
    """Remembers the requests, and answers GET with the rows whose id is above `after`."""

    port: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    # Statuses of the next answers.
    failures: list[int] = field(default_factory=list)
    document: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def running_http_server() -> Iterator[HttpServer]:
    memory = HttpServer(free_port())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            memory.requests.append((self.path, dict(self.headers.items()), body))
            self._answer(memory.failures.pop(0) if memory.failures else 200, b"")

        def do_GET(self) -> None:
            memory.requests.append((self.path, dict(self.headers.items()), ""))
            if memory.document is not None:
                tag = f'"{hash(memory.document)}"'
                if self.headers.get("If-None-Match") == tag:
                    self._answer(304, b"")
                else:
                    self._answer(200, memory.document.encode(), {"ETag": tag})
                return
            after = int(parse_qs(urlsplit(self.path).query).get("after", ["-1"])[0])
            # Includes the row of the cursor, as many servers do, and gives pages of three rows.
            found = [row for row in memory.rows if row["id"] >= after][:4]
            self._answer(200, json.dumps({"data": {"items": found}}).encode())

        def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", memory.port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
