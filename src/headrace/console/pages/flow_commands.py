"""Commands for running flows: stop, start, reset and replay, each with what it does before a person confirms it.

The process that runs the flow carries the command out (`client.blocking.flow_commands`). The page waits some seconds
for its report. The user needs the right to write to the topic of commands; brokers decide it.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping
from typing import Final

from headrace.client.blocking.flow_commands import ACTIONS, REPLAY, RESET, START, STOP, FlowCommand, give
from headrace.console.cluster.groups import Position, targets
from headrace.console.cluster.pipelines import Command, Flow
from headrace.console.confirmation import confirmation
from headrace.console.pages.messages import milliseconds
from headrace.console.pages.pipelines import flow_named, flows_of
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit
from headrace.kernel.errors import Refused
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted

_PATIENCE_S: Final = 4.0
_LOOK_EVERY_S: Final = 0.2
# (value, label) of the places that a form offers.
RESET_WAYS: Final = (
    ("earliest", "the first record"), ("latest", "the end"), ("offset", "an offset"), ("shift", "further by (−: back)"),
    ("time", "a time"),
)  # fmt: skip
FROM_WAYS: Final = (("earliest", "the first record"), ("time", "a time"))
UNTIL_WAYS: Final = (("now", "where the flow is"), ("time", "a time"))
_DONE: Final = {STOP: "is stopped", START: "runs", RESET: "has new offsets", REPLAY: "has read the range again"}
_TITLES: Final = {STOP: "Stop {}", START: "Start {}", RESET: "Reset {}", REPLAY: "Replay {}"}


async def command_flow(visit: Visit) -> View | Redirect:
    action = visit.path("action")
    if action not in ACTIONS:
        raise Rejected(404, f"there is no command {action!r}: {', '.join(ACTIONS)}")
    flow = await flow_named(visit)
    if not flow.takes_commands(int(time.time() * 1000)):
        raise Rejected(
            409, f"no process that runs {flow.name} takes commands now: start it with 'headrace pipeline run DIR'"
        )
    if action == RESET and flow.last.state != "stopped":
        raise Rejected(409, f"{flow.name} is {flow.last.state}: stop it before you reset it")
    if action == RESET:
        return await _reset(visit, flow)
    if action == REPLAY:
        return await _replay(visit, flow)
    if visit.submitted:
        await visit.form()
        return await _given(visit, flow, action)
    return confirmation(
        _TITLES[action].format(flow.name), _consequences(flow, action), section="pipelines",
        label=f"{action.capitalize()} flow", dangerous=False,
        action=visit.url("pipeline", action, name=flow.name), back=visit.url("pipeline", name=flow.name),
    )  # fmt: skip


def _consequences(flow: Flow, action: str) -> list[str]:
    if action == START:
        return ["The flow goes on where it stopped, or where a reset put it."]
    found = [
        "The flow finishes its batch and stops. Its offsets and its state stay.",
        "The other flows of its process go on.",
        f"It stays stopped until a person starts it, or until the pipeline {flow.pipeline} is started again.",
    ]
    if flow.last.lag is not None:
        found.append("Its lag grows while it is stopped.")
    return found


async def _given(visit: Visit, flow: Flow, action: str, to: str = "", begin: str = "") -> Redirect:
    command = FlowCommand(
        uuid.uuid4().hex, flow.last.run, flow.name, action, visit.caller.principal, int(time.time() * 1000), to, begin
    )

    def write() -> None:
        with visit.cluster.blocking() as client:
            give(client, command)

    await asyncio.to_thread(write)
    found = await _result(visit, flow.name, command.id)
    if found is None or found.state == "begun":
        text = f"{flow.name}: {action} is under way. The page shows its end."
    elif found.state == "done":
        text = f"{flow.name} {_DONE[action]}{': ' + found.message if found.message else ''}."
    else:
        raise Rejected(409, f"{flow.name}: {action} {found.state}: {found.message}")
    return visit.done(text, "pipeline", name=flow.name)


async def _result(visit: Visit, name: str, command: str) -> Command | None:
    deadline, found = time.monotonic() + _PATIENCE_S, None
    while time.monotonic() < deadline:
        flow = (await flows_of(visit)).get(name)
        if flow is not None and flow.last.command is not None and flow.last.command.id == command:
            found = flow.last.command
            if found.state != "begun":
                return found
        await asyncio.sleep(_LOOK_EVERY_S)
    return found


async def _positions(visit: Visit, flow: Flow) -> list[Position]:
    """Where the flow is, in each partition that it reads."""
    facts = await visit.cluster.facts()
    held = await visit.cluster.spans([facts.topics[name] for name in flow.topics if name in facts.topics])
    found = []
    for topic, parts in sorted(flow.last.offsets.items()):
        for partition, offset in sorted((int(number), int(offset)) for number, offset in parts.items()):
            first, end = held.get(TopicPartition(topic, partition), (None, None))
            lag = None if end is None else max(0, end - offset)
            found.append(Position(topic, partition, offset, first, end, lag, ""))
    return found


async def _places(visit: Visit, rows: list[Position], way: str, value: str, when: str) -> dict[TopicPartition, int]:
    """Raises Rejected."""
    number = 0
    if way == "time":
        number = milliseconds(when)
    elif way in ("offset", "shift"):
        try:
            number = int(value)
        except ValueError:
            raise Rejected(422, f"{way} {value!r}: must be a whole number") from None
    elif way not in ("earliest", "latest"):
        raise Rejected(400, f"way {way!r} is not known")
    return await targets(visit.cluster.client, await visit.cluster.facts(), rows, way, number)


def _document(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(found)


async def _reset(visit: Visit, flow: Flow) -> View | Redirect:
    positions = await _positions(visit, flow)
    fields: Mapping[str, str] = visit.query
    if visit.submitted:
        form = await visit.form()
        exact_names = [f"to {row.topic} {row.partition}" for row in positions]
        fields = {name: form.text(name) for name in ("way", "value", "time", *exact_names)}
    # The state of a flow belongs to what it has read: it can only go back to its own start.
    ways = RESET_WAYS[:1] if flow.last.is_stateful else RESET_WAYS
    way = fields.get("way", "")
    plan: dict[TopicPartition, int] = {}
    error = ""
    if way:
        try:
            if way not in dict(ways):
                raise Rejected(400, f"{flow.name} keeps state: it can only go back to the first record")
            plan = await _places(visit, positions, way, fields.get("value", ""), fields.get("time", ""))
            for partition in plan:
                text = fields.get(f"to {partition.topic} {partition.partition}", "")
                if text.isdecimal() and not flow.last.is_stateful:
                    plan[partition] = int(text)
            if visit.submitted and plan:
                to = "earliest" if flow.last.is_stateful else _document(plan)
                return await _given(visit, flow, RESET, to)
        except (Refused, Rejected) as fault:
            error = fault.message
    rows = [(row, plan.get(TopicPartition(row.topic, row.partition))) for row in positions]
    moves = [(row.offset or 0, to) for row, to in rows if to is not None]
    data = {
        "flow": flow.name, "rows": rows, "ways": ways, "way": way, "value": fields.get("value", ""),
        "time": fields.get("time", ""), "error": error, "planned": bool(plan),
        "replayed": sum(max(0, offset - to) for offset, to in moves),
        "skipped": sum(max(0, to - offset) for offset, to in moves), "is_stateful": flow.last.is_stateful,
        "target": flow.last.target,
    }  # fmt: skip
    return View("flow_reset.html", f"Reset {flow.name}", data, 422 if error else 200, "pipelines")


async def _replay(visit: Visit, flow: Flow) -> View | Redirect:
    positions = await _positions(visit, flow)
    if flow.last.is_stateful:
        raise Rejected(409, f"{flow.name} keeps state: reset it to the first record instead of replaying a range")
    fields: Mapping[str, str] = visit.query
    if visit.submitted:
        form = await visit.form()
        fields = {name: form.text(name) for name in ("way", "time", "until", "until_time")}
    way, until = fields.get("way", ""), fields.get("until", "now")
    begin: dict[TopicPartition, int] = {}
    end: dict[TopicPartition, int] = {}
    error = ""
    if way:
        try:
            if way not in dict(FROM_WAYS) or until not in dict(UNTIL_WAYS):
                raise Rejected(400, f"range {way!r} to {until!r} is not known")
            begin = await _places(visit, positions, way, "", fields.get("time", ""))
            end = {TopicPartition(row.topic, row.partition): row.offset or 0 for row in positions}
            if until == "time":
                at = await _places(visit, positions, "time", "", fields.get("until_time", ""))
                end = {partition: min(offset, at.get(partition, offset)) for partition, offset in end.items()}
            begin = {partition: min(offset, end[partition]) for partition, offset in begin.items()}
            if visit.submitted:
                return await _given(visit, flow, REPLAY, _document(end), _document(begin))
        except (Refused, Rejected) as fault:
            error = fault.message
    rows = [
        (row.topic, row.partition, begin.get(place), end.get(place))
        for row in positions
        for place in (TopicPartition(row.topic, row.partition),)
    ]
    data = {
        "flow": flow.name, "rows": rows, "ways": FROM_WAYS, "untils": UNTIL_WAYS, "way": way, "until": until,
        "time": fields.get("time", ""), "until_time": fields.get("until_time", ""), "error": error,
        "planned": bool(begin) and not error,
        "records": counted(sum(max(0, end[place] - offset) for place, offset in begin.items()), "record"),
        "target": flow.last.target,
    }  # fmt: skip
    return View("flow_replay.html", f"Replay {flow.name}", data, 422 if error else 200, "pipelines")
