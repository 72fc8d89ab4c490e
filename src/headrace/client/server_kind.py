"""Detects what serves a port: a Kafka broker, or another server that a user named by mistake.

A client that meets ZooKeeper, a web server or a TLS listener sees its connection closed, or no answer at all. This
module asks again in each server's own protocol, so that an error message can name what is there. It opens blocking
sockets and is used only after a failure, or before a library that cannot explain one.
"""

from __future__ import annotations

import errno
import socket
import ssl
import struct
from collections.abc import Iterable
from enum import Enum
from typing import Final

from headrace.client.errors import Unreachable
from headrace.wire.apis import ApiKey

# How long a server may take to answer in its own protocol.
_ANSWER_S: Final = 1.0
_CORRELATION_ID: Final = 0x48656164
_NO_CLIENT_ID: Final = -1
_ANY_BROKER: Final = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, _CORRELATION_ID, _NO_CLIENT_ID)
_TLS_ALERT: Final = b"\x15\x03"


class ServerKind(Enum):
    KAFKA = "a Kafka broker"
    TLS = "a server that speaks TLS"
    ZOOKEEPER = "a ZooKeeper server"
    HTTP = "a web server (HTTP)"
    UNKNOWN = "a server of an unknown kind"


def connect_trouble(host: str, port: int, error: OSError, timeout_s: float) -> str:
    """Why no connection could be opened, as a sentence."""
    if isinstance(error, socket.gaierror):
        return f"the host name {host!r} is not known here"
    if isinstance(error, TimeoutError):
        return f"{host}:{port} does not answer within {timeout_s:g} s"
    untrusted = getattr(error, "verify_message", None)  # of ssl.SSLCertVerificationError
    if untrusted:
        return (
            f"{host}:{port} shows a certificate that is not trusted ({untrusted}): give the authority that signed it "
            "with ssl.ca.location (PEM) or ssl.truststore.location, or connect by a name that it holds"
        )
    # A name with several addresses: asyncio puts the errors of all of them into one text.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return f"nothing listens on {host}:{port} (connection refused): start a broker there, or check the address"
    return f"cannot connect to {host}:{port}: {error.strerror or error}"


def trouble_with(host: str, port: int, *, timeout_s: float = 10.0, encrypted: bool = False) -> str | None:
    """Why a Kafka client cannot use this address; None if a broker answers, or the reason is unknown."""
    try:
        kind = server_kind(host, port, timeout_s)
    except OSError as error:
        return connect_trouble(host, port, error, timeout_s)
    where = f"{host}:{port}"
    if kind in (ServerKind.ZOOKEEPER, ServerKind.HTTP):
        return f"{where} is {kind.value}, not a Kafka broker: name the port of a broker's listener, often 9092"
    if kind is ServerKind.TLS and not encrypted:
        return f"{where} speaks TLS: set security.protocol=SSL for this client, or name a PLAINTEXT listener"
    if kind is ServerKind.KAFKA and encrypted:
        return f"{where} speaks plain text: set security.protocol=PLAINTEXT for this client, or name an SSL listener"
    return None


def require_broker(addresses: Iterable[tuple[str, int]], *, timeout_s: float = 10.0, encrypted: bool = False) -> None:
    """Raises Unreachable with the reason for every address if none is usable."""
    found = []
    for host, port in addresses:
        trouble = trouble_with(host, port, timeout_s=timeout_s, encrypted=encrypted)
        if trouble is None:
            return
        found.append(trouble)
    raise Unreachable("; ".join(found))


def server_kind(host: str, port: int, timeout_s: float) -> ServerKind:
    """Raises OSError if no connection can be opened."""
    answer = _ask(host, port, struct.pack(">i", len(_ANY_BROKER)) + _ANY_BROKER, 8, timeout_s)
    if answer[4:] == struct.pack(">i", _CORRELATION_ID):
        return ServerKind.KAFKA
    if answer.startswith(_TLS_ALERT):
        return ServerKind.TLS
    # The only four-letter command that ZooKeeper answers by default; its refusal identifies ZooKeeper too.
    if _ask(host, port, b"srvr", 64, timeout_s).lower().startswith((b"zookeeper", b"this zookeeper", b"srvr is not")):
        return ServerKind.ZOOKEEPER
    if answer.startswith(b"HTTP/") or _ask(host, port, b"HEAD / HTTP/1.0\r\n\r\n", 5, timeout_s) == b"HTTP/":
        return ServerKind.HTTP
    return ServerKind.TLS if _speaks_tls(host, port, timeout_s) else ServerKind.UNKNOWN


def _ask(host: str, port: int, question: bytes, size: int, timeout_s: float) -> bytes:
    """The first `size` bytes of the answer, fewer if the server closes the connection or stops sending."""
    received = b""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.settimeout(min(timeout_s, _ANSWER_S))
        try:
            connection.sendall(question)
            while len(received) < size and (part := connection.recv(size - len(received))):
                received += part
        except OSError:
            pass  # closed or silent: use the received bytes
    return received


def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout=min(timeout_s, _ANSWER_S)) as plain:
            context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLError as error:
        # A server that requires a client certificate uses TLS too; another server sends other bytes.
        return "CERTIFICATE" in str(error).upper()
    except OSError:
        return False
    return True
