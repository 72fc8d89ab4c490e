"""Apache Kafka and Headrace side by side: the same raw request to both, the answers as plain values."""

from __future__ import annotations

import dataclasses
import socket
import struct
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from headrace.wire import codec
from tests.differential.applied_changes import is_change, wait_until_applied
from tests.support.clock import PATIENCE_S

CLOSED = "closed"
NO_ANSWER = "no answer"


class Server:
    """One broker, by its port. It uses one connection per request, so that no variant affects another. When `ask`
    returns the answer to a change, the broker and its `peers` have applied it.
    """

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.peers: list[Server] = []
        # Values from earlier answers that later requests need: topic ids, producer ids, member ids, by name.
        self.known: dict[str, Any] = {}

    def ask(self, api_key: int, version: int, body: dict[str, Any], *, patience: float = PATIENCE_S) -> Any:
        answer = self.ask_once(api_key, version, body, patience)
        if is_change(api_key, body):
            wait_until_applied([self.ask_once, *(peer.ask_once for peer in self.peers)])
        return answer

    def ask_once(self, api_key: int, version: int, body: dict[str, Any], patience: float = PATIENCE_S) -> Any:
        return self.send(codec.encode_request(api_key, version, 7, "differential", body), api_key, version, patience)

    def send(self, frame: bytes | bytearray, api_key: int, version: int, patience: float = PATIENCE_S) -> Any:
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as client:
            client.sendall(frame)
            try:
                answer = read_answer(client)
            except TimeoutError:
                return NO_ANSWER
            except ConnectionError:
                return CLOSED
        return plain(codec.read_response(api_key, version, answer)[1])

    def topic_id(self, name: str) -> uuid.UUID | None:
        body = {"topics": [{"topic_id": None, "name": name}], "allow_auto_topic_creation": False}
        answer = self.ask(3, 12, {**body, "include_topic_authorized_operations": False})
        found: uuid.UUID | None = answer["topics"][0]["topic_id"]
        return found


def read_answer(client: socket.socket) -> bytes:
    data = _exactly(client, 4)
    return _exactly(client, struct.unpack(">i", data)[0])


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def plain(value: Any) -> Any:
    """kio's entity as nested mappings and lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, bool | str | bytes | uuid.UUID) or value is None:
        return value
    if isinstance(value, float):
        return value
    return int(value)


# Values that differ between any two brokers, and messages.
_MASKED: dict[str, Callable[[Any], Any]] = {
    "throttle_time": lambda _: "masked",
    "cluster_id": lambda value: value if value is None else "cluster",
    "host": lambda _: "host",
    "port": lambda _: "port",
    "log_dir": lambda _: "directory",
    "total_bytes": lambda value: value if value < 0 else "bytes",
    "usable_bytes": lambda value: value if value < 0 else "bytes",
    "error_message": lambda _: "words",
    "batch_index_error_message": lambda _: "words",
    "member_id": lambda value: value if not value else "member",
    "producer_id": lambda value: value if value < 0 else "producer",
    "topic_id": lambda value: value if value is None else "id",
    "log_append_time": lambda value: value if value in (None, -1) else "time",
    "session_id": lambda value: value if value == 0 else "session",
    "last_timestamp": lambda value: value if value < 0 else "time",
    "finalized_features_epoch": lambda _: "epoch",
    "documentation": lambda value: value if value is None else "words",
    "start_time": lambda value: value if value in (None, -1) else "time",
}


def masked(value: Any, key: str = "") -> Any:
    if key in _MASKED and not isinstance(value, dict | list):
        return _MASKED[key](value)
    if isinstance(value, dict):
        # Each broker has its own error messages. A message without an error is compared.
        plain_words = {"error_message"} if value.get("error_code") == 0 else set()
        return {name: item if name in plain_words else masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        # Lists of entries are compared as sets: neither broker guarantees an order.
        items = [masked(item, key) for item in value]
        return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
    return value


def differences(kafka: Any, ours: Any, path: str = "") -> list[str]:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        found = []
        for name in kafka.keys() | ours.keys():
            found += differences(kafka.get(name), ours.get(name), f"{path}.{name}" if path else name)
        return sorted(found)
    if isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        return [
            line
            for at, pair in enumerate(zip(kafka, ours, strict=True))
            for line in differences(*pair, f"{path}[{at}]")
        ]
    return [] if kafka == ours else [f"{path}: Kafka {kafka!r}, Headrace {ours!r}"]
