"""Finds groups whose lag grows, and the cause. Partitions of a group with the same cause are one finding."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.cli.checks.findings import Finding, State, well
from headrace.cli.facts.group_lag import Row, lag_rows
from headrace.cli.facts.group_positions import SHARE, describe_group
from headrace.cli.kafka_tools.support.group_view import Group, Listed, listed
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.plurals import counted

_NAME: Final = "lag"
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True)
class Growth:
    """The lag of one partition at two measurements."""

    before: Row
    after: Row
    lag_before: int
    lag_after: int

    @property
    def partition(self) -> str:
        return f"{self.after['topic']}-{self.after['partition']}"

    @property
    def written(self) -> int:
        return (self.after["end"] or 0) - (self.before["end"] or 0)

    @property
    def read(self) -> int:
        return self.written - (self.lag_after - self.lag_before)


@dataclass(frozen=True, slots=True)
class Reason:
    text: str
    remedy: str
    # Whether the consumer is slow. Then the finding compares the records that it read with the new records.
    is_slow: bool = False


async def lag(client: ClusterClient, watch_s: float) -> list[Finding]:
    """Measures lag twice, `watch_s` apart."""
    groups = await listed(client)
    before = {_key(row): row for row in await lag_rows(client, groups)}
    if not any(row["lag"] for row in before.values()):
        return well(_NAME, "no group is behind")
    await asyncio.sleep(watch_s)
    grown: dict[str, list[Growth]] = {}
    for row in await lag_rows(client, groups):
        was = before.get(_key(row))
        then, now = None if was is None else was["lag"], row["lag"]
        if was is not None and then is not None and now is not None and now > then:
            grown.setdefault(row["group"], []).append(Growth(was, row, then, now))
    findings: list[Finding] = []
    for group in groups:
        if group.id in grown:
            findings += await _of_group(client, group, grown[group.id], watch_s)
    behind = counted(sum(1 for row in before.values() if row["lag"]), "partition")
    return findings or well(_NAME, f"{behind} behind, none growing")


def _key(row: Row) -> tuple[str, str, int]:
    return row["group"], row["topic"], row["partition"]


async def _of_group(client: ClusterClient, group: Listed, grown: Sequence[Growth], watch_s: float) -> list[Finding]:
    found = await describe_group(client, group)
    reasons: dict[Reason, list[Growth]] = {}
    for growth in grown:
        partitions = len(client.metadata.topics[growth.after["topic"]].partitions)
        reason = (_why_share if group.type == SHARE else _why)(found, growth, partitions)
        reasons.setdefault(reason, []).append(growth)
    return [_finding(group.id, reason, some, watch_s) for reason, some in reasons.items()]


def _finding(group: str, reason: Reason, some: Sequence[Growth], watch_s: float) -> Finding:
    was, now = sum(growth.lag_before for growth in some), sum(growth.lag_after for growth in some)
    where = some[0].partition if len(some) == 1 else counted(len(some), "partition")
    why = reason.text
    if reason.is_slow:
        why += f" ({sum(growth.read for growth in some)} read, {sum(growth.written for growth in some)} written)"
    details = tuple(f"{each.partition}: {each.lag_before} → {each.lag_after}" for each in some)
    return Finding(
        _NAME, State.WARN, f"grows for {group} on {where}: {was} → {now} in {watch_s:g} s: {why}", reason.remedy,
        details if len(some) > 1 else (), about=("group", group),
    )  # fmt: skip


def _why(found: Group, growth: Growth, partitions: int) -> Reason:
    if not found.members:
        return Reason("the group has no members", "start its consumers")
    row = growth.after
    owners = [
        m for m in found.members if (row["topic"], row["partition"]) in {(p.topic, p.partition) for p in m.assigned}
    ]
    if not owners and found.state in REBALANCING:
        return Reason("the group is rebalancing, so its members read nothing", "see the finding on groups")
    if not owners:
        return Reason("no member has this partition", "look whether every member subscribes to the topic")
    who = f"{owners[0].client_id} at {owners[0].address}"
    if row["position"] == growth.before["position"]:
        return Reason(f"{who} commits nothing", "look whether it hangs on a record or no longer commits")
    if len(found.members) < partitions:
        remedy = (
            f"add consumers: up to {counted(partitions, 'member')} can share the work, there are {len(found.members)}"
        )
    else:
        remedy = f"make its work faster, or add partitions (headrace topics grow {row['topic']}) and then members"
    return Reason(f"{who} reads more slowly than records come", remedy, is_slow=True)


def _why_share(found: Group, growth: Growth, partitions: int) -> Reason:
    """The cause for a share group. Its members share partitions, so more members always help."""
    if not found.members:
        return Reason("the group has no members", "start its consumers")
    if growth.read == 0:
        return Reason("its members finish no records", "look whether they hang on records or do not acknowledge them")
    text = f"its {counted(len(found.members), 'member')} finish fewer records than come"
    return Reason(text, "add consumers, or make their work faster", is_slow=True)
