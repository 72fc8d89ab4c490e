"""The endpoints of consumer instances: create, subscribe or assign, read, commit, seek, delete."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from starlette.responses import Response

from headrace.http.call import MOST_INT32, MOST_INT64, Call, checked_integer, field, no_content
from headrace.http.endpoint import NUMBER, OBJECT, OFFSET, TEXT, Endpoint, Handler, Schema, a_list, an_object
from headrace.http.v2.formats import FORMATS, V2_JSON, accepted_format, shown_v2, v2_json
from headrace.http.v2.instance import RESETS, ConsumerInstance, InstanceSettings, records_of
from headrace.http.v2.partition_read import LARGEST_READ_BYTES, LONGEST_WAIT_MS, READ_TYPES
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.web.body import parsed_json, whole_body
from headrace.web.errors import Problem, unprocessable

GROUP = "/consumers/{group_name}"
INSTANCE = f"{GROUP}/instances/{{instance}}"
_DEFAULT_WAIT_MS = 1000


def _used(call: Call) -> AbstractAsyncContextManager[ConsumerInstance]:
    return call.service.instances.used(call.caller, call.path("group_name"), call.path("instance"))


async def create_instance(call: Call) -> Response:
    body = await call.document()
    how = field(body, "format", str, "binary")
    if how not in FORMATS:
        raise Problem(422, 42204, f"format={how!r}: must be one of {', '.join(FORMATS)}")
    reset = field(body, "auto.offset.reset", str, "latest")
    if reset not in RESETS:
        raise Problem(422, 42204, f"auto.offset.reset={reset!r}: must be one of {', '.join(RESETS)}")
    committing = str(body.get("auto.commit.enable", False)).lower()
    if committing not in ("true", "false"):
        raise Problem(422, 42204, f"auto.commit.enable={committing!r}: must be true or false")
    wait_ms = _config(body, "consumer.request.timeout.ms", _DEFAULT_WAIT_MS, LONGEST_WAIT_MS)
    _config(body, "fetch.min.bytes", 1, MOST_INT32)
    group = call.path("group_name")
    name = field(body, "name", str, None) or call.service.instances.new_name()
    settings = InstanceSettings(group, name, how, reset, committing == "true", wait_ms)
    await call.service.instances.create(call.caller, settings)
    base = call.url(f"/consumers/{group}/instances/{name}")
    return v2_json({"instance_id": name, "base_uri": base})


def _config(body: JsonObject, name: str, default: int, most: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    try:
        return checked_integer(value, name, least=0, most=most)
    except Problem as problem:
        raise Problem(422, 42204, problem.message) from None


async def delete_instance(call: Call) -> Response:
    await call.service.instances.delete(call.caller, call.path("group_name"), call.path("instance"))
    return no_content()


async def subscribe(call: Call) -> Response:
    body = await call.document()
    topics, pattern = field(body, "topics", list, []), field(body, "topic_pattern", str, None)
    if not all(isinstance(one, str) for one in topics) or bool(topics) == bool(pattern):
        raise unprocessable("give topics (a list of names) or topic_pattern (a regular expression)")
    async with _used(call) as instance:
        await instance.subscribe(topics, pattern)
    return no_content()


async def show_subscription(call: Call) -> Response:
    async with _used(call) as instance:
        return v2_json({"topics": instance.topics})


async def unsubscribe(call: Call) -> Response:
    async with _used(call) as instance:
        await instance.unsubscribe()
    return no_content()


def _partition(one: JsonValue) -> TopicPartition:
    if not isinstance(one, dict):
        raise unprocessable("each must be an object with topic and partition")
    number = checked_integer(field(one, "partition", int), "partition", least=0, most=MOST_INT32)
    return TopicPartition(field(one, "topic", str), number)


def _partitions(body: JsonObject) -> list[TopicPartition]:
    return [_partition(one) for one in field(body, "partitions", list)]


def _offsets(body: JsonObject) -> dict[TopicPartition, int]:
    return {
        _partition(one): checked_integer(field(one, "offset", int), "offset", least=0, most=MOST_INT64 - 1)
        for one in field(body, "offsets", list)
    }


async def assign(call: Call) -> Response:
    partitions = _partitions(await call.document())
    async with _used(call) as instance:
        instance.assign(partitions)
    return no_content()


async def show_assignments(call: Call) -> Response:
    async with _used(call) as instance:
        shown = [{"topic": one.topic, "partition": one.partition} for one in sorted(instance.partitions)]
    return v2_json({"partitions": shown})


async def read(call: Call) -> Response:
    async with _used(call) as instance:
        settings = instance.settings
        wanted = accepted_format(call)
        if wanted is not None and wanted != settings.format:
            raise Problem(
                406, 40601, f"the instance was created with the format {settings.format}; Accept names {wanted}"
            )
        wait_ms = call.integer("timeout", settings.timeout_ms, most=LONGEST_WAIT_MS)
        max_bytes = call.integer("max_bytes", 1 << 20, least=1, most=LARGEST_READ_BYTES)
        found = await instance.read(wait_ms, max_bytes)
        async with call.service.schemas(call.caller) as schemas:
            shown = await asyncio.to_thread(
                lambda: [shown_v2(one, record, settings.format, schemas) for one, record in records_of(found)]
            )
        instance.advance(found)
        await instance.auto_commit(None)
    return v2_json(shown, how=settings.format)


async def commit(call: Call) -> Response:
    text = await whole_body(call.request)
    body = parsed_json(text) if text.strip() else None
    if body is not None and not isinstance(body, dict):
        raise unprocessable("the body must be a JSON object")
    offsets = None
    if body:
        # As in Confluent's API: the caller names the last offset that it has read.
        offsets = {partition: offset + 1 for partition, offset in _offsets(body).items()}
    async with _used(call) as instance:
        await instance.commit(offsets)
    return Response(status_code=200)


async def show_offsets(call: Call) -> Response:
    asked = call.text("partitions")
    body = parsed_json(asked.encode()) if asked else parsed_json(await whole_body(call.request) or b"null")
    async with _used(call) as instance:
        partitions = sorted(instance.partitions) if body is None else _partitions(_checked(body))
        known = await instance.committed(partitions)
    shown = [
        {"topic": one.topic, "partition": one.partition, "offset": offset, "metadata": ""}
        for one, offset in sorted(known.items())
    ]
    return v2_json({"offsets": shown})


def _checked(body: JsonValue) -> JsonObject:
    if not isinstance(body, dict):
        raise unprocessable("the body must be a JSON object")
    return body


async def seek(call: Call) -> Response:
    offsets = _offsets(await call.document())
    async with _used(call) as instance:
        instance.seek(offsets)
    return no_content()


async def seek_to_beginning(call: Call) -> Response:
    partitions = _partitions(await call.document())
    async with _used(call) as instance:
        await instance.seek_to(partitions, "earliest")
    return no_content()


async def seek_to_end(call: Call) -> Response:
    partitions = _partitions(await call.document())
    async with _used(call) as instance:
        await instance.seek_to(partitions, "latest")
    return no_content()


_TYPES = (V2_JSON,)
_PARTITION: Schema = an_object("topic", "partition", topic=TEXT, partition=NUMBER)
_PARTITIONS = an_object("partitions", partitions=a_list(_PARTITION))
_POSITION = an_object("topic", "partition", "offset", topic=TEXT, partition=NUMBER, offset=OFFSET)
_POSITIONS = an_object("offsets", offsets=a_list(_POSITION))
_NEW = an_object(
    name=TEXT,
    format={"type": "string", "enum": [*FORMATS, None]},
    **{"auto.offset.reset": {"type": "string", "enum": [*RESETS, None]}, "auto.commit.enable": TEXT},
)


def _row(method: str, path: str, handler: Handler, text: str, **more: JsonValue) -> Endpoint:
    return Endpoint(method, path, handler, text, **{"answer_types": _TYPES, "body_types": _TYPES, **more})


def _change(
    method: str, path: str, handler: Handler, text: str, body: Schema | None = None, **more: JsonValue
) -> Endpoint:
    return _row(method, path, handler, text, body=body, answer=None, **{"status": 204, **more})


_READ_QUERY: dict[str, Schema] = {
    "timeout": {**NUMBER, "maximum": LONGEST_WAIT_MS},
    "max_bytes": {"type": "integer", "minimum": 1, "maximum": LARGEST_READ_BYTES},
}
ENDPOINTS = (
    _row("POST", GROUP, create_instance, "Create a consumer instance.", body=_NEW, answer=OBJECT),
    _change("DELETE", INSTANCE, delete_instance, "Delete a consumer instance."),
    _change(
        "POST", f"{INSTANCE}/subscription", subscribe, "Subscribe to topics or a pattern.",
        an_object(topics=a_list(TEXT), topic_pattern=TEXT),
    ),
    _row("GET", f"{INSTANCE}/subscription", show_subscription, "Show the subscription.", answer=OBJECT),
    _change("DELETE", f"{INSTANCE}/subscription", unsubscribe, "Unsubscribe."),
    _change("POST", f"{INSTANCE}/assignments", assign, "Assign partitions.", _PARTITIONS),
    _row("GET", f"{INSTANCE}/assignments", show_assignments, "Show the assigned partitions.", answer=OBJECT),
    _row(
        "GET", f"{INSTANCE}/records", read, "Read records.", query=_READ_QUERY, answer=a_list(OBJECT),
        answer_types=READ_TYPES,
    ),
    _change(
        "POST", f"{INSTANCE}/offsets", commit, "Commit offsets; without a body all positions.", _POSITIONS,
        is_body_required=False, status=200,
    ),
    _row(
        "GET", f"{INSTANCE}/offsets", show_offsets, "Show committed offsets.", query={"partitions": TEXT}, answer=OBJECT
    ),
    _change("POST", f"{INSTANCE}/positions", seek, "Set positions.", _POSITIONS),
    _change("POST", f"{INSTANCE}/positions/beginning", seek_to_beginning, "Set positions to the start.", _PARTITIONS),
    _change("POST", f"{INSTANCE}/positions/end", seek_to_end, "Set positions to the end.", _PARTITIONS),
)  # fmt: skip
