"""Connects as a client does: checks host name, port, protocol, and the addresses that brokers advertise.

The check connects in plain text first, and with TLS if the port speaks TLS. It compares the port's protocol with the
client's settings, because with a wrong protocol a client only sees that its connection hangs or closes.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from headrace.cli.checks.findings import Finding, State, well
from headrace.client.cluster_client import ClusterClient
from headrace.client.connection import Connection
from headrace.client.security import ClientSecurity
from headrace.client.server_kind import ServerKind, server_kind
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted

_NAME: Final = "bootstrap"
_ENCRYPTED: Final = ("SSL", "SASL_SSL")


async def reach(
    host: str, port: int, timeout: float, protocol: str = "PLAINTEXT", security: ClientSecurity | None = None
) -> Finding:
    """Checks one bootstrap address for a client with this `security.protocol`."""
    where = f"{host}:{port}"
    if (trouble := await _no_connection(host, port, timeout)) is not None:
        return trouble
    try:
        connection = await Connection.open(host, port, client_id="headrace-doctor", timeout=timeout)
    except (Fault, TimeoutError) as fault:
        kind = await asyncio.to_thread(server_kind, host, port, timeout)
        if kind is ServerKind.TLS:
            return await _through_tls(host, port, timeout, protocol, security)
        if kind in (ServerKind.ZOOKEEPER, ServerKind.HTTP):
            return Finding(
                _NAME, State.FAIL, f"{where} is {kind.value}, not a Kafka broker",
                "name the port of a broker's listener, often 9092",
            )  # fmt: skip
        return Finding(
            _NAME, State.FAIL, f"{where} answers, but not as a Kafka broker does ({fault})",
            "check that the port is a broker's; a SASL listener refuses too",
        )  # fmt: skip
    served = len(connection.versions)
    await connection.close()
    if protocol in _ENCRYPTED:
        return Finding(
            _NAME, State.FAIL, f"{where} speaks plain text, the client is set to security.protocol={protocol}: its TLS "
            "handshake is cut off", f"set security.protocol={'SASL_' * protocol.startswith('SASL')}PLAINTEXT in the "
            "client, or use the port of an SSL listener",
        )  # fmt: skip
    return Finding(_NAME, State.OK, f"{where} is a Kafka broker with {counted(served, 'API')}")


async def _no_connection(host: str, port: int, timeout: float) -> Finding | None:
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().getaddrinfo(host, port)
    except (socket.gaierror, TimeoutError):
        return Finding(
            _NAME, State.FAIL, f"the name {host!r} is not known here", "check the spelling, DNS or /etc/hosts"
        )
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
    except TimeoutError:
        return Finding(
            _NAME, State.FAIL, f"{where} does not answer within {timeout:g} s",
            "check the address and whether a firewall drops the packets",
        )  # fmt: skip
    except OSError as error:
        return Finding(
            _NAME, State.FAIL, f"nothing listens on {where} ({error.strerror or error})",
            "start the broker (headrace start, headrace up) or check the port and its `listeners`",
        )  # fmt: skip
    return None


async def _through_tls(host: str, port: int, timeout: float, protocol: str, security: ClientSecurity | None) -> Finding:
    where = f"{host}:{port}"
    if security is not None and security.encrypted:
        try:
            connection = await Connection.open(
                host, port, client_id="headrace-doctor", timeout=timeout, security=security
            )
        except (Fault, TimeoutError) as fault:
            return Finding(_NAME, State.FAIL, str(fault), f"check the settings of security.protocol={protocol}")
        served = len(connection.versions)
        await connection.close()
        return Finding(_NAME, State.OK, f"{where} is a Kafka broker with {counted(served, 'API')}, through TLS")
    if protocol in _ENCRYPTED:
        return Finding(_NAME, State.WARN, f"{where} speaks TLS, as security.protocol={protocol} asks")
    return Finding(
        _NAME, State.FAIL, f"{where} speaks TLS, the client is set to security.protocol={protocol}",
        f"set security.protocol={'SASL_' * protocol.startswith('SASL')}SSL in the client, or use the port of a "
        "PLAINTEXT listener",
    )  # fmt: skip


async def advertised(client: ClusterClient) -> list[Finding]:
    """Checks the advertised addresses, which clients use after the first request."""
    name, findings = "advertised addresses", []
    nodes = sorted(client.metadata.nodes.values(), key=lambda n: n.id)
    for node in nodes:
        try:
            await client.connection(node.id)
        except (Fault, TimeoutError) as fault:
            findings.append(
                Finding(
                    name, State.FAIL,
                    f"broker {node.id} advertises {node.host}:{node.port}, not reachable from here ({fault})",
                    f"set advertised.listeners of broker {node.id} to an address that clients can reach; "
                    "the bootstrap address is only used for the first contact", about=("broker", str(node.id)),
                )
            )  # fmt: skip
    return findings or well(name, f"all reachable: {', '.join(f'{n.host}:{n.port}' for n in nodes)}")
