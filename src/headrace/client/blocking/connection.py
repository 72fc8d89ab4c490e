"""One socket to one broker, for blocking callers: framing, API versions, TLS and SASL at the start.

A request may be sent before the previous answer was read; answers come in order. A connection that was lost, or whose
answer is late, closes itself: a later answer could not be matched to a request.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from headrace.client.errors import NoAnswer, Unreachable, Unsupported
from headrace.client.security import ClientSecurity
from headrace.client.server_kind import connect_trouble, trouble_with
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity

# The newest version of each API that this client is written for; older brokers get their own newest version.
_NEWEST: Final = {
    "produce": (0, 8),
    "fetch": (1, 11),
    "list_offsets": (2, 7),
    "metadata": (3, 12),
    "offset_commit": (8, 8),
    "offset_fetch": (9, 7),
    "find_coordinator": (10, 3),
    "sasl_handshake": (17, 1),
    "create_topics": (19, 7),
    "delete_topics": (20, 5),
    "delete_records": (21, 2),
    "init_producer_id": (22, 4),
    "add_partitions_to_txn": (24, 3),
    "add_offsets_to_txn": (25, 3),
    "end_txn": (26, 3),
    "txn_offset_commit": (28, 3),
    "describe_configs": (32, 4),
    "sasl_authenticate": (36, 2),
    "create_partitions": (37, 3),
    "delete_groups": (42, 2),
}
_LARGEST_ANSWER: Final = 1 << 30


class BlockingConnection:
    """One socket to one broker, with the versions that both sides support."""

    def __init__(self, host: str, port: int, *, client_id: str, timeout_s: float, security: ClientSecurity) -> None:
        self.host, self.port, self.client_id, self.timeout_s = host, port, client_id, timeout_s
        self._correlation_id = 0
        self._buffer = bytearray()
        self._socket = self._open(security)
        try:
            if security.protocol.startswith("SASL"):
                self._authenticate(security)
            self.versions = self._learn_versions()
        except (Unreachable, NoAnswer) as lost:
            self.close()
            # A server of another protocol closes the connection or waits for more bytes.
            known = trouble_with(host, port, timeout_s=timeout_s, encrypted=security.encrypted)
            raise Unreachable(
                known
                or f"{lost.message} at the first question (security.protocol={security.protocol}: does the listener "
                "want another, or a certificate?)"
            ) from lost
        except BaseException:  # on any error the socket must not stay open
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def _open(self, security: ClientSecurity) -> socket.socket:
        # Created first: an unreadable certificate is not a network fault.
        tls = security.tls_context() if security.encrypted else None
        try:
            plain = socket.create_connection((self.host, self.port), timeout=self.timeout_s)
        except OSError as error:
            raise Unreachable(connect_trouble(self.host, self.port, error, self.timeout_s)) from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return plain if tls is None else security.encrypt(plain, tls, self.address)
        except BaseException:  # on any error the socket must not stay open
            plain.close()
            raise

    def _learn_versions(self) -> dict[int, tuple[int, int]]:
        _, answer = codec.read_response(ApiKey.API_VERSIONS, 0, self.exchange_raw(ApiKey.API_VERSIONS, 0, {}))
        return {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in answer.api_keys}

    def _authenticate(self, security: ClientSecurity) -> None:
        shake = self._read(17, 1, self.exchange_raw(17, 1, {"mechanism": security.mechanism}))
        if shake.error_code is not ErrorCode.none:
            raise Refused(
                shake.error_code, f"{self.address} offers {', '.join(shake.mechanisms)}, not {security.mechanism}"
            )

        def exchange(ours: bytes) -> bytes:
            answer = self._read(36, 1, self.exchange_raw(36, 1, {"auth_bytes": ours}))
            if answer.error_code is not ErrorCode.none:
                raise Refused(
                    answer.error_code, f"{self.address} refused {security.username!r}: {answer.error_message}"
                )
            return bytes(answer.auth_bytes)

        security.authenticate(exchange)

    def version_of(self, api: str) -> tuple[int, int]:
        key, newest = _NEWEST[api]
        if key not in self.versions:
            raise Unsupported(f"{self.address} does not serve {api}")
        lowest, highest = self.versions[key]
        version = min(newest, highest)
        if version < lowest:
            raise Unsupported(f"{self.address} serves {api} v{lowest}–v{highest}, this client speaks up to v{newest}")
        return key, version

    def send(self, *parts: bytes | bytearray | memoryview) -> None:
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError as error:
            self.close()
            raise Unreachable(f"the connection to {self.address} was lost while sending: {error}") from error

    def send_request(self, api: str, body: Body) -> tuple[int, int]:
        """Sends without waiting; `receive` returns the answers in the same order. Returns (api key, version)."""
        key, version = self.version_of(api)
        self._correlation_id += 1
        self.send(codec.encode_request(key, version, self._correlation_id, self.client_id, body))
        return key, version

    def next_header(self, key: int, version: int) -> bytes:
        """The header (v1, not flexible) of a request that the caller encodes itself."""
        self._correlation_id += 1
        client_id = self.client_id.encode()
        return struct.pack(f">hhih{len(client_id)}s", key, version, self._correlation_id, len(client_id), client_id)

    def receive(self, *, reuse_buffer: bool = False, timeout_s: float | None = None) -> memoryview:
        """The next answer's frame. With `reuse_buffer` it is only valid until the next call."""
        try:
            self._socket.settimeout(self.timeout_s if timeout_s is None else timeout_s)
            size = int.from_bytes(self._receive_exactly(memoryview(bytearray(4))), "big", signed=True)
            if not 4 <= size <= _LARGEST_ANSWER:
                raise Unreachable(f"{self.address} sent an answer of {size} bytes: is it a Kafka broker?")
            if not reuse_buffer:
                return self._receive_exactly(memoryview(bytearray(size)))
            if len(self._buffer) < size:
                self._buffer = bytearray(size)
            return self._receive_exactly(memoryview(self._buffer)[:size])
        except TimeoutError as error:
            # Closes: a late answer would be taken for the next one.
            self.close()
            raise NoAnswer(f"{self.address} did not answer within {timeout_s or self.timeout_s:g} s") from error
        except OSError as error:
            self.close()
            raise Unreachable(f"the connection to {self.address} was lost: {error}") from error
        except Unreachable:
            self.close()
            raise

    def _receive_exactly(self, into: memoryview) -> memoryview:
        at = 0
        while at < len(into):
            count = self._socket.recv_into(into[at:])
            if count == 0:
                raise Unreachable(f"{self.address} closed the connection")
            at += count
        return into

    def exchange_raw(self, key: int, version: int, body: Body) -> memoryview:
        self._correlation_id += 1
        self.send(codec.encode_request(key, version, self._correlation_id, self.client_id, body))
        return self.receive()

    def _read(self, key: int, version: int, frame: memoryview) -> Entity:
        return codec.read_response(key, version, frame)[1]

    def call(self, api: str, body: Body) -> Entity:
        """One request and its answer, as kio's entity of the negotiated version."""
        key, version = self.send_request(api, body)
        return self._read(key, version, self.receive())

    def close(self) -> None:
        self._socket.close()

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0
