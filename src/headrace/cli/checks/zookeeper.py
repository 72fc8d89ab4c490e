"""Finds a ZooKeeper that is open: nodes without ACLs, connections without TLS, commands that show too much.

ZooKeeper holds the ACLs and the credentials of the cluster, so who can write there can do everything. The settings come
from a broker. The commands are asked from this machine: an ensemble that a firewall separates from it is not examined.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from headrace.cli.checks.findings import Finding, State, together, well
from headrace.client.cluster_client import ClusterClient
from headrace.config.listeners import is_loopback
from headrace.kernel.dataclass import dataclass
from headrace.wire.apis import ApiKey

_NAME: Final = "zookeeper"
_BROKER: Final = 4
_SETTINGS: Final = (
    "zookeeper.connect",
    "zookeeper.set.acl",
    "zookeeper.ssl.client.enable",
    "authorizer.class.name",
    "listener.security.protocol.map",
    "listeners",
)
# Commands that show addresses, sessions, paths or the configuration (CVE-2019-0201 and others start with these).
_TELLING: Final = ("envi", "conf", "dump", "cons", "wchp")
_ADMIN_PORT: Final = 8080
# The first release of each maintained line without these: a server joins the quorum without a login (CVE-2018-8012,
# CVE-2023-44981), a client forges its address at the admin server (CVE-2024-51504) or is not checked there
# (CVE-2025-58457), reverse DNS proves host names (CVE-2026-24281).
_SOUND_VERSIONS: Final = ((3, 8, 6), (3, 9, 5))
_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """One server of the ensemble, as this machine sees it."""

    address: str
    version: tuple[int, ...] | None = None
    telling: tuple[str, ...] = ()
    """Commands that it answers to every client."""
    has_admin_server: bool = False


async def zookeeper(client: ClusterClient) -> list[Finding]:
    """Empty for a standalone broker and for brokers that are not Headrace's."""
    settings = await _settings(client)
    connect = settings.get("zookeeper.connect")
    if not connect:
        return []
    addresses = [one.strip() for one in connect.partition("/")[0].split(",")]
    servers = await asyncio.gather(*(asyncio.to_thread(_look_at, address) for address in addresses))
    return judge(settings, servers)


def judge(settings: dict[str, str], servers: list[ZooKeeperServer]) -> list[Finding]:
    findings: list[Finding] = []
    hosts = [server.address.rpartition(":")[0].strip("[]") for server in servers]
    holds_credentials = bool(settings.get("authorizer.class.name")) or "SASL" in (
        settings.get("listener.security.protocol.map", "") + settings.get("listeners", "")
    )
    if holds_credentials and settings.get("zookeeper.set.acl") != "true":
        findings.append(
            Finding(
                _NAME,
                State.WARN,
                "zookeeper.set.acl=false: every client of ZooKeeper can read credentials and change ACLs",
                "set zookeeper.set.acl=true with zookeeper.digest.user and zookeeper.digest.password",
            )
        )
    if settings.get("zookeeper.ssl.client.enable") != "true" and not all(is_loopback(host) for host in hosts):
        findings.append(
            Finding(
                _NAME,
                State.WARN,
                "the brokers' connection to ZooKeeper is not encrypted",
                "set zookeeper.ssl.client.enable=true with zookeeper.ssl.truststore.location",
            )
        )
    for server in servers:
        findings += _of_server(server)
    return findings or well(_NAME, "its nodes, connections and commands are protected")


def _of_server(server: ZooKeeperServer) -> list[Finding]:
    findings = []
    if server.telling:
        commands = together(list(server.telling))
        remedy = "set 4lw.commands.whitelist=ruok,srvr in its configuration"
        findings.append(Finding(_NAME, State.WARN, f"{server.address} answers {commands} to every client", remedy))
    if server.has_admin_server:
        found = f"the admin server of {server.address} answers every client at port {_ADMIN_PORT}"
        findings.append(Finding(_NAME, State.WARN, found, "set admin.enableServer=false in its configuration"))
    if server.version is not None and not _is_sound(server.version):
        shown, *sound = (".".join(map(str, one)) for one in (server.version, *_SOUND_VERSIONS))
        found = f"{server.address} is ZooKeeper {shown}, which has known vulnerabilities"
        findings.append(Finding(_NAME, State.WARN, found, f"upgrade it to {' or '.join(sound)}"))
    return findings


def _is_sound(version: tuple[int, ...]) -> bool:
    same_line = [sound for sound in _SOUND_VERSIONS if sound[:2] == version[:2]]
    return version >= (same_line or [_SOUND_VERSIONS[-1]])[0]


async def _settings(client: ClusterClient) -> dict[str, str]:
    node = min(client.metadata.nodes)
    resource = {"resource_type": _BROKER, "resource_name": str(node), "configuration_keys": list(_SETTINGS)}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    [result] = (await client.request(ApiKey.DESCRIBE_CONFIGS, body, node=node)).results
    return {str(one.name): str(one.value) for one in result.configs or () if one.value is not None}


def _look_at(address: str) -> ZooKeeperServer:
    """Sends commands that change nothing. Blocks."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    found = re.search(r"Zookeeper version: (\d+)\.(\d+)\.(\d+)", _command(host, int(port), "srvr"))
    telling = tuple(word for word in _TELLING if _is_answered(_command(host, int(port), word)))
    version = None if found is None else tuple(int(part) for part in found.groups())
    # A service at this port is only ZooKeeper's if it knows the command.
    admin = found is not None and "zookeeper" in _http(host, "/commands/srvr").lower()
    return ZooKeeperServer(address, version, telling, admin)


def _is_answered(answer: str) -> bool:
    return bool(answer) and "not in the whitelist" not in answer and "not executed" not in answer


def _command(host: str, port: int, word: str) -> str:
    return _exchange(host, port, word.encode())


def _http(host: str, path: str) -> str:
    return _exchange(host, _ADMIN_PORT, f"GET {path} HTTP/1.0\r\n\r\n".encode())


def _exchange(host: str, port: int, request: bytes) -> str:
    import socket

    try:
        with socket.create_connection((host, port), _TIMEOUT_S) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(request)
            return connection.recv(65_536).decode(errors="replace")
    except OSError:
        return ""
