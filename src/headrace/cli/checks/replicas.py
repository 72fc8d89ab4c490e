"""Partitions without a leader or with too few in-sync replicas: which replicas are missing, since when, what to do.

Since when is known to the leader, which answers DescribeQuorum for its partitions. Kafka's brokers do not answer that
for an ordinary partition; then the finding says which, and no time.
"""

from __future__ import annotations

import time
from typing import Any, Final

from headrace.cli.checks.findings import Finding, State, since, well
from headrace.cli.cluster import unhealthy_partitions
from headrace.cli.connecting import existing_topics
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import Fault
from headrace.wire.apis import ApiKey

_NAME: Final = "replicas"


async def replicas(client: ClusterClient) -> list[Finding]:
    findings = []
    topics = {str(t.name): t for t in await existing_topics(client, None)}
    least = await _min_isr(client, list(topics))
    for row in await unhealthy_partitions(client):
        findings.append(await _lacking(client, row, least.get(row["partition"].rpartition("-")[0], 1)))
    for name, topic in topics.items():
        factor = min((len(p.replica_nodes) for p in topic.partitions), default=0)
        if factor < least.get(name, 1):
            findings.append(
                Finding(
                    _NAME, State.FAIL,
                    f"{name} has {factor} replicas and asks for {least[name]} in sync: acks=all can never succeed",
                    f"headrace configs set topic/{name} min.insync.replicas={max(1, factor)}, or give it more replicas",
                )
            )  # fmt: skip
    total = sum(len(t.partitions) for t in topics.values())
    return findings or well(_NAME, f"{total} partitions, all in sync")


async def _lacking(client: ClusterClient, row: dict[str, Any], wanted: int) -> Finding:
    """One partition that is not as it should be."""
    name, missing = row["partition"], ", ".join(map(str, row["missing"]))
    gone = sorted(set(row["missing"]) - set(client.metadata.nodes))
    down = f"start broker {', '.join(map(str, gone))}" if gone else f"look at the log and disk of broker {missing}"
    if row["state"] == "offline":
        return Finding(_NAME, State.FAIL, f"{name} has no leader: its replicas {row['replicas']} are all gone", down)
    told = await _since_when(client, row)
    out = "; ".join(f"broker {broker} is out of sync{told.get(broker, '')}" for broker in row["missing"])
    if len(row["isr"]) < wanted:
        count = f"{len(row['isr'])} in-sync replica{'' if len(row['isr']) == 1 else 's'}"
        found = f"{name} has {count}, min.insync.replicas is {wanted}, so acks=all is refused: {out}"
        return Finding(_NAME, State.FAIL, found, down)
    return Finding(_NAME, State.WARN, f"{name} lacks in-sync replicas: {out}", down)


async def _since_when(client: ClusterClient, row: dict[str, Any]) -> dict[int, str]:
    """By broker: ` since 03:11:05 (2 minutes ago), 17 records behind`; nothing where the leader does not tell."""
    topic, _, index = row["partition"].rpartition("-")
    body = {"topics": [{"topic_name": topic, "partitions": [{"partition_index": int(index)}]}]}
    try:
        answer = await client.request(ApiKey.DESCRIBE_QUORUM, body, node=row["leader"])
    except (Fault, TimeoutError):
        return {}
    found = answer.topics[0].partitions[0] if not answer.error_code and answer.topics else None
    if found is None or found.error_code:
        return {}
    now_ms = int(time.time() * 1000)
    states = {int(state.replica_id): state for state in (*found.current_voters, *found.observers)}
    leader = states[row["leader"]]
    told = {}
    for broker in row["missing"]:
        state = states.get(broker)
        if state is None:
            continue
        if state.last_caught_up_timestamp > 0:
            told[broker] = f" since {since(int(state.last_caught_up_timestamp), now_ms)}"
        else:
            began = since(int(leader.last_fetch_timestamp), now_ms)
            told[broker] = f" at least since broker {row['leader']} took the lead at {began}"
        if state.log_end_offset >= 0:
            told[broker] += f", {max(0, leader.log_end_offset - state.log_end_offset)} records behind"
    return told


async def _min_isr(client: ClusterClient, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    keys = ["min.insync.replicas"]
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": keys} for name in names]
    body = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    answer = await client.request(ApiKey.DESCRIBE_CONFIGS, body)
    return {str(r.resource_name): int(r.configs[0].value) for r in answer.results if r.configs}
