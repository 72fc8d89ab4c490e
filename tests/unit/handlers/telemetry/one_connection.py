"""Several requests over one connection: the broker forgets the telemetry state of a client with its connection."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any

from headrace.wire import codec
from tests.differential.servers import read_answer


class OneConnection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def __enter__(self) -> OneConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, api_key: int, body: dict[str, Any], *, version: int = 0) -> Any:
        self._socket.sendall(codec.encode_request(api_key, version, 1, "one-connection", body))
        return codec.read_response(api_key, version, read_answer(self._socket))[1]
