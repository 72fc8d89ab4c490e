"""Demos: the latest picture of each, as `headrace demo` publishes it to the topic `__demos`."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.console.core.demo_panels import CHART_HEIGHT, CHART_WIDTH, MAP_SIZE, PanelView, panels, text_of
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Visit
from headrace.kernel.dataclass import dataclass

TOPIC: Final = "__demos"
_SETTINGS: Final = FetchSettings(stall_timeout_s=5, max_wait_ms=100)
# Pictures are published about once a second: the last minutes hold every demo that runs.
_LAST_RECORDS: Final = 300


@dataclass(frozen=True, slots=True)
class DemoView:
    name: str
    title: str
    state: str
    at_ms: int
    facts: tuple[tuple[str, str], ...]
    panels: list[PanelView]


async def demos(visit: Visit) -> View:
    if visit.settings.hides_values or visit.settings.masks:
        raise Rejected(403, "this console hides or masks values, and the pictures of demos show them")

    def read() -> dict[str, DemoView]:
        with visit.cluster.blocking() as client:
            return read_demos(client)

    found = await asyncio.to_thread(read)
    name = visit.query.get("name", "")
    newest = max(found.values(), key=lambda demo: demo.at_ms, default=None)
    data = {
        "names": sorted(found),
        "demo": found.get(name) if name else newest,
        "wanted": name,
        "chart_width": CHART_WIDTH,
        "chart_height": CHART_HEIGHT,
        "map_size": MAP_SIZE,
    }
    return View("demos.html", "Demos", data)


def read_demos(client: BlockingClient) -> dict[str, DemoView]:
    """The last picture of every demo; empty if none has published."""
    if TOPIC not in client.topics([TOPIC]):
        return {}
    start = client.list_offsets({(TOPIC, 0): EARLIEST})[TOPIC, 0]
    end = client.list_offsets({(TOPIC, 0): LATEST})[TOPIC, 0]
    start = max(start, end - _LAST_RECORDS)
    latest: dict[str, bytes | None] = {}
    for record in fetched_records(client, (TOPIC, 0), start, end, _SETTINGS):
        latest[(record.key or b"").decode(errors="replace")] = record.value
    found = {name: _view(name, value) for name, value in latest.items() if value is not None}
    return {name: view for name, view in found.items() if view is not None}


def _view(name: str, value: bytes) -> DemoView | None:
    try:
        found = json.loads(value)
        facts = tuple((str(fact), text_of(each)) for fact, each in found["facts"].items())
        return DemoView(
            name, str(found["title"]), str(found["state"]), int(found["at_ms"]), facts, panels(found["panels"])
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # other records in the topic are no pictures
