"""Changes of topics. A page names the consequences; its form makes the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.config.key import format_value
from headrace.config.keys import TOPIC_KEYS
from headrace.console.cluster import changes
from headrace.console.cluster.configs import TOPIC, alter, describe
from headrace.console.cluster.facts import Topic
from headrace.console.cluster.offsets import spans
from headrace.console.confirmation import confirmation
from headrace.console.core import formats
from headrace.console.pages.topics import readers
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Form, Redirect, Visit
from headrace.kernel.errors import Refused
from headrace.kernel.internal_topics import loss
from headrace.kernel.plurals import counted

# The settings that the form for a new topic offers; the page of the topic has all of them.
OFFERED: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas", "max.message.bytes")
# What people change most often stands first; the other keys are behind a link.
_FIRST: Final = (*OFFERED, "compression.type", "segment.bytes", "segment.ms")


async def create_topic(visit: Visit) -> View | Redirect:
    values: dict[str, str] = {}
    error = ""
    if visit.submitted:
        form = await visit.form()
        values = {name: form.text(name) for name in ("name", "partitions", "replicas", *OFFERED)}
        configs = {key: values[key] for key in OFFERED if values[key]}
        try:
            count, factor = form.number("partitions", -1), form.number("replicas", -1)
            await changes.create_topic(visit.cluster.client, values["name"], count, factor, configs)
            return visit.done(f"Topic {values['name']} is there.", "topics", values["name"])
        except (Refused, Rejected) as fault:
            error = fault.message
    facts = await visit.cluster.facts()
    offered = [(TOPIC_KEYS[key], values.get(key, "")) for key in OFFERED]
    data = {
        "values": values, "error": error, "brokers": sum(broker.up for broker in facts.brokers),
        "offered": [
            {
                "name": key.name, "doc": key.doc, "value": text, "choices": key.choices,
                "default": format_value(key.type, key.default) or "",
            }
            for key, text in offered
        ],
    }  # fmt: skip
    return View("topic_create.html", "New topic", data, 422 if error else 200, "topics")


async def configure_topic(visit: Visit) -> View | Redirect:
    name = visit.path("topic")
    entries = await describe(visit.cluster.client, TOPIC, name)
    error, given = "", {}
    if visit.submitted:
        form = await visit.form()
        given = {entry.name: form.text(entry.name) for entry in entries if form.has(entry.name)}
        wanted: dict[str, str | None] = {}
        for entry in entries:
            if form.text(f"reset {entry.name}"):
                if entry.is_set:
                    wanted[entry.name] = None
            elif entry.name in given and given[entry.name] != (entry.value or ""):
                wanted[entry.name] = given[entry.name]
        if not wanted:
            return visit.done(f"Nothing was changed in {name}.", "topics", name)
        try:
            await alter(visit.cluster.client, TOPIC, name, wanted)
            return visit.done(f"Changed {', '.join(wanted)} of {name}.", "topics", name)
        except Refused as fault:
            error = fault.message
    writable = [entry for entry in entries if not entry.read_only]
    first = [entry for entry in writable if entry.name in _FIRST or entry.is_set]
    rest = [entry for entry in writable if entry not in first]
    data = {"topic": name, "configs": [*first, *rest], "first": len(first), "given": given, "error": error}
    return View("topic_configure.html", f"Configure {name}", data, 422 if error else 200, "topics")


async def grow_topic(visit: Visit) -> View | Redirect:
    topic = await visit.cluster.topic(visit.path("topic"))
    now = len(topic.partitions)
    error = ""
    if visit.submitted:
        form = await visit.form()
        try:
            count = form.number("partitions")
            await changes.grow_topic(visit.cluster.client, topic.name, count)
            return visit.done(f"{topic.name} has {counted(count, 'partition')} now.", "topics", topic.name)
        except (Refused, Rejected) as fault:
            error = fault.message
    consequences = [
        "New records with the same key may go to another partition than before, so their order is not kept across the "
        "change.",
        "Groups that read the topic rebalance.",
        "A topic cannot shrink again.",
    ]
    return _confirmation(
        visit, topic, "grow", f"Add partitions to {topic.name}", consequences,
        label="Add partitions", error=error, number=("partitions", "New number of partitions", now + 1),
    )  # fmt: skip


async def empty_topic(visit: Visit) -> View | Redirect:
    topic = await visit.cluster.topic(visit.path("topic"))
    if visit.submitted:
        _check_internal(topic, await visit.form(), "empty")
        await changes.empty_topic(visit.cluster.client, topic)
        return visit.done(f"{topic.name} is empty.", "topics", topic.name)
    consequences = [
        f"{await _contents(visit, topic)} are deleted on all replicas. There is no way back.",
        "Offsets go on counting: the next record gets the offset after the last deleted one.",
        *_state_lost(topic),
        *await _readers_left(visit, topic, "Groups that have not read all records miss the rest"),
    ]
    return _confirmation(
        visit, topic, "empty", f"Delete all records of {topic.name}", consequences, label="Delete all records",
        dangerous=True, box=_internal_label(topic, "Empty"),
    )  # fmt: skip


async def delete_topic(visit: Visit) -> View | Redirect:
    topic = await visit.cluster.topic(visit.path("topic"))
    if visit.submitted:
        form = await visit.form()
        if form.text("name") != topic.name:
            raise Rejected(422, f"type {topic.name} to delete it: you typed {form.text('name')!r}")
        _check_internal(topic, form, "delete")
        await changes.delete_topic(visit.cluster.client, topic.name)
        return visit.done(f"Topic {topic.name} is deleted.", "topics")
    consequences = [
        f"{counted(len(topic.partitions), 'partition')} with {await _contents(visit, topic)} are deleted. There is no "
        "way back.",
        *_state_lost(topic),
        *await _readers_left(visit, topic, "Groups that read it get errors"),
        "If topics are created automatically, the next producer creates it again, with default settings.",
    ]
    return _confirmation(
        visit, topic, "delete", f"Delete {topic.name}", consequences, label="Delete topic", dangerous=True,
        typed=topic.name, box=_internal_label(topic, "Delete"),
    )  # fmt: skip


def _state_lost(topic: Topic) -> list[str]:
    lost = loss(topic.name)
    return [] if lost is None else [f"It is an internal topic. It holds {lost}."]


def _internal_label(topic: Topic, action: str) -> str:
    return "" if loss(topic.name) is None else f"{action} this internal topic"


def _check_internal(topic: Topic, form: Form, action: str) -> None:
    if loss(topic.name) is not None and not form.text("internal"):
        raise Rejected(422, f"{topic.name} is an internal topic: check the box to {action} it")


async def _contents(visit: Visit, topic: Topic) -> str:
    held = await spans(visit.cluster.client, [topic])
    records = sum(end - first for first, end in held.values())
    text = f"{formats.number(records)} {'record' if records == 1 else 'records'}"
    return text if topic.size is None else f"{text} ({formats.size(topic.size)} on disk)"


async def _readers_left(visit: Visit, topic: Topic, what: str) -> list[str]:
    names = [reader.group for reader in await readers(visit, topic)]
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"{what}: {', '.join(names[:5])}{more}."]


def _confirmation(
    visit: Visit,
    topic: Topic,
    action: str,
    title: str,
    consequences: Sequence[str],
    *,
    label: str,
    dangerous: bool = False,
    typed: str = "",
    box: str = "",
    error: str = "",
    number: tuple[str, str, int] | None = None,
) -> View:
    return confirmation(
        title, consequences, section="topics", label=label, dangerous=dangerous, typed=typed, box=box, error=error,
        number=number, action=visit.url("topics", topic.name, action), back=visit.url("topics", topic.name),
    )  # fmt: skip
