"""Reads the names of all topics with one request on a plain socket, for commands that must start fast.

An event loop and the schemas of every API cost a command more time to load than its whole answer takes. This sends
Metadata version 1, which every broker serves, and reads just the names. Every unexpected answer is a ValueError or an
OSError; the caller then uses the full client, which can explain it.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from headrace.wire.apis import ApiKey

_VERSION: Final = 1
_CORRELATION_ID: Final = 1
_LARGEST_ANSWER: Final = 1 << 28
_ALL_TOPICS: Final = -1


def topic_names(host: str, port: int, client_id: str, timeout_s: float) -> list[str]:
    """Sorted. Raises OSError and ValueError."""
    name = client_id.encode()
    request = struct.pack(
        f">hhih{len(name)}si", ApiKey.METADATA, _VERSION, _CORRELATION_ID, len(name), name, _ALL_TOPICS
    )
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        if not 12 <= size <= _LARGEST_ANSWER:
            raise ValueError(f"an answer of {size} bytes")
        answer = _exactly(connection, size)
    try:
        return sorted(_names(answer))
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"not an answer to Metadata: {error}") from error


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ValueError("the connection was closed before the answer was whole")
        received += part
    return bytes(received)


def _names(answer: bytes) -> list[str]:
    at = 0

    def number(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(form, answer, at)
        at += struct.calcsize(form)
        return int(value)

    def text() -> str:
        nonlocal at
        length = max(0, number(">h"))
        value = answer[at : at + length].decode()
        at += length
        return value

    if number(">i") != _CORRELATION_ID:
        raise ValueError("an answer to another question")
    for _ in range(number(">i")):  # brokers: id, host, port, rack
        number(">i")
        text()
        number(">i")
        text()
    number(">i")  # the controller
    names = []
    for _ in range(number(">i")):
        failed = number(">h")
        name = text()
        at += 1  # whether it is internal
        if not failed:
            names.append(name)
        for _ in range(number(">i")):  # partitions: error, index, leader, replicas, in-sync replicas
            at += 10
            for _ in ("replicas", "in sync"):
                count = number(">i")
                at += 4 * max(0, count)
    if at != len(answer):
        raise ValueError("an answer of another length than its content")
    return names
