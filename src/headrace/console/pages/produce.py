"""A record from a form: new, or a copy of another one to edit and send again, dead letters above all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Final

from headrace.console.cluster.offsets import spans
from headrace.console.core import formats
from headrace.console.core.schema_fields import BadField, filled, texts_of
from headrace.console.pages.messages import decoding_of
from headrace.console.protection import MAX_FORM_BYTES, Rejected
from headrace.console.records import reading
from headrace.console.records.decoding import HEX, JSON, NULL, Shown
from headrace.console.records.producing import FORMS, encoded, parse_headers, send
from headrace.console.records.schema_form import fields_of
from headrace.console.rendering import View
from headrace.console.visit import Form, Redirect, Visit
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Refused
from headrace.kernel.json_values import JsonValue
from headrace.records.builder import Record

# A dead letter of a pipeline names the topic it came from; its other notes are about the failure.
_DEAD_LETTER: Final = "headrace."
_ORIGIN: Final = "headrace.topic"


async def produce(visit: Visit) -> View | Redirect:
    name = visit.path("topic")
    topic = await visit.cluster.topic(name)
    copied, error = await _copied(visit, name), ""
    values: Mapping[str, str] = copied.texts
    fields = await asyncio.to_thread(fields_of, visit.cluster.registry, values.get("topic", name))
    inputs = texts_of(fields, copied.value)
    # A person can write JSON instead.
    by_fields = bool(fields) and visit.query.get("fields") != "0" and (not visit.query.get("copy") or copied.is_decoded)
    if visit.submitted:
        form = await visit.form()
        names = ("topic", "partition", "key", "key_form", "value", "value_form", "headers")
        values = {field: form.raw(field) for field in names}
        inputs = {field.name: form.raw(f"field {field.name}") for field in fields}
        try:
            target = form.text("topic") or name
            if form.text("value_form") == "fields":
                values = {**values, "value": json.dumps(filled(fields, inputs), ensure_ascii=False)}
            partition = await _send(visit, form, target, values["value"])
            message = f"Sent a record to {target}-{partition}."
            return visit.done(message, "topics", target, "messages")
        except (Refused, Rejected) as fault:
            error = fault.message
        except BadField as fault:
            error = str(fault)
    data = {
        "topic": name, "values": values, "error": error, "forms": FORMS, "partitions": len(topic.partitions),
        "registry": visit.cluster.registry is not None, "copied": visit.query.get("copy", ""),
        "fields": fields if by_fields else [], "inputs": inputs, "has_fields": bool(fields),
    }  # fmt: skip
    return View("produce.html", f"{name}: produce", data, 422 if error else 200, "topics")


async def _send(visit: Visit, form: Form, target: str, text: str) -> int:
    topic = await visit.cluster.topic(target)
    registry = visit.cluster.registry

    def write() -> int:
        key = encoded(form.raw("key"), form.text("key_form") or "text", target, registry, is_key=True)
        how = form.text("value_form") or "text"
        value = encoded(text, "schema" if how == "fields" else how, target, registry, is_key=False)
        record = Record(key, value, parse_headers(form.raw("headers")), int(time.time() * 1000))
        chosen = form.number("partition", -1)
        with visit.cluster.blocking() as client:
            return send(client, target, None if chosen < 0 else chosen, len(topic.partitions), record)

    return await asyncio.to_thread(write)


@dataclass(frozen=True, slots=True)
class Copied:
    """The inputs of the form, and the decoded value of the copied record."""

    texts: Mapping[str, str]
    value: JsonValue = None
    is_decoded: bool = False


async def _copied(visit: Visit, topic: str) -> Copied:
    """The record that the address names as `copy=PARTITION:OFFSET`."""
    partition, colon, offset = visit.query.get("copy", "").partition(":")
    if not colon or not partition.isdecimal() or not offset.isdecimal():
        return Copied({"topic": topic, "key_form": "null", "value_form": "json"})
    decoding = decoding_of(visit, topic)
    if not decoding.shows_bytes:
        raise Rejected(403, "this console hides or masks values of this topic, so it cannot copy records of it")
    held = {
        p.partition: span for p, span in (await spans(visit.cluster.client, [await visit.cluster.topic(topic)])).items()
    }
    first, end = held.get(int(partition), (0, 0))
    found = None
    if first <= int(offset) < end:
        with visit.cluster.blocking() as client:
            found = await asyncio.to_thread(reading.read_one, client, topic, int(partition), int(offset))
    if found is None:
        raise Rejected(404, f"{topic}-{partition} has no record at offset {offset}")
    if len(found.value or b"") > MAX_FORM_BYTES // 4:
        raise Rejected(
            413, f"the value has {formats.size(len(found.value or b''))}, which is too large to edit in a form. "
            "Choose the record in the list of messages to send it again as it is, or download its bytes",
        )  # fmt: skip
    shown = decoding.record(int(partition), found)
    origin = next((value.text for name, value in shown.headers if name == _ORIGIN), topic)
    texts = {
        "topic": origin,
        "key": _exact_key(shown.key, found.key),
        "key_form": _form_of(shown.key),
        "value": _editable(shown.value),
        "value_form": _form_of(shown.value),
        "headers": "\n".join(
            f"{name}: {value.text}" for name, value in shown.headers if not name.startswith(_DEAD_LETTER)
        ),
    }
    return Copied(texts, shown.value.value, is_decoded=bool(shown.value.schema))


def _editable(shown: Shown) -> str:
    return "" if shown.kind == NULL else shown.pretty


def _exact_key(shown: Shown, data: bytes | None) -> str:
    """Not formatted: other blanks would make another key."""
    return data.decode() if data is not None and _form_of(shown) == "json" else _editable(shown)


def _form_of(shown: Shown) -> str:
    if shown.kind == JSON:
        return "schema" if shown.schema else "json"
    return {NULL: "null", HEX: "hex"}.get(shown.kind, "text")
