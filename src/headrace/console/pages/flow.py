"""The flow of records through the cluster: producers, topics, groups, Spark flows, and what flows write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from starlette.responses import Response

from headrace.console.cluster.facts import ClusterFacts
from headrace.console.cluster.pipelines import Flow
from headrace.console.cluster.producers import Producer
from headrace.console.core import formats
from headrace.console.core.lineage import (
    BOX_HEIGHT,
    BOX_WIDTH,
    FLOW,
    GROUP,
    ORIGIN,
    PRODUCER,
    TARGET,
    TOPIC,
    Key,
    Link,
    lineage,
)
from headrace.console.pages.pipelines import flows_of
from headrace.console.rendering import View, environment
from headrace.console.visit import Visit

ZOOMS: Final = (100, 150, 200)
UNKNOWN: Final = "programs without a producer id"
# Sinks of pipelines write with transactional ids that begin so. The flow is in the picture already.
_SINKS: Final = ("spark-", "mirror-", "headrace-")
# A saved picture has no style sheet beside it.
_STYLE: Final = (
    "text{font:14px sans-serif;fill:#182125}.small{font-size:12px;fill:#566268}"
    "path{fill:none;stroke:#566268;opacity:.55}"
    "rect{fill:#f1f4f4;stroke:#dfe4e5}.topic rect{fill:#e2f1f1}.flow rect{fill:#e3f3e9}"
    ".target rect,.origin rect{fill:#fdf1da}.failed rect{fill:#fce8e6;stroke:#a6231b}"
)


async def flow(visit: Visit) -> View | Response:
    facts, samples = await visit.cluster.facts(), visit.cluster.samples
    flows = await flows_of(visit)
    text, shows_internal = visit.query.get("q", "").lower(), visit.query.get("internal") == "1"
    topics = {name for name, topic in facts.topics.items() if shows_internal or not topic.internal}
    links: list[Link] = []
    notes: dict[Key, str] = {}
    for name, committed in (await visit.cluster.committed(list(facts.groups.values()))).items():
        if name in flows:
            continue
        read = {partition.topic for partition in committed if partition.topic in topics}
        links += [Link((TOPIC, topic), (GROUP, name), samples.read_rate(name, topic)) for topic in read]
        lag = samples.last_lag(name)
        notes[GROUP, name] = "" if lag is None else f"lag {formats.number(lag)}"
    for name, one in flows.items():
        links += _links_of_flow(name, one, facts, topics)
        notes[FLOW, name] = _note(one)
    if text:
        links = _around(links, text)
    read_or_written = {key[1] for link in links for key in (link.source, link.target) if key[0] == TOPIC}
    wanted = read_or_written | {name for name in topics if not text or text in name.lower()}
    producers = await visit.cluster.producers.of(visit.cluster.client, [facts.topics[name] for name in wanted])
    rates = {name: rate for name in topics if (rate := samples.rate_of(name)) is not None}
    links += links_of_producers(producers, flows, rates, wanted)
    notes |= {(TOPIC, name): f"{formats.rate(rate)}/s" for name, rate in rates.items() if rate}
    picture = lineage(links, notes)
    wanted_zoom = visit.query.get("zoom", "")
    data: dict[str, object] = {
        "picture": picture, "box_width": BOX_WIDTH, "box_height": BOX_HEIGHT, "style": "", "zooms": ZOOMS,
        "zoom": int(wanted_zoom) if wanted_zoom in map(str, ZOOMS) else ZOOMS[0], "unknown": UNKNOWN,
    }  # fmt: skip
    if visit.query.get("format") == "svg":
        template = environment().get_template("flow_picture.html")
        drawn = template.render(**{**data, "style": _STYLE}, url=visit.url)
        headers = {"content-disposition": f'attachment; filename="{visit.cluster.name}-flow.svg"'}
        return Response(drawn, media_type="image/svg+xml", headers=headers)
    return View("flow.html", "Flow", data, section="flow")


def _note(one: Flow) -> str:
    lag = one.last.lag if one.last.batch_id >= 0 else None
    return one.last.state if lag is None else f"{one.last.state}, lag {formats.number(lag)}"


def _links_of_flow(name: str, one: Flow, facts: ClusterFacts, topics: Iterable[str]) -> list[Link]:
    last, known = one.last, frozenset(topics)
    is_running = last.state == "running"
    sources = [topic for topic in one.topics if topic in known]
    # A flow reports one rate for all that it reads.
    read = last.input_rate if is_running else 0.0
    links = [Link((TOPIC, topic), (FLOW, name), read if len(sources) == 1 else None) for topic in sources]
    links += [Link((ORIGIN, f"{place.kind} {place.name}"), (FLOW, name), read) for place in last.origins]
    if last.target is not None and (last.target.kind != "topic" or last.target.name in facts.topics):
        is_topic = last.target.kind == "topic"
        target = (TOPIC, last.target.name) if is_topic else (TARGET, f"{last.target.kind} {last.target.name}")
        links.append(Link((FLOW, name), target, written_rate(one) if is_running else 0.0))
    letters = [topic for topic in sources if f"{topic}.dlq" in facts.topics]
    if last.dead_letters:
        links += [Link((FLOW, name), (TOPIC, f"{topic}.dlq"), None) for topic in letters]
    return links


def written_rate(one: Flow) -> float | None:
    """Rows a second that the flow wrote between its last reports."""
    reports = one.reports[-10:]
    first, last = reports[0], reports[-1]
    if last.at_ms <= first.at_ms or last.written_rows < first.written_rows:
        return None
    return (last.written_rows - first.written_rows) * 1000 / (last.at_ms - first.at_ms)


def _around(links: list[Link], text: str) -> list[Link]:
    """The way of the records through everything whose name has the text: what leads to it and what it leads to, over
    any number of steps."""
    matching = {key for link in links for key in (link.source, link.target) if text in key[1].lower()}
    after, before = set(matching), set(matching)
    # At most as many rounds as links: each adds a part or is the last.
    for _ in links:
        added = {link.target for link in links if link.source in after} - after
        led = {link.source for link in links if link.target in before} - before
        if not added and not led:
            break
        after |= added
        before |= led
    return [link for link in links if link.source in after or link.target in before]


def links_of_producers(
    producers: list[Producer], flows: Mapping[str, Flow], rates: Mapping[str, float], topics: Iterable[str]
) -> list[Link]:
    own = (*_SINKS, *(f"{one.pipeline}" for one in flows.values()))
    written = {one.last.target.name for one in flows.values() if one.last.target is not None}
    links: list[Link] = []
    known: dict[str, float] = {}
    for one in producers:
        known[one.topic] = known.get(one.topic, 0.0) + (one.rate or 0.0)
        if not (one.is_transactional and one.topic in written and one.name.startswith(own)):
            links.append(Link((PRODUCER, one.name), (TOPIC, one.topic), one.rate))
    for topic in topics:
        rest = rates.get(topic, 0.0) - known.get(topic, 0.0)
        if topic not in written and topic not in known and rest >= 0.1:
            links.append(Link((PRODUCER, UNKNOWN), (TOPIC, topic), rest))
    return links
