"""Records of a topic: pages newest first or from a place, one record, search, live tail, export."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from starlette.responses import Response, StreamingResponse

from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import MAX_TIMESTAMP
from headrace.console.cluster.facts import Topic
from headrace.console.cluster.offsets import ends, spans
from headrace.console.pages.chosen_schema import chosen_schema, offered_subjects
from headrace.console.pages.searches import saved_searches
from headrace.console.protection import Rejected
from headrace.console.records import reading
from headrace.console.records.decoding import Decoding
from headrace.console.records.positions import parse_positions, positions_text
from headrace.console.records.search import PLACES, CelFilter, Filter, Step, TextFilter, search_step
from headrace.console.records.tail import Tail
from headrace.console.rendering import View, environment
from headrace.console.visit import Visit
from headrace.kernel.errors import Fault
from headrace.records.builder import Record
from headrace.serialization.schema import RegisteredSchema

PAGE_RECORDS: Final = 50
_BUCKETS: Final = 30
_VOLUME_MS: Final = 3_600_000
_MOST_VOLUME_PARTITIONS: Final = 64


def decoding_of(visit: Visit, topic: str, schema: RegisteredSchema | None = None) -> Decoding:
    settings = visit.settings
    return Decoding(topic, visit.cluster.decoder, settings.masks, hides_values=settings.hides_values, schema=schema)


async def chosen_spans(visit: Visit, topic: Topic) -> dict[int, tuple[int, int]]:
    """First offset and end of the partitions that the address chooses."""
    wanted = visit.query.get("partition", "")
    found = await spans(visit.cluster.client, [topic])
    return {
        partition.partition: span
        for partition, span in sorted(found.items())
        if not wanted or str(partition.partition) == wanted
    }


async def messages(visit: Visit) -> View:
    topic = await visit.cluster.topic(visit.path("topic"))
    held = await chosen_spans(visit, topic)
    place = visit.query.get("from", "newest")
    starts = await chosen_starts(visit, topic, place, held)
    page, volume, searches, subjects, schema = await asyncio.gather(
        asyncio.to_thread(_read_page, visit, topic.name, held, starts), _volume(visit, topic),
        saved_searches(visit, topic.name), offered_subjects(visit, topic.name), chosen_schema(visit),
    )  # fmt: skip
    decoding = decoding_of(visit, topic.name, schema)
    records = await asyncio.to_thread(lambda: [decoding.record(*one) for one in page.records])
    return View(
        "messages.html",
        f"{topic.name}: messages",
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "partition": visit.query.get("partition", ""),
            "from": place,
            "records": records,
            "total": sum(end - first for first, end in held.values()),
            "next": None if page.is_last else positions_text(page.positions),
            "newest_first": starts is None,
            "volume": volume,
            "places": PLACES,
            "searches": searches,
            "subjects": subjects,
            "shows_bytes": decoding.shows_bytes,
        },
        section="topics",
    )


async def chosen_starts(
    visit: Visit, topic: Topic, place: str, held: Mapping[int, tuple[int, int]]
) -> dict[int, int] | None:
    """Where a page that reads forward begins; None for the newest first. Raises Rejected."""
    if place == "newest":
        return None
    if visit.query.get("at"):
        return parse_positions(visit.query["at"])
    if place == "oldest":
        return {partition: first for partition, (first, _) in held.items()}
    if place == "offset":
        offset = visit.query.get("offset", "")
        if not offset.isdecimal() or len(offset) > 19:
            raise Rejected(400, f"offset {offset!r}: must be a whole number")
        return dict.fromkeys(held, int(offset))
    if place == "time":
        found = await ends(visit.cluster.client, [topic], milliseconds(visit.query.get("time", "")))
        offsets = {partition.partition: offset for partition, offset in found.items()}
        # -1: every record of the partition is older.
        return {partition: offsets.get(partition, -1) if offsets.get(partition, -1) >= 0 else end
                for partition, (_, end) in held.items()}  # fmt: skip
    raise Rejected(400, f"from {place!r}: must be newest, oldest, offset or time")


def milliseconds(text: str) -> int:
    """A time of a form (`2026-01-31T12:00`, in UTC) or with its own zone. Raises Rejected."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise Rejected(400, f"time {text!r}: must be like 2026-01-31T12:00 (UTC)") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _read_page(
    visit: Visit, topic: str, held: Mapping[int, tuple[int, int]], starts: dict[int, int] | None
) -> reading.RecordPage:
    with visit.cluster.blocking() as client:
        if starts is None:
            before = parse_positions(visit.query.get("at", ""))
            return reading.newest(client, topic, held, before, PAGE_RECORDS)
        return reading.forward(client, topic, held, starts, PAGE_RECORDS)


