"""The flow of records through the cluster: topics, and the groups and Spark flows that read them."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from headrace.console.cluster.offsets import committed_by_group
from headrace.console.core import formats
from headrace.console.core.lineage import BOX_HEIGHT, BOX_WIDTH, WIDTH, lineage
from headrace.console.pages.pipelines import flows_of
from headrace.console.rendering import View, environment
from headrace.console.visit import Visit

ZOOMS: Final = (100, 150, 200)
# A saved picture has no style sheet beside it.
_STYLE: Final = (
    "text{font:14px sans-serif;fill:#182125}.small{font-size:13px;fill:#566268}"
    "path{fill:none;stroke:#566268;opacity:.55}"
    "rect{fill:#f1f4f4;stroke:#dfe4e5}.topic rect{fill:#e2f1f1}.flow rect{fill:#e3f3e9}"
)


async def flow(visit: Visit) -> View | Response:
    facts, samples = await visit.cluster.facts(), visit.cluster.samples
    flows = await flows_of(visit)
    text = visit.query.get("q", "").lower()
    readers: dict[tuple[str, str], set[str]] = {}
    notes: dict[str, str] = {}
    for name, committed in (await committed_by_group(visit.cluster.client, facts.groups.values())).items():
        topics = {partition.topic for partition in committed if partition.topic in facts.topics}
        readers["flow" if name in flows else "group", name] = topics
        lag = samples.last_lag(name)
        notes[name] = "" if lag is None else f"lag {formats.number(lag)}"
    for name, one in flows.items():
        readers.setdefault(("flow", name), set()).update(topic for topic in one.topics if topic in facts.topics)
    if text:
        readers = {
            reader: topics
            for reader, topics in readers.items()
            if text in reader[1].lower() or any(text in topic.lower() for topic in topics)
        }
    rates = {name: rate for name in facts.topics if (rate := samples.rate_of(name)) is not None}
    data: dict[str, object] = {
        "picture": lineage(readers, notes, rates), "width": WIDTH, "box_width": BOX_WIDTH, "box_height": BOX_HEIGHT,
    }  # fmt: skip
    wanted = visit.query.get("zoom", "")
    data |= {"zoom": int(wanted) if wanted in map(str, ZOOMS) else ZOOMS[0], "zooms": ZOOMS, "style": ""}
    if visit.query.get("format") == "svg":
        template = environment().get_template("flow_picture.html")
        text = template.render(**{**data, "style": _STYLE}, url=visit.url)
        headers = {"content-disposition": f'attachment; filename="{visit.cluster.name}-flow.svg"'}
        return Response(text, media_type="image/svg+xml", headers=headers)
    return View("flow.html", "Flow", data, section="flow")
