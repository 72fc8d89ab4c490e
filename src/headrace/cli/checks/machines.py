"""Checks for disks that are nearly full and clocks that differ."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headrace.cli.checks.findings import Finding, State, well
from headrace.cli.cluster import disk_rows
from headrace.cli.support.connection import existing_topics
from headrace.cli.support.output import size_text
from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import MAX_TIMESTAMP, list_offsets
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.metadata import MetadataResponseTopic

# Leases, retention and time-outs tolerate a difference of a second. A minute puts records into another day.
_SKEW_MS: Final = 2_000
_RECORDS_AHEAD_MS: Final = 60_000
_ALMOST_FULL_PERCENT: Final = 2


async def disks(client: ClusterClient, min_free_percent: float) -> list[Finding]:
    findings, seen = [], 0
    for row in await disk_rows(client):
        seen += 1
        where = f"{row['directory']} of broker {row['broker']}"
        if row["error"]:
            findings.append(
                Finding(
                    "disks",
                    State.FAIL,
                    f"{where} is offline ({row['error']})",
                    "look at the disk, then restart",
                    about=("broker", str(row["broker"])),
                )
            )
        elif row["total"] and row["free"] is not None and 100 * row["free"] < row["total"] * min_free_percent:
            share = 100 * row["free"] // row["total"]
            state = State.FAIL if share < _ALMOST_FULL_PERCENT else State.WARN
            findings.append(
                Finding(
                    "disks", state, f"{where} is nearly full: {size_text(row['free'])} of {size_text(row['total'])} "
                    f"free ({share} %), the log holds {size_text(row['held'])}",
                    "shorten retention (headrace configs set topic/NAME retention.ms=…), delete topics, or add a disk",
                    about=("disk", str(row["broker"])),
                )
            )  # fmt: skip
    return findings or well("disks", f"{counted(seen, 'log directory', 'log directories')} with room")


async def clocks(client: ClusterClient) -> list[Finding]:
    """Compares each broker's clock with this machine's. Also finds records with a timestamp in the future."""
    topics = await existing_topics(client, None)
    findings = await _broker_clocks(client, topics)
    if not topics:
        return findings or well("clocks", "no records to compare with")
    leaders = await client.leaders([str(t.name) for t in topics])
    newest = await list_offsets(client, dict.fromkeys(leaders, MAX_TIMESTAMP), leaders)
    now_ms = int(time.time() * 1000)
    ahead = {
        p: answer.timestamp_ms - now_ms
        for p, answer in newest.items()
        if not isinstance(answer, Fault) and answer.timestamp_ms - now_ms > _RECORDS_AHEAD_MS
    }
    if ahead:
        worst = max(ahead, key=lambda p: ahead[p])
        findings.append(
            Finding(
                "clocks", State.WARN, f"records of the future in {counted(len(ahead), 'partition')}; {worst} by "
                f"{ahead[worst] / 1000:.0f} s", "set the clocks by NTP on this machine, the brokers and the producers; "
                "retention by time waits for records of the future", about=("topic", worst.topic),
            )
        )  # fmt: skip
    return findings or well("clocks", "brokers and records agree with this machine's clock")


async def _broker_clocks(client: ClusterClient, topics: list[MetadataResponseTopic]) -> list[Finding]:
    """Reads a broker's time from its DescribeQuorum answer, which only leaders give. Other brokers are skipped."""
    led = {int(p.leader_id): (str(t.name), int(p.partition_index)) for t in topics for p in t.partitions}
    findings = []
    for broker, (topic, index) in sorted(led.items()):
        body = {"topics": [{"topic_name": topic, "partitions": [{"partition_index": index}]}]}
        asked_ms = time.time() * 1000
        try:
            answer = await client.request(ApiKey.DESCRIBE_QUORUM, body, node=broker)
        except (Fault, TimeoutError):
            continue
        answered_ms = time.time() * 1000
        states = [s for t in answer.topics for p in t.partitions for s in (*p.current_voters, *p.observers)]
        theirs_ms = next((int(s.last_caught_up_timestamp) for s in states if int(s.replica_id) == broker), -1)
        # The broker read its clock between our two readings, so only a time outside of them is a difference.
        skew_ms = max(theirs_ms - answered_ms, 0) or min(theirs_ms - asked_ms, 0)
        if theirs_ms > 0 and abs(skew_ms) > _SKEW_MS:
            findings.append(
                Finding(
                    "clocks", State.WARN, f"the clock of broker {broker} is {abs(skew_ms) / 1000:.0f} s "
                    f"{'ahead of' if skew_ms > 0 else 'behind'} this machine's",
                    "set both clocks by NTP: times of records, retention and `--from '10 minutes ago'` go by them",
                )
            )  # fmt: skip
    return findings
