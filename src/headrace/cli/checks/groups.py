"""Checks for groups that rebalance often and for transactions that stay open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from headrace.cli.checks.findings import Finding, State, since, well
from headrace.cli.checks.history import Generation, change, generations, tails
from headrace.cli.checks.lag import REBALANCING
from headrace.cli.kafka_tools.support.group_view import Group, Listed, described, listed
from headrace.cli.transactions import transaction_rows
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.plurals import counted

_OPEN_LONG_MS: Final = 15 * 60_000
_RECENT_MS: Final = 10 * 60_000
# One rebalance for each member that starts is normal. More than this in ten minutes is not.
_MANY_REBALANCES: Final = 4
_REMEDY: Final = (
    "raise max.poll.interval.ms (slow work between polls) or session.timeout.ms (pauses), give members a "
    "group.instance.id, or use group.protocol=consumer, which moves only what must move"
)


async def groups(client: ClusterClient, address: str, settings: Mapping[str, str] | None) -> list[Finding]:
    """Finds groups that are rebalancing now or rebalanced often in the last ten minutes. Without settings of the client
    it does not read what happened before."""
    known = [group for group in await listed(client) if group.type != "Share"]
    classic = [group.id for group in known if group.type == "Classic" and group.protocol_type in ("consumer", "")]
    spans = await tails(client, classic) if settings is not None else {}
    written = await asyncio.to_thread(generations, address, spans, settings) if spans and settings is not None else {}
    findings = []
    for group in known:
        finding = await _rebalance_finding(client, group, written.get(group.id, []))
        if finding is not None:
            findings.append(finding)
    return findings or well("groups", f"{counted(len(known), 'group')}, none rebalancing")


async def _rebalance_finding(client: ClusterClient, group: Listed, written: list[Generation]) -> Finding | None:
    now_ms = int(time.time() * 1000)
    recent = [at for at, g in enumerate(written) if at and now_ms - g.at_ms < _RECENT_MS and _is_new(written, at)]
    rebalancing = group.state in REBALANCING
    if not rebalancing and len(recent) < _MANY_REBALANCES:
        return None
    found = await described(client, group.id, missing_is_empty=True)
    parts = [
        f"{group.id} is rebalancing ({found.state}, {counted(len(found.members), 'member')})"
        if rebalancing
        else group.id
    ]
    if rebalancing:
        parts.append(_waits_for(found, written))
    if recent:
        parts.append(f"it rebalanced {len(recent)} times in the last 10 minutes" if rebalancing else
                     f"rebalanced {len(recent)} times in the last 10 minutes")  # fmt: skip
    why, remedy = _last_change(written, recent, now_ms)
    parts.append(why)
    joined = "; ".join(part for part in parts[1:] if part)
    return Finding(
        "groups", State.WARN, f"{parts[0]}{': ' if rebalancing else ' '}{joined}", remedy, about=("group", group.id)
    )


def _is_new(written: list[Generation], at: int) -> bool:
    return written[at].number != written[at - 1].number


def _waits_for(group: Group, written: list[Generation]) -> str:
    """The members that the rebalance waits for."""
    holding = []
    for member in group.members:
        if member.target is None:
            continue
        if too_many := sorted(set(member.assigned) - set(member.target)):
            names = ", ".join(map(str, too_many))
            holding.append(f"{member.client_id} at {member.address} has yet to give up {names}")
    if holding:
        return "; ".join(holding)
    if group.state == "PreparingRebalance" and written:
        patience_s = written[-1].rebalance_timeout_ms / 1000
        known = ", ".join(sorted(written[-1].members.values())) or "no members"
        return (
            f"it waits up to {patience_s:g} s (the members' max.poll.interval.ms) until each member polls and joins "
            f"again; before, it had {known}"
        )
    return "its members have yet to take their share"


def _last_change(written: list[Generation], recent: list[int], now_ms: int) -> tuple[str, str]:
    if not recent:
        return "", f"if it goes on: {_REMEDY}"
    last = recent[-1]
    came, went = change(written[last - 1], written[last])
    when = f"the last at {since(written[last].at_ms, now_ms)}"
    if went and came and {name.split(" at ")[0] for name in went} & {name.split(" at ")[0] for name in came}:
        return (
            f"{when}, because {', '.join(went)} left and came again",
            f"it restarts or is thrown out: {_REMEDY}",
        )
    if went:
        return f"{when}, because {', '.join(went)} left", f"if it was not stopped on purpose: {_REMEDY}"
    if came:
        return (
            f"{when}, because {', '.join(came)} joined",
            f"it ends when all members have started; else {_REMEDY}",
        )
    return (
        f"{when}, with the same members: one asked for it, or the topics changed",
        f"look whether partitions or subscriptions change; else {_REMEDY}",
    )


async def transactions(client: ClusterClient) -> list[Finding]:
    old = [row for row in await transaction_rows(client, _OPEN_LONG_MS) if row["state"] == "Ongoing"]
    return [
        Finding(
            "transactions", State.WARN, f"{row['transactional_id']} is open for more than 15 minutes: readers of "
            "committed records wait behind it", f"headrace transactions end {row['transactional_id']}",
            about=("transaction", str(row["transactional_id"])),
        )
        for row in old
    ] or well("transactions", "none open for long")  # fmt: skip