async def _volume(visit: Visit, topic: Topic) -> dict[str, list[float]]:
    """Records in each part of the last hour that has records, from the index of timestamps."""
    nothing: dict[str, list[float]] = {"times": [], "values": []}
    if len(topic.partitions) > _MOST_VOLUME_PARTITIONS or visit.query.get("at"):
        return nothing
    client = visit.cluster.client
    latest = await ends(client, [topic])
    newest = [offset for offset in (await ends(client, [topic], MAX_TIMESTAMP)).values() if offset >= 0]
    if not newest:
        return nothing
    end_ms = int(time.time() * 1000)
    edges = [end_ms - _VOLUME_MS + n * _VOLUME_MS // _BUCKETS for n in range(_BUCKETS + 1)]
    answers = await asyncio.gather(*(ends(client, [topic], edge) for edge in edges))
    sums = [
        sum(offset if offset >= 0 else latest.get(partition, 0) for partition, offset in answer.items())
        for answer in answers
    ]
    if sums[0] == sum(latest.values()):
        return nothing
    counts: list[float] = [max(0, after - before) for before, after in pairwise(sums)]
    return {"times": [edge / 1000 for edge in edges[:-1]], "values": counts}


async def record(visit: Visit) -> View:
    found, decoding = await _one(visit)
    topic, partition = visit.path("topic"), int(visit.path("partition"))
    return View(
        "record.html",
        f"{topic}-{partition} at {found.offset}",
        {
            "topic": topic,
            "record": await asyncio.to_thread(decoding.record, partition, found),
            "subjects": await offered_subjects(visit, topic),
            "shows_bytes": decoding.shows_bytes,
            "key_hex": _hex_dump(found.key) if decoding.shows_bytes else "",
            "value_hex": _hex_dump(found.value) if decoding.shows_bytes else "",
        },
        section="topics",
    )


def _range(first: int, end: int) -> str:
    return f"it holds offsets {first} to {end - 1}" if first < end else "it is empty"


async def _one(visit: Visit) -> tuple[Record, Decoding]:
    topic, partition, offset = visit.path("topic"), int(visit.path("partition")), int(visit.path("offset"))
    known = await visit.cluster.topic(topic)
    held = {p.partition: span for p, span in (await spans(visit.cluster.client, [known])).items()}
    if partition not in held:
        raise Rejected(404, f"topic {topic!r} has no partition {partition} that can be read: it has {len(held)}")
    first, end = held[partition]
    found = None
    if first <= offset < end:
        with visit.cluster.blocking() as client:
            found = await asyncio.to_thread(reading.read_one, client, topic, partition, offset)
    if found is None:
        raise Rejected(404, f"partition {topic}-{partition} has no record at offset {offset}: {_range(first, end)}")
    return found, decoding_of(visit, topic, await chosen_schema(visit))


def _hex_dump(data: bytes | None, most: int = 4096) -> str:
    """Sixteen bytes a line, with their characters."""
    lines = []
    for at in range(0, min(len(data or b""), most), 16):
        part = (data or b"")[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {text}")
    if data is not None and len(data) > most:
        lines.append(f"… {len(data) - most} more bytes: download them")
    return "\n".join(lines)


async def raw(visit: Visit) -> Response:
    """The bytes of the key or value as a file."""
    found, decoding = await _one(visit)
    if not decoding.shows_bytes:
        raise Rejected(403, "raw bytes are not shown: this console hides or masks values of this topic")
    part = visit.path("part")
    if part not in ("key", "value"):
        raise Rejected(404, f"{part!r}: must be key or value")
    data = found.key if part == "key" else found.value
    name = f"{visit.path('topic')}-{visit.path('partition')}-{found.offset}.{part}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(data or b"", media_type="application/octet-stream", headers=headers)


async def search(visit: Visit) -> View:
    topic = await visit.cluster.topic(visit.path("topic"))
    decoding = decoding_of(visit, topic.name, await chosen_schema(visit))
    text, expression, place = visit.query.get("q", ""), visit.query.get("cel", ""), visit.query.get("in", "anywhere")
    if not text and not expression:
        raise Rejected(400, "a search needs a text or a CEL expression")
    if decoding.hides_values:
        raise Rejected(403, "this console hides keys and values, so it does not search them")
    if place not in PLACES:
        raise Rejected(400, f"in {place!r}: must be {', '.join(PLACES)}")
    held = await chosen_spans(visit, topic)
    until = parse_positions(visit.query.get("until", "")) or {number: end for number, (_, end) in held.items()}
    positions = parse_positions(visit.query.get("at", "")) or {number: first for number, (first, _) in held.items()}
    starts = {number: max(offset, held[number][0]) for number, offset in positions.items() if number in held}
    wanted: Filter = CelFilter(expression, decoding) if expression else TextFilter(text, place, decoding)

    def step() -> Step:
        with visit.cluster.blocking() as client:
            return search_step(client, decoding, wanted, starts, until)

    found = await asyncio.to_thread(step)
    earlier = int(visit.query.get("scanned", "0")) if visit.query.get("scanned", "0").isdecimal() else 0
    matched = int(visit.query.get("matched", "0")) if visit.query.get("matched", "0").isdecimal() else 0
    scope = sum(max(0, end - held.get(number, (0, 0))[0]) for number, end in until.items())
    left = sum(max(0, end - found.positions.get(number, 0)) for number, end in until.items())
    query = {
        "q": text, "cel": expression, "in": place if place != "anywhere" else "",
        "partition": visit.query.get("partition", ""), "schema": visit.query.get("schema", ""),
        "at": positions_text(found.positions),
        "until": positions_text(until), "scanned": earlier + found.scanned, "matched": matched + len(found.matches),
    }  # fmt: skip
    return View(
        "search.html",
        f"{topic.name}: search",
        {
            "topic": topic.name,
            "text": text,
            "expression": expression,
            "place": place,
            "places": PLACES,
            "records": found.matches,
            "scanned": earlier + found.scanned,
            "matched": matched + len(found.matches),
            "rate": found.scanned / found.elapsed_s if found.elapsed_s > 0 else 0.0,
            "percent": 100 if not scope else 100 - 100 * left // scope,
            "done": found.is_done,
            "positions": found.positions,
            "resume": None if found.is_done else visit.url("topics", topic.name, "search", **query),
        },
        section="topics",
    )


async def tail(visit: Visit) -> View | Response:
    """The page of a live tail; as server-sent events, the rows themselves."""
    topic = await visit.cluster.topic(visit.path("topic"))
    if "text/event-stream" not in visit.request.headers.get("accept", ""):
        await chosen_schema(visit)  # so that the page names a wrong one
        return View("tail.html", f"{topic.name}: live", {"topic": topic.name}, section="topics")
    held = await chosen_spans(visit, topic)
    leaders = {p.index: p.leader for p in topic.partitions if p.leader is not None and p.index in held}
    own = ClusterClient(
        visit.cluster.address.brokers.bootstrap, client_id="headrace-console", timeout=visit.cluster.client.timeout,
        security=visit.cluster.client.security,
    )  # fmt: skip
    decoding = decoding_of(visit, topic.name, await chosen_schema(visit))
    follower = Tail(own, decoding, leaders, {number: held[number][1] for number in leaders})
    rows = environment().get_template("record_rows.html")

    async def events() -> AsyncIterator[str]:
        yield _event("state", "following")
        try:
            async for arrived in follower.arriving():
                if arrived is None:
                    yield ": still here\n\n"
                    continue
                markup = rows.render(
                    records=arrived.records,
                    left_out=arrived.left_out,
                    topic=topic.name,
                    url=visit.url,
                    query=visit.query,
                )
                yield _event("records", markup)
        except Fault as fault:
            yield _event("state", f"stopped: {fault.message or fault.code.name}")

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


def _event(name: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() if line.strip())
    return f"event: {name}\n{lines}\n"
