"""Runs all checks of the doctor in order. Without a connection it skips the checks that need one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from headrace.cli.checks.certificates import certificates
from headrace.cli.checks.findings import Finding, State
from headrace.cli.checks.groups import groups, transactions
from headrace.cli.checks.lag import lag
from headrace.cli.checks.machines import clocks, disks
from headrace.cli.checks.reach import advertised, reach
from headrace.cli.checks.replicas import replicas
from headrace.cli.checks.strays import strays
from headrace.cli.checks.zookeeper import zookeeper
from headrace.cli.support.client_settings import security_in
from headrace.client.cluster_client import ClusterClient, parse_bootstrap
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Fault

__all__ = ["CheckLimits", "Finding", "State", "examine", "examine_as"]


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Limits that the user has set for the checks."""

    timeout_s: float
    watch_s: float
    min_free_percent: float


async def examine(address: str, limits: CheckLimits, settings: Mapping[str, str]) -> list[Finding]:
    """`settings`: client settings with `security.protocol` and the settings that it needs."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    try:
        security = security_in(settings)
    except Fault as fault:
        wrong = [Finding("client settings", State.FAIL, fault.message)]
        return wrong + await examine_as(address, limits, None, settings, protocol)
    return await examine_as(address, limits, security, settings, protocol)


async def examine_as(
    address: str,
    limits: CheckLimits,
    security: ClientSecurity | None,
    settings: Mapping[str, str] | None,
    protocol: str,
    left_out: Collection[str] = (),
) -> list[Finding]:
    """With the rights of `security`. Without `settings`, what needs librdkafka is not read. `left_out`: names of
    checks."""
    findings: list[Finding] = []
    reached = False
    for host, port in parse_bootstrap(address):
        finding = await reach(host, port, limits.timeout_s, protocol, security)
        findings.append(finding)
        reached = reached or finding.state is State.OK
    if not reached:
        return findings
    try:
        async with ClusterClient(
            address, client_id="headrace-doctor", timeout=limits.timeout_s, security=security
        ) as client:
            checks: dict[str, Callable[[], Awaitable[list[Finding]]]] = {
                "advertised addresses": lambda: advertised(client),
                "certificates": lambda: certificates(client),
                "zookeeper": lambda: zookeeper(client),
                "replicas": lambda: replicas(client),
                "disks": lambda: disks(client, limits.min_free_percent),
                "strays": lambda: strays(client),
                "clocks": lambda: clocks(client),
                "groups": lambda: groups(client, address, settings),
                "transactions": lambda: transactions(client),
                "lag": lambda: lag(client, limits.watch_s),
            }
            for name, check in checks.items():
                if name in left_out:
                    continue
                try:
                    findings += await check()
                except (Fault, TimeoutError) as error:
                    findings.append(Finding(name, State.FAIL, str(error) or "no answer within the time-out"))
    except (Fault, TimeoutError) as error:
        findings.append(Finding("metadata", State.FAIL, str(error) or "no answer within the time-out"))
    return findings
