"""CVE-2026-35554: a request that times out never shares its bytes with a later one.

The client sends before it returns, so a buffer is never in flight later. After a time-out it closes the connection:
neither the rest of the request nor a late answer can meet another request.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from headrace.client.blocking.connection import BlockingConnection
from headrace.client.errors import NoAnswer, Unreachable
from headrace.client.security import ClientSecurity
from headrace.wire import codec

API_VERSIONS = 18
LARGE = 64 << 20


class SilentBroker:
    """Answers ApiVersions, then reads everything if `reads`, and answers nothing."""

    def __init__(self, *, reads: bool) -> None:
        self.received = bytearray()
        self.reads = reads
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listening.accept()
        with client:
            (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
            request = client.recv(size, socket.MSG_WAITALL)
            row = {"api_key": 0, "min_version": 0, "max_version": 8}
            answer = {"error_code": 0, "api_keys": [row]}
            client.sendall(codec.encode_response(API_VERSIONS, 0, struct.unpack_from(">i", request, 4)[0], answer))
            while self.reads and (data := client.recv(1 << 20)):
                self.received += data
            self._over.wait()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._listening.close()


@pytest.fixture(params=[True, False], ids=["reads", "does not read"])
def broker(request: pytest.FixtureRequest) -> Iterator[SilentBroker]:
    started = SilentBroker(reads=request.param)
    yield started
    started.close()


def test_cve_2026_35554_a_timed_out_request_ends_its_connection(broker: SilentBroker) -> None:
    connection = BlockingConnection(
        "127.0.0.1", broker.port, client_id="test", timeout_s=0.5, security=ClientSecurity()
    )
    payload = bytearray(b"a") * LARGE
    with pytest.raises((NoAnswer, Unreachable)):
        connection.send(payload)
        connection.receive()
    payload[:] = b"b" * LARGE
    assert connection.closed
    with pytest.raises(Unreachable):
        connection.send(b"next")
    broker.close()
    # On a busy machine the time ends before the whole request is sent.
    assert broker.received.count(b"a") == len(broker.received) <= LARGE
    assert bool(broker.received) == broker.reads
