"""The topic `__demos`: the latest picture of every demo. The page /demos of the web console shows it.

The topic is compacted. A record has the name of the demo as its key. Its value is JSON: `demo`, `title`, `at_ms`,
`state` (running, equal, different, stopped), `facts` and `panels` (see `picture`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import write_records
from headrace.demos.picture import Cell, Picture, document
from headrace.records.builder import Record

TOPIC: Final = "__demos"
_EVERY_S: Final = 1.0
_LARGEST_BYTES: Final = 500_000


class DemoTopic:
    """Publishes about once a second, and at every change of the state."""

    def __init__(self, client: BlockingClient, demo: str, title: str) -> None:
        self._client, self._demo, self._title = client, demo, title
        self._state, self._at, self._shown = "", 0.0, b""
        client.create_topic(TOPIC, 1, configs={"cleanup.policy": "compact", "segment.ms": "600000"})

    def publish(self, state: str, facts: Mapping[str, Cell], shown: Picture) -> None:
        if state == self._state and time.monotonic() - self._at < _EVERY_S:
            return
        content = json.dumps(
            {
                "demo": self._demo,
                "title": self._title,
                "state": state,
                "facts": dict(facts),
                "panels": document(shown),
            }
        ).encode()
        self._state, self._at = state, time.monotonic()
        if content == self._shown or len(content) > _LARGEST_BYTES:
            return
        self._shown = content
        now_ms = int(time.time() * 1000)
        value = content[:-1] + b', "at_ms": %d}' % now_ms
        write_records(self._client, (TOPIC, 0), [Record(self._demo.encode(), value, timestamp_ms=now_ms)])
