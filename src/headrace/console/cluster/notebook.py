"""What the console remembers in the cluster: JSON documents in the compacted topic `__console`.

A document has a key such as `search/orders/big ones`. The last record of a key counts, a tombstone deletes it. So a
restart loses nothing and several consoles agree. Blocking code; pages run it in threads. The console has the rights of
its user: without the right to the topic, nothing is remembered and the pages go on.
"""

from __future__ import annotations

import json
import time
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import write_records
from headrace.kernel.json_values import JsonObject
from headrace.records.builder import Record

TOPIC: Final = "__console"
_PLACE: Final = (TOPIC, 0)
_SETTINGS: Final = FetchSettings(stall_timeout_s=5, max_wait_ms=100)
# Lag history is written often; compaction soon removes what is replaced.
_CONFIGS: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", "segment.ms": "3600000"}


def read(client: BlockingClient, prefix: str) -> dict[str, JsonObject]:
    """Documents whose key begins with the prefix. Raises Fault."""
    if TOPIC not in client.topics([TOPIC]):
        return {}
    start = client.list_offsets({_PLACE: EARLIEST})[_PLACE]
    end = client.list_offsets({_PLACE: LATEST})[_PLACE]
    found: dict[str, JsonObject] = {}
    for record in fetched_records(client, _PLACE, start, end, _SETTINGS):
        key = (record.key or b"").decode(errors="replace")
        if not key.startswith(prefix):
            continue
        found.pop(key, None)
        try:
            value = None if record.value is None else json.loads(record.value)
        except ValueError:
            continue  # not written by a console
        if isinstance(value, dict):
            found[key] = value
    return found


def write(client: BlockingClient, key: str, document: JsonObject | None) -> None:
    """None deletes the document. Creates the topic when it is first needed. Raises Fault."""
    if TOPIC not in client.topics([TOPIC]):
        client.create_topic(TOPIC, 1, configs=_CONFIGS)
    value = None if document is None else json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    write_records(client, _PLACE, [Record(key.encode(), value, (), int(time.time() * 1000))])
