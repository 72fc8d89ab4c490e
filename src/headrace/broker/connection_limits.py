"""Limits of connections, from the broker's settings."""

from __future__ import annotations

import functools
import socket

from headrace.config import BrokerConfig, ConfigError
from headrace.net.listener import ConnectionLimits


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """Raises ConfigError when a host in `max.connections.per.ip.overrides` has no address."""
    return ConnectionLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        per_ip_overrides=_limits_of_addresses(config.max_connections_per_ip_overrides),
        idle_ms=config.connections_max_idle_ms,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        # Kafka's default of 50 is small when all clients reconnect at once after a restart.
        backlog=max(ConnectionLimits.backlog, config.socket_listen_backlog_size),
    )


def _limits_of_addresses(text: str) -> dict[str, int]:
    limits: dict[str, int] = {}
    for pair in text.split(",") if text else ():
        host, _, count = pair.strip().rpartition(":")
        limits.update(dict.fromkeys(_addresses(host.strip().strip("[]")), int(count)))
    return limits


@functools.cache  # cached: settings change often, their host names seldom
def _addresses(host: str) -> frozenset[str]:
    """As in Kafka, a host name is allowed."""
    try:
        return frozenset(str(found[4][0]) for found in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP))
    except OSError as error:
        raise ConfigError("max.connections.per.ip.overrides", host, f"has no address: {error.strerror}") from None
