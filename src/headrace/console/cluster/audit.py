"""The newest denied requests, from the topic in which brokers keep them (`audit.topic`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Final

from headrace.console.cluster.cluster import Cluster
from headrace.console.records import reading
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.records.builder import Record

SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Denial:
    """`not_recorded`: so many further denials were counted only; the other fields are empty then."""

    at_ms: int
    principal: str = ""
    host: str = ""
    operation: str = ""
    resource: str = ""
    request: str = ""
    rule: str = ""
    not_recorded: int = 0


async def newest_denials(cluster: Cluster, name: str) -> tuple[Denial, ...]:
    """Newest first. Empty if the user may not read the topic: its own page says why."""
    topic = (await cluster.facts()).topics.get(name)
    if topic is None:
        return ()
    try:
        held = {one.partition: span for one, span in (await cluster.spans([topic])).items()}
        page = await asyncio.to_thread(_read, cluster, name, held)
    except Fault:
        return ()
    return tuple(denials(record for _, record in page.records))


def _read(cluster: Cluster, name: str, held: reading.Spans) -> reading.RecordPage:
    with cluster.blocking() as client:
        return reading.newest(client, name, held, {}, SHOWN)


def denials(records: Iterable[Record]) -> list[Denial]:
    """Records that others wrote into the topic are skipped."""
    found = []
    for record in records:
        try:
            told = json.loads(record.value or b"")
        except ValueError:
            continue
        if not isinstance(told, dict):
            continue
        lost = told.get("not_recorded", 0)
        words = [str(told.get(name, "")) for name in ("principal", "host", "operation", "request", "rule")]
        principal, host, operation, request, rule = words
        if not principal and not (isinstance(lost, int) and lost > 0):
            continue
        kind = str(told.get("resource_type", "")).lower().replace("_", " ")
        resource = f"{kind} {told.get('resource_name', '')}".strip()
        count = lost if isinstance(lost, int) else 0
        found.append(Denial(record.timestamp_ms, principal, host, operation, resource, request, rule, count))
    return found
