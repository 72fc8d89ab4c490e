"""Many records sent again, unchanged: dead letters to the topics they came from, or any records to a topic.

The bytes of key, value and headers stay as they are. Only the notes about the failure, headers that begin with
`headrace.`, are left out. The originals stay where they are.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from headrace.console.cluster.facts import Topic
from headrace.console.pages.messages import decoding_of
from headrace.console.protection import Rejected
from headrace.console.records import reading
from headrace.console.records.producing import send
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit
from headrace.kernel.errors import Refused
from headrace.kernel.plurals import counted
from headrace.records.builder import Record

MOST: Final = 500
_NOTES: Final = "headrace."
_ORIGIN: Final = "headrace.topic"
Place = tuple[int, int]


async def redrive(visit: Visit) -> View | Redirect:
    """POST only. Without `confirmed` it shows what would be sent."""
    form = await visit.form()
    topic = await visit.cluster.topic(visit.path("topic"))
    places = sorted({_place(text) for text in form.all("record")})
    if not places:
        raise Rejected(422, "choose at least one record")
    if len(places) > MOST:
        raise Rejected(422, f"{len(places)} records are chosen: at most {MOST} can be sent at a time")
    if not decoding_of(visit, topic.name).shows_bytes:
        raise Rejected(403, "this console hides or masks values of this topic, so it does not send them")
    records = await asyncio.to_thread(_read, visit, topic, places)
    target, error = form.text("target"), ""
    if form.text("confirmed"):
        try:
            return await _sent(visit, topic, records, target)
        except (Refused, Rejected) as fault:
            error = fault.message
    by_origin: dict[str, int] = {}
    for _, record in records:
        by_origin[_origin(record) or ""] = by_origin.get(_origin(record) or "", 0) + 1
    data = {
        "topic": topic.name, "places": [f"{partition}:{offset}" for partition, offset in places], "error": error,
        "count": len(records), "missing": len(places) - len(records), "target": target,
        "origins": sorted((name, number) for name, number in by_origin.items() if name),
        "without_origin": by_origin.get("", 0),
    }  # fmt: skip
    return View("redrive.html", f"Send {counted(len(records), 'record')} again", data, 422 if error else 200, "topics")


def _place(text: str) -> Place:
    partition, _, offset = text.partition(":")
    if not partition.isdecimal() or not offset.isdecimal() or len(text) > 40:
        raise Rejected(400, f"record {text!r}: must be PARTITION:OFFSET")
    return int(partition), int(offset)


def _read(visit: Visit, topic: Topic, places: list[Place]) -> list[tuple[Place, Record]]:
    with visit.cluster.blocking() as client:
        found = [(place, reading.read_one(client, topic.name, *place)) for place in places]
    return [(place, record) for place, record in found if record is not None]


def _origin(record: Record) -> str | None:
    value = next((value for name, value in record.headers if name == _ORIGIN), None)
    return None if value is None else value.decode(errors="replace")


async def _sent(visit: Visit, topic: Topic, records: list[tuple[Place, Record]], target: str) -> Redirect:
    names = {target or _origin(record) or "" for _, record in records}
    if "" in names:
        raise Rejected(422, "some records do not name the topic they came from: type the topic to send them to")
    targets = {name: await visit.cluster.topic(name) for name in names}

    def write() -> None:
        now_ms = int(time.time() * 1000)
        with visit.cluster.blocking() as client:
            for _, record in records:
                to = targets[target or _origin(record) or ""]
                headers = tuple(pair for pair in record.headers if not pair[0].startswith(_NOTES))
                copy = Record(record.key, record.value, headers, now_ms)
                send(client, to.name, None, len(to.partitions), copy)

    await asyncio.to_thread(write)
    where = ", ".join(sorted(targets))
    return visit.done(f"Sent {counted(len(records), 'record')} to {where}.", "topics", topic.name, "messages")
