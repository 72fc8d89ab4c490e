"""What the doctor looks at. Each check gives findings: what was seen, and what to do about it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from headrace.cli.cluster import disk_rows, unhealthy_partitions
from headrace.cli.connecting import existing_topics
from headrace.cli.kafka_tools.group_view import described, listed
from headrace.cli.lag import lag_rows
from headrace.cli.output import size_text
from headrace.cli.transactions import transaction_rows
from headrace.client.cluster_client import ClusterClient, parse_bootstrap
from headrace.client.connection import Connection
from headrace.client.offsets import MAX_TIMESTAMP, list_offsets
from headrace.kernel.errors import Fault

DESCRIBE_CONFIGS: Final = 32
_NEARLY_FULL: Final = 0.10
_SKEW_MS: Final = 60_000
_OPEN_LONG_MS: Final = 15 * 60_000
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: State
    found: str
    remedy: str | None = None

    def document(self) -> dict[str, Any]:
        return {"check": self.check, "state": self.state.value, "found": self.found, "do": self.remedy}


def _ok(check: str, found: str) -> list[Finding]:
    return [Finding(check, State.OK, found)]


async def examine(address: str, *, timeout: float, watch_s: float) -> list[Finding]:
    """Every check in order; what needs a connection is left out when there is none."""
    findings = []
    reached = False
    for host, port in parse_bootstrap(address):
        finding = await _reach(host, port, timeout)
        findings.append(finding)
        reached = reached or finding.state is State.OK
    if not reached:
        return findings
    checks: list[Callable[[ClusterClient], Awaitable[list[Finding]]]] = [
        advertised, replicas, disks, clocks, groups, transactions,
    ]  # fmt: skip
    try:
        async with ClusterClient(address, client_id="headrace-doctor", timeout=timeout) as client:
            for check in checks:
                try:
                    findings += await check(client)
                except (Fault, TimeoutError) as error:
                    findings.append(Finding(check.__name__, State.FAIL, str(error) or "no answer", None))
            findings += await lag(client, watch_s)
    except (Fault, TimeoutError) as error:
        findings.append(Finding("metadata", State.FAIL, str(error) or "no answer within the time-out"))
    return findings


async def _reach(host: str, port: int, timeout: float) -> Finding:
    """The address as given: name, port, and whether a Kafka broker speaks plain text there."""
    name, where = "bootstrap", f"{host}:{port}"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            await loop.getaddrinfo(host, port)
    except (socket.gaierror, TimeoutError):
        return Finding(
            name, State.FAIL, f"the name {host!r} is not known here", "check the spelling, DNS or /etc/hosts"
        )
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
    except TimeoutError:
        return Finding(
            name, State.FAIL, f"{where} does not answer within {timeout:g} s",
            "check the address and whether a firewall drops the packets",
        )  # fmt: skip
    except OSError as error:
        return Finding(
            name, State.FAIL, f"nothing listens on {where} ({error.strerror or error})",
            "start the broker (headrace start, headrace up) or check the port and its `listeners`",
        )  # fmt: skip
    try:
        connection = await Connection.open(host, port, client_id="headrace-doctor", timeout=timeout)
    except (Fault, TimeoutError) as fault:
        if await _speaks_tls(host, port, timeout):
            return Finding(
                name, State.FAIL, f"{where} speaks TLS, not plain text",
                "set security.protocol=SSL (or SASL_SSL) in the client, or use the PLAINTEXT listener's port",
            )  # fmt: skip
        return Finding(
            name, State.FAIL, f"{where} answers, but not as a Kafka broker does ({fault})",
            "check that the port is a broker's: 2181 is ZooKeeper's, 8080 a web server's; a SASL listener also refuses",
        )  # fmt: skip
    served = len(connection.versions)
    await connection.close()
    return Finding(name, State.OK, f"{where} is a Kafka broker with {served} APIs")


async def _speaks_tls(host: str, port: int, timeout: float) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.close()
    except ssl.SSLError as error:
        # A server that asks for a client's certificate speaks TLS too; one that does not speak it gives garbage.
        return "CERTIFICATE" in str(error).upper()
    except (OSError, TimeoutError):
        return False
    return True


async def advertised(client: ClusterClient) -> list[Finding]:
    """What clients are sent to after the first contact."""
    name, findings = "advertised addresses", []
    for node in sorted(client.metadata.nodes.values(), key=lambda n: n.id):
        where = f"{node.host}:{node.port}"
        try:
            await client.connection(node.id)
        except (Fault, TimeoutError) as fault:
            findings.append(
                Finding(
                    name, State.FAIL, f"broker {node.id} advertises {where}, not reachable from here ({fault})",
                    f"set advertised.listeners of broker {node.id} to an address that clients can reach; "
                    "the bootstrap address is only used for the first contact",
                )
            )  # fmt: skip
    where = ", ".join(f"{n.host}:{n.port}" for n in client.metadata.nodes.values())
    return findings or _ok(name, f"all reachable: {where}")


async def replicas(client: ClusterClient) -> list[Finding]:
    findings = []
    topics = {str(t.name): t for t in await existing_topics(client, None)}
    least = await _min_isr(client, list(topics))
    for row in await unhealthy_partitions(client):
        name, missing = row["partition"], ", ".join(map(str, row["missing"]))
        wanted = least.get(name.rpartition("-")[0], 1)
        gone = sorted(set(row["missing"]) - set(client.metadata.nodes))
        down = f"start broker {', '.join(map(str, gone))}" if gone else f"look at the log and disk of broker {missing}"
        if row["state"] == "offline":
            findings.append(Finding("replicas", State.FAIL, f"{name} has no leader: its replicas {row['replicas']} are "
                                    "all gone", down))  # fmt: skip
        elif len(row["isr"]) < wanted:
            findings.append(
                Finding(
                    "replicas", State.FAIL,
                    f"{name} has {len(row['isr'])} in-sync replicas, min.insync.replicas is {wanted}: "
                    f"acks=all is refused; missing {missing}", down,
                )
            )  # fmt: skip
        else:
            findings.append(Finding("replicas", State.WARN, f"{name} lacks the in-sync replicas {missing}", down))
    for name, topic in topics.items():
        factor = min((len(p.replica_nodes) for p in topic.partitions), default=0)
        if factor < least.get(name, 1):
            findings.append(
                Finding(
                    "replicas", State.FAIL,
                    f"{name} has {factor} replicas and asks for {least[name]} in sync: acks=all can never succeed",
                    f"headrace configs set topic/{name} min.insync.replicas={max(1, factor)}, or give it more replicas",
                )
            )  # fmt: skip
    total = sum(len(t.partitions) for t in topics.values())
    return findings or _ok("replicas", f"{total} partitions, all in sync")


async def _min_isr(client: ClusterClient, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    keys = ["min.insync.replicas"]
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": keys} for name in names]
    body = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    answer = await client.request(DESCRIBE_CONFIGS, body)
    return {str(r.resource_name): int(r.configs[0].value) for r in answer.results if r.configs}


async def disks(client: ClusterClient) -> list[Finding]:
    findings, seen = [], 0
    for row in await disk_rows(client):
        seen += 1
        where = f"{row['directory']} of broker {row['broker']}"
        if row["error"]:
            findings.append(
                Finding("disks", State.FAIL, f"{where} is offline ({row['error']})", "look at the disk, then restart")
            )
        elif row["total"] and row["free"] is not None and row["free"] < row["total"] * _NEARLY_FULL:
            share = 100 * row["free"] // row["total"]
            state = State.FAIL if share < 2 else State.WARN
            findings.append(
                Finding(
                    "disks", state, f"{where} is nearly full: {size_text(row['free'])} free ({share} %)",
                    "shorten retention (headrace configs set topic/NAME retention.ms=…), delete topics, or add a disk",
                )
            )  # fmt: skip
    return findings or _ok("disks", f"{seen} log directories with room")


async def clocks(client: ClusterClient) -> list[Finding]:
    """The newest record of each partition must not be of the future, which is what a wrong clock makes."""
    names = [str(t.name) for t in await existing_topics(client, None)]
    if not names:
        return _ok("clocks", "no records to compare with")
    leaders = await client.leaders(names)
    found = await list_offsets(client, dict.fromkeys(leaders, MAX_TIMESTAMP), leaders)
    now_ms = int(time.time() * 1000)
    ahead = {
        p: answer.timestamp_ms - now_ms
        for p, answer in found.items()
        if not isinstance(answer, Fault) and answer.timestamp_ms - now_ms > _SKEW_MS
    }
    if not ahead:
        return _ok("clocks", "no record is ahead of this machine's clock")
    worst = max(ahead, key=lambda p: ahead[p])
    return [
        Finding(
            "clocks", State.WARN, f"{len(ahead)} partitions hold records of the future; {worst} by "
            f"{ahead[worst] / 1000:.0f} s", "set the clocks by NTP on this machine, the brokers and the producers; "
            "retention by time waits for records of the future",
        )
    ]  # fmt: skip


async def groups(client: ClusterClient) -> list[Finding]:
    findings, seen = [], 0
    for group in await listed(client):
        seen += 1
        if group.state not in _REBALANCING:
            continue
        found = await described(client, group.id, missing_is_empty=True)
        hosts = sorted({f"{m.client_id} at {m.host}" for m in found.members})
        findings.append(
            Finding(
                "groups", State.WARN, f"{group.id} is rebalancing ({found.state}) with {len(found.members)} members"
                f"{': ' + ', '.join(hosts) if hosts else ''}",
                "a member joined, left or was thrown out: if it goes on, raise max.poll.interval.ms (slow work between "
                "polls) or session.timeout.ms (pauses), give members a group.instance.id, use group.protocol=consumer",
            )
        )  # fmt: skip
    return findings or _ok("groups", f"{seen} groups, none rebalancing")


async def transactions(client: ClusterClient) -> list[Finding]:
    old = [row for row in await transaction_rows(client, _OPEN_LONG_MS) if row["state"] == "Ongoing"]
    return [
        Finding(
            "transactions", State.WARN, f"{row['transactional_id']} is open for more than 15 minutes: readers of "
            "committed records wait behind it", f"headrace transactions end {row['transactional_id']}",
        )
        for row in old
    ] or _ok("transactions", "none open for long")  # fmt: skip


async def lag(client: ClusterClient, watch_s: float) -> list[Finding]:
    names = [group.id for group in await listed(client) if group.type != "Share"]
    before = {(r["group"], r["topic"], r["partition"]): r for r in await lag_rows(client, names)}
    if not any(row["lag"] for row in before.values()):
        return _ok("lag", "no group is behind")
    await asyncio.sleep(watch_s)
    findings = []
    for row in await lag_rows(client, names):
        was = before.get((row["group"], row["topic"], row["partition"]))
        if was is None or row["lag"] is None or was["lag"] is None or row["lag"] <= was["lag"]:
            continue
        found = await described(client, row["group"], missing_is_empty=True)
        where = f"{row['group']} on {row['topic']}-{row['partition']}: {was['lag']} → {row['lag']} in {watch_s:g} s"
        why, remedy = _why(found, row, was, client)
        findings.append(Finding("lag", State.WARN, f"grows for {where}: {why}", remedy))
    behind = sum(1 for row in before.values() if row["lag"])
    return findings or _ok("lag", f"{behind} partitions behind, none growing")


def _why(found: Any, row: dict[str, Any], was: dict[str, Any], client: ClusterClient) -> tuple[str, str]:
    if not found.members:
        return "the group has no members", "start its consumers"
    if row["position"] == was["position"]:
        return "its consumer commits nothing", "look whether it hangs on a record or no longer commits"
    partitions = len(client.metadata.topics[row["topic"]].partitions)
    if len(found.members) < partitions:
        more = f"up to {partitions} members can share the work"
        return "it reads more slowly than records come", f"add consumers: {more}, there are {len(found.members)}"
    return (
        "it reads more slowly than records come",
        f"add partitions: headrace topics grow {row['topic']}, then members",
    )
