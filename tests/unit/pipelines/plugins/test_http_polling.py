"""Answers of an address that is polled: a part of an answer is no row."""

from __future__ import annotations

import socket
import threading

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.plugins.http_polling import PollingSource


def test_an_answer_that_ends_too_early_is_asked_for_again() -> None:
    bodies = [b"half", b"half and half"]

    def serve(listener: socket.socket) -> None:
        for body in bodies:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        chunk = PollingSource(End("http", {"url": url}, "c.yml: from.http")).read(None)
    assert chunk.rows == [{"value": "half and half"}]
    thread.join(10)
