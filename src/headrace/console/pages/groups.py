"""Groups: the list with lag, one group, reset of its offsets with a preview, deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.console.cluster import groups as wire
from headrace.console.cluster.facts import ListedGroup
from headrace.console.cluster.offsets import committed_by_group, lag_of
from headrace.console.cluster.rebalances import history
from headrace.console.confirmation import confirmation
from headrace.console.core.listing import Listing, Wanted, listing
from headrace.console.pages.messages import milliseconds
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted

# A running member would overwrite a reset with its next commit.
EMPTY_STATES: Final = ("Empty", "Dead")
WAYS: Final = ("earliest", "latest", "offset", "shift", "time")


@dataclass(frozen=True, slots=True)
class GroupRow:
    id: str
    type: str
    state: str
    protocol: str
    lag: int | None
    topics: int | None = None


async def groups(visit: Visit) -> View:
    facts, samples = await visit.cluster.facts(), visit.cluster.samples
    state = visit.query.get("state", "")
    # Ten thousand groups: rows are made for the shown page only.
    chosen = [group for group in facts.groups.values() if not state or group.state == state]
    columns: Mapping[str, Callable[[ListedGroup], object]] = {
        "lag": lambda group: samples.last_lag(group.id),
        "type": lambda group: group.type,
        "state": lambda group: group.state,
    }
    page = listing(chosen, Wanted.of(visit.query, "name"), columns, lambda group: group.id)
    # The lag of the shown rows is measured now: one request to each coordinator and each leader.
    committed = await visit.cluster.committed(page.rows)
    names = {partition.topic for positions in committed.values() for partition in positions}
    held = await visit.cluster.spans([facts.topics[name] for name in names if name in facts.topics])
    by_topic: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
    for partition, span in held.items():
        by_topic.setdefault(partition.topic, {})[partition] = span
    shown = []
    for row in page.rows:
        positions = committed.get(row.id, {})
        topics = {partition.topic for partition in positions}
        own = {p: s for topic in topics for p, s in by_topic.get(topic, {}).items()}
        lag = lag_of(positions, own) if row.type != wire.SHARE else samples.last_lag(row.id)
        shown.append(GroupRow(row.id, row.type, row.state, row.protocol, lag, len(topics)))
    data = {
        "groups": Listing(shown, page.total, page.page, page.pages, page.wanted),
        "states": facts.group_states,
        "exist": bool(facts.groups),
    }
    return View("groups.html", "Groups", data, section="groups")


async def _group(visit: Visit) -> ListedGroup:
    name = visit.query.get("id", "")
    facts = await visit.cluster.facts()
    found = facts.groups.get(name) or (await visit.cluster.facts(fresh=True)).groups.get(name)
    if found is None:
        raise Refused(ErrorCode.group_id_not_found, f"group {name!r} does not exist")
    return found


async def _positions(visit: Visit, group: ListedGroup) -> tuple[wire.Description, list[wire.Position]]:
    described = await wire.describe(visit.cluster.client, group)
    facts = await visit.cluster.facts()
    return described, await wire.positions(visit.cluster.client, facts, group, described.members)


async def group(visit: Visit) -> View:
    found = await _group(visit)
    described, positions = await _positions(visit, found)
    rebalances = await history(visit.cluster, found.id, described.members)
    series = visit.cluster.samples.lag.get(found.id)
    times, values = series.columns() if series is not None else ([], [])
    lags = [row.lag for row in positions if row.lag is not None]
    data = {
        "group": found, "description": described, "positions": positions, "lag": sum(lags) if lags else None,
        "history": {"times": times, "values": values}, "can_reset": described.state in EMPTY_STATES,
        "rebalances": rebalances,
    }  # fmt: skip
    return View("group.html", found.id, data, section="groups")


async def reset_group(visit: Visit) -> View | Redirect:
    found = await _group(visit)
    described, positions = await _positions(visit, found)
    if described.state not in EMPTY_STATES:
        members = counted(len(described.members), "member")
        raise Rejected(
            409, f"group {found.id} is {described.state} with {members}: stop them, or they overwrite the reset"
        )
    fields: Mapping[str, str] = visit.query
    if visit.submitted:
        form = await visit.form()
        fields = {name: form.text(name) for name in ("way", "value", "time", "topic", *_explicit_names(positions))}
    topic = fields.get("topic", "")
    chosen = [row for row in positions if not topic or row.topic == topic]
    way = fields.get("way", "")
    plan, error = {}, ""
    if way:
        try:
            plan = await _targets(visit, chosen, way, fields)
        except Rejected as fault:
            error = fault.message
    if visit.submitted and plan and not error:
        exact = {
            partition: int(text)
            for partition in plan
            if (text := fields.get(f"to {partition.topic} {partition.partition}", "")).isdecimal()
        }
        await wire.move(visit.cluster.client, found, {**plan, **exact})
        return visit.done(f"Moved {found.id} in {counted(len(plan), 'partition')}.", "group", id=found.id)
    rows = [(row, plan.get(TopicPartition(row.topic, row.partition))) for row in chosen]
    data = {
        "group": found.id, "way": way, "value": fields.get("value", ""), "time": fields.get("time", ""),
        "topic": topic, "topics": sorted({row.topic for row in positions}), "rows": rows, "ways": WAYS, "error": error,
        "planned": bool(plan), "replayed": _replayed(rows), "skipped": _skipped(rows),
    }  # fmt: skip
    return View("group_reset.html", f"Reset {found.id}", data, 422 if error else 200, "groups")


def _explicit_names(positions: list[wire.Position]) -> list[str]:
    return [f"to {row.topic} {row.partition}" for row in positions]


async def _targets(
    visit: Visit, rows: list[wire.Position], way: str, fields: Mapping[str, str]
) -> dict[TopicPartition, int]:
    if way not in WAYS:
        raise Rejected(400, f"way {way!r}: must be {', '.join(WAYS)}")
    value = 0
    if way == "time":
        value = milliseconds(fields.get("time", ""))
    elif way in ("offset", "shift"):
        try:
            value = int(fields.get("value", ""))
        except ValueError:
            raise Rejected(422, f"{way} {fields.get('value', '')!r}: must be a whole number") from None
    return await wire.targets(visit.cluster.client, await visit.cluster.facts(), rows, way, value)


def _replayed(rows: list[tuple[wire.Position, int | None]]) -> int:
    return sum(
        max(0, (row.offset if row.offset is not None else 0) - to)
        for row, to in rows
        if to is not None and row.offset is not None
    )


def _skipped(rows: list[tuple[wire.Position, int | None]]) -> int:
    return sum(
        max(0, to - (row.offset if row.offset is not None else row.first or 0)) for row, to in rows if to is not None
    )


async def delete_group(visit: Visit) -> View | Redirect:
    found = await _group(visit)
    if visit.submitted:
        await visit.form()
        await wire.delete(visit.cluster.client, found.id)
        return visit.done(f"Group {found.id} is deleted.", "groups")
    try:
        committed = (await committed_by_group(visit.cluster.client, [found])).get(found.id, {})
    except Fault:
        committed = {}
    consequences = [
        f"The group loses {counted(len(committed), 'committed offset')}. Consumers that use this name "
        "again begin at auto.offset.reset: they read records twice or skip them.",
        "A group with running members is not deleted.",
    ]
    return confirmation(
        f"Delete group {found.id}", consequences, section="groups", label="Delete group",
        action=visit.url("group", "delete", id=found.id), back=visit.url("group", id=found.id),
    )  # fmt: skip
