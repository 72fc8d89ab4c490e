"""The HTTP endpoint for Prometheus: `GET /metrics`, nothing else.

A minimal HTTP server: one request per connection, bounded in size and time, so that a port scan or a stuck client costs
nothing. It reads metrics on the event loop and formats the text in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from headrace.config import ConfigError, is_loopback
from headrace.telemetry.metrics import Metrics, Snapshot

log = logging.getLogger("headrace.telemetry")

_HEAD_BYTES: Final = 16 * 1024
_PATIENCE_S: Final = 10.0
_AT_ONCE: Final = 8


def metrics_address(listen: str) -> tuple[str, int]:
    """Host and port of `metrics.listen`. Raises ConfigError.

    As for PLAINTEXT listeners, unencrypted access from other machines must be named: `http://host:port`.
    """
    text = listen.strip()
    host, colon, port = text.removeprefix("http://").rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError("metrics.listen", listen, "must be host:port, for example 127.0.0.1:9404")
    host = host.strip("[]")
    if not text.startswith("http://") and not is_loopback(host):
        why = f"opens the metrics to other machines without encryption: say so, metrics.listen=http://{text}"
        raise ConfigError("metrics.listen", listen, why)
    return host, int(port)


class MetricsEndpoint:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._server: asyncio.Server | None = None
        self._open = 0
        self.port = 0

    async def start(self, listen: str) -> None:
        """`listen` is `host:port` (`metrics.listen`). Raises ConfigError if it is not, or if it cannot be bound."""
        host, port = metrics_address(listen)
        try:
            self._server = await asyncio.start_server(self._serve, host or None, port, limit=_HEAD_BYTES)
        except OSError as error:
            raise ConfigError("metrics.listen", listen, f"cannot be listened on: {error.strerror or error}") from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(_PATIENCE_S):
                writer.write(await self._answer(reader) if self._open <= _AT_ONCE else _answer(503, "busy\n"))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The client is gone, too slow or does not speak HTTP: close the connection.
        except Exception:  # the boundary of a connection: a metrics client must not make the broker fail
            log.exception("metrics could not be served")
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, _, rest = head[0].partition(" ")
        path = rest.split(" ")[0].split("?")[0]
        if method not in ("GET", "HEAD"):
            return _answer(405, "only GET\n")
        if path != "/metrics":
            return _answer(404, "metrics are at /metrics\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        content_type, body = await self.text(headers.get("accept", ""))
        return _answer(200, body if method == "GET" else b"", content_type)

    async def text(self, accept: str) -> tuple[str, bytes]:
        """Content type and body."""
        return await asyncio.to_thread(_render, self._metrics.snapshot(), accept)


def _render(snapshot: Snapshot, accept: str) -> tuple[str, bytes]:
    from headrace.telemetry.exposition import render  # loads prometheus-client, at the first scrape

    return render(snapshot, accept)


_PHRASES: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def _answer(status: int, body: str | bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + data
