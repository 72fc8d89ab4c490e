"""Client settings in Java's spelling, given to librdkafka.

People pass producer and consumer properties as the documents write them. librdkafka shares most names; the few that
differ are translated here, and what it has no use for is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

_RENAMED: Final = {
    "data.max.age.ms": "metadata.max.age.ms",
    "max.in.flight.request.per.connection": "max.in.flight.requests.per.connection",
    "request.timeout.ms": "request.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
# Java settings that name classes or tune threads and buffers of the JVM client.
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


def settings(java: Mapping[str, str], *, producer: bool) -> dict[str, str]:
    found = {}
    for name, value in java.items():
        if name in _WITHOUT_MEANING or (not producer and name in _ONLY_PRODUCER):
            continue
        found[_RENAMED.get(name, name)] = value
    if "buffer.memory" in java and producer:
        found["queue.buffering.max.kbytes"] = str(max(1, int(java["buffer.memory"]) // 1024))
    return found


def quiet_log() -> dict[str, object]:
    """librdkafka writes its own log lines to stderr; errors reach the tool through callbacks anyway."""
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
