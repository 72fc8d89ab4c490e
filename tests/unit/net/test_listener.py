"""Addresses of clients."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest

from headrace.net.connection import Serve
from headrace.net.listener import CannotListen, ConnectionLimits, Listeners


def test_an_ipv4_client_of_a_dual_stack_listener_has_its_ipv4_address() -> None:
    """Else no limit, quota or override for that address covers it."""

    async def addresses() -> tuple[list[str], list[str], int]:
        asked: list[str] = []

        def hold_back(host: str) -> int:
            asked.append(host)
            return 0

        limits = ConnectionLimits(per_ip_overrides={"127.0.0.1": 1})
        listeners = Listeners(cast("Serve", None), limits, asyncio.get_running_loop(), hold_back)
        try:
            _, port = listeners.bind("CLIENTS", "::", 0)
        except CannotListen:
            pytest.skip("this machine has no IPv6")
        listeners.start()
        clients = [await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port)) for _ in range(2)]
        async with asyncio.timeout(5):
            while listeners.traffic.accepted + listeners.traffic.refused < 2:  # noqa: ASYNC110 (nobody announces it)
                await asyncio.sleep(0.01)
        found = [connection.peer_host for connection in listeners.connections]
        for client in clients:
            client.close()
        listeners.close()
        return found, asked, listeners.traffic.refused

    assert asyncio.run(addresses()) == (["127.0.0.1"], ["127.0.0.1"], 1)
