"""Converts client settings from Java's spelling to librdkafka's.

Users pass producer and consumer properties with Kafka's names. librdkafka shares most of them. This module translates
the few that differ, and removes settings that librdkafka does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from headrace.client.librdkafka_security import OF_SECURITY, security_settings

_RENAMED: Final = {
    "data.max.age.ms": "metadata.max.age.ms",
    "max.in.flight.request.per.connection": "max.in.flight.requests.per.connection",
    "request.timeout.ms": "request.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
# Settings that name Java classes or tune threads and buffers of the JVM client.
_WITHOUT_MEANING: Final = frozenset(
    {
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "buffer.memory", "max.block.ms",
        "interceptor.classes", "metric.reporters", "max.poll.records", "partitioner.class", "exclude.internal.topics",
    }
)  # fmt: skip
# Settings that only one kind of librdkafka client accepts.
_ONLY_PRODUCER: Final = frozenset(
    {"acks", "linger.ms", "batch.size", "compression.type", "retries", "enable.idempotence"}
)


def settings(java: Mapping[str, str], *, producer: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in java.items():
        if name in _WITHOUT_MEANING or (not producer and name in _ONLY_PRODUCER):
            continue
        if not name.startswith(OF_SECURITY):
            found[_RENAMED.get(name, name)] = value
    found |= security_settings(java)
    if "buffer.memory" in java and producer:
        found["queue.buffering.max.kbytes"] = str(max(1, int(java["buffer.memory"]) // 1024))
    return found


def quiet_log() -> dict[str, object]:
    """Silences librdkafka's log lines on stderr. The tool gets errors through callbacks."""
    import logging

    logger = logging.getLogger("librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return {"logger": logger, "log_level": 0}


def explain(error: object) -> str:
    """librdkafka's error as one sentence."""
    text = getattr(error, "str", lambda: str(error))()
    return str(text)


def warn_deprecated(old: str, new: str, *, prefix: str = "Option") -> None:
    print(
        f"{prefix} --{old} is deprecated and will be removed in a future version. Use --{new} instead.", file=sys.stderr
    )
