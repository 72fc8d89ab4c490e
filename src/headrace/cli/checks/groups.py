"""Why a group rebalances, why lag grows, transactions left open."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from headrace.cli.checks.findings import Finding, State, since, well
from headrace.cli.checks.history import Generation, change, generations, tails
from headrace.cli.group_positions import describe_group
from headrace.cli.kafka_tools.group_view import Group, Listed, described, listed
from headrace.cli.lag import lag_rows
from headrace.cli.transactions import transaction_rows
from headrace.client.cluster_client import ClusterClient

_OPEN_LONG_MS: Final = 15 * 60_000
_RECENT_MS: Final = 10 * 60_000
# One rebalance for each member that starts is as it should be; more than this in ten minutes is not.
_OFTEN: Final = 4
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_STEADIER: Final = (
    "raise max.poll.interval.ms (slow work between polls) or session.timeout.ms (pauses), give members a "
    "group.instance.id, or use group.protocol=consumer, which moves only what must move"
)


async def groups(client: ClusterClient, address: str) -> list[Finding]:
    """Groups that rebalance now, and those that did it often of late."""
    known = [group for group in await listed(client) if group.type != "Share"]
    classic = [group.id for group in known if group.type == "Classic" and group.protocol_type in ("consumer", "")]
    spans = await tails(client, classic)
    written = await asyncio.to_thread(generations, address, spans) if spans else {}
    findings = []
    for group in known:
        finding = await _moving(client, group, written.get(group.id, []))
        if finding is not None:
            findings.append(finding)
    return findings or well("groups", f"{len(known)} groups, none rebalancing")


async def _moving(client: ClusterClient, group: Listed, written: list[Generation]) -> Finding | None:
    now_ms = int(time.time() * 1000)
    recent = [at for at, g in enumerate(written) if at and now_ms - g.at_ms < _RECENT_MS and _is_new(written, at)]
    rebalancing = group.state in _REBALANCING
    if not rebalancing and len(recent) < _OFTEN:
        return None
    found = await described(client, group.id, missing_is_empty=True)
    parts = [f"{group.id} is rebalancing ({found.state}, {len(found.members)} members)" if rebalancing else group.id]
    if rebalancing:
        parts.append(_waits_for(found, written))
    if recent:
        parts.append(f"it rebalanced {len(recent)} times in the last 10 minutes" if rebalancing else
                     f"rebalanced {len(recent)} times in the last 10 minutes")  # fmt: skip
    why, remedy = _last_change(written, recent, now_ms)
    parts.append(why)
    joined = "; ".join(part for part in parts[1:] if part)
    return Finding("groups", State.WARN, f"{parts[0]}{': ' if rebalancing else ' '}{joined}", remedy)


def _is_new(written: list[Generation], at: int) -> bool:
    return written[at].number != written[at - 1].number


def _waits_for(group: Group, written: list[Generation]) -> str:
    """Who holds it up."""
    holding = []
    for member in group.members:
        if member.target is None:
            continue
        if too_many := sorted(set(member.assigned) - set(member.target)):
            names = ", ".join(map(str, too_many))
            holding.append(f"{member.client_id} at {member.host.lstrip('/')} has yet to give up {names}")
    if holding:
        return "; ".join(holding)
    if group.state == "PreparingRebalance" and written:
        patience_s = written[-1].rebalance_timeout_ms / 1000
        known = ", ".join(sorted(written[-1].members.values())) or "nobody"
        return (
            f"it waits up to {patience_s:g} s (the members' max.poll.interval.ms) until each member polls and joins "
            f"again; before, it had {known}"
        )
    return "its members have yet to take their share"


def _last_change(written: list[Generation], recent: list[int], now_ms: int) -> tuple[str, str]:
    if not recent:
        return "", f"if it goes on: {_STEADIER}"
    last = recent[-1]
    came, went = change(written[last - 1], written[last])
    when = f"the last at {since(written[last].at_ms, now_ms)}"
    if went and came and {name.split(" at ")[0] for name in went} & {name.split(" at ")[0] for name in came}:
        return f"{when}, because {', '.join(went)} left and came again", f"it restarts or is thrown out: {_STEADIER}"
    if went:
        return f"{when}, because {', '.join(went)} left", f"if it was not stopped on purpose: {_STEADIER}"
    if came:
        return f"{when}, because {', '.join(came)} joined", f"it ends when all members have started; else {_STEADIER}"
    return (
        f"{when}, with the same members: one asked for it, or the topics changed",
        f"look whether partitions or subscriptions change; else {_STEADIER}",
    )


async def transactions(client: ClusterClient) -> list[Finding]:
    old = [row for row in await transaction_rows(client, _OPEN_LONG_MS) if row["state"] == "Ongoing"]
    return [
        Finding(
            "transactions", State.WARN, f"{row['transactional_id']} is open for more than 15 minutes: readers of "
            "committed records wait behind it", f"headrace transactions end {row['transactional_id']}",
        )
        for row in old
    ] or well("transactions", "none open for long")  # fmt: skip


async def lag(client: ClusterClient, watch_s: float) -> list[Finding]:
    """Two looks, `watch_s` apart."""
    known = {group.id: group for group in await listed(client)}
    before = {(r["group"], r["topic"], r["partition"]): r for r in await lag_rows(client, list(known.values()))}
    if not any(row["lag"] for row in before.values()):
        return well("lag", "no group is behind")
    await asyncio.sleep(watch_s)
    findings = []
    for row in await lag_rows(client, list(known.values())):
        was = before.get((row["group"], row["topic"], row["partition"]))
        if was is None or row["lag"] is None or was["lag"] is None or row["lag"] <= was["lag"]:
            continue
        found = await describe_group(client, known[row["group"]])
        where = f"{row['group']} on {row['topic']}-{row['partition']}: {was['lag']} → {row['lag']} in {watch_s:g} s"
        why, remedy = _why(found, row, was, client)
        findings.append(Finding("lag", State.WARN, f"grows for {where}: {why}", remedy))
    behind = sum(1 for row in before.values() if row["lag"])
    return findings or well("lag", f"{behind} partitions behind, none growing")


def _why(found: Group, row: dict[str, Any], was: dict[str, Any], client: ClusterClient) -> tuple[str, str]:
    if not found.members:
        return "the group has no members", "start its consumers"
    owners = [
        m for m in found.members if (row["topic"], row["partition"]) in {(p.topic, p.partition) for p in m.assigned}
    ]
    if not owners and found.state in _REBALANCING:
        return "the group is rebalancing, nobody reads", "see the finding on groups"
    if not owners:
        return "no member has this partition", "look whether every member subscribes to the topic"
    who = f"{owners[0].client_id} at {owners[0].host.lstrip('/')}"
    if row["position"] == was["position"]:
        return f"{who} commits nothing", "look whether it hangs on a record or no longer commits"
    grown = (row["end"] or 0) - (was["end"] or 0)
    read = grown - (row["lag"] - was["lag"])
    pace = f"{who} reads more slowly than records come ({read} read, {grown} written)"
    partitions = len(client.metadata.topics[row["topic"]].partitions)
    if len(found.members) < partitions:
        return pace, f"add consumers: up to {partitions} members can share the work, there are {len(found.members)}"
    return pace, f"make its work faster, or add partitions (headrace topics grow {row['topic']}) and then members"
