"""Ports for servers that a test starts, and starts again."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Below the ports that the system gives to clients: nobody takes it before its server listens, nor while the server
    is away.
    """
    for port in random.SystemRandom().sample(range(15_000, 32_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("200 ports were tried and all are taken")
