"""Produces records from a stream of JSON documents, one answer for each, and reads a topic as a stream.

The service reads the body while it answers: it sends the records that have arrived in one batch for each partition,
then writes their answers, then reads on. So a client may keep one request open for as long as it likes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.client.places import parse_place
from headrace.client.record_fetch import READ_COMMITTED, READ_UNCOMMITTED
from headrace.http.call import MOST_INT64, Call, as_json, dumped, field, partitions_of
from headrace.http.endpoint import ANYTHING, FLAG, NUMBER, OBJECT, OFFSET, TEXT, Endpoint, Schema, a_list, an_object
from headrace.http.records.decoding import FORMATS, format_named
from headrace.http.records.encoding import TYPES, Encoded, encoded_record
from headrace.http.records.filters import conditions
from headrace.http.records.json_stream import JsonStream
from headrace.http.records.produce import Delivered, TopicProducer
from headrace.http.records.schemas import Schemas
from headrace.http.records.stream import TopicStream, Wanted, ndjson, server_sent_events
from headrace.http.v3.resources import check_cluster
from headrace.http.v3.topics import TOPIC
from headrace.kernel.errors import Fault
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.web.body import body_chunks, check_json_type
from headrace.web.errors import Problem, bad_request, problem_of, unprocessable

RECORDS = f"{TOPIC}/records"
EVENT_STREAM: Final = "text/event-stream"
NDJSON: Final = "application/x-ndjson"
# A request may stay open and send records for hours, so only the size of one record is limited.
_NO_LIMIT: Final = 1 << 62
_MOST_IN_BATCH: Final = 10_000


class _Sending:
    """Sends the records of one request."""

    def __init__(
        self, call: Call, cluster_id: str, topic: str, producer: TopicProducer, schemas: Schemas | None
    ) -> None:
        self._call, self._cluster_id, self._topic = call, cluster_id, topic
        self._producer, self._schemas = producer, schemas

    async def outcomes(self, documents: Sequence[JsonValue]) -> list[JsonObject | Problem]:
        """The answer of each record, in order."""
        now_ms = int(time.time() * 1000)
        results: list[JsonObject | Problem] = []
        ready: list[tuple[int, Encoded]] = []
        for document in documents:
            try:
                ready.append((len(results), await encoded_record(document, self._schemas, self._topic, now_ms)))
                results.append({})
            except Problem as problem:
                results.append(problem)
        try:
            sent = await self._producer.send(self._topic, [(one.record, one.partition) for _, one in ready])
        except Fault as fault:
            sent = [problem_of(fault)] * len(ready)
        for (at, one), outcome in zip(ready, sent, strict=True):
            results[at] = outcome if isinstance(outcome, Problem) else self._document(one, outcome)
        return results

    def _document(self, one: Encoded, delivered: Delivered) -> JsonObject:
        document: JsonObject = {
            "error_code": 200,
            "cluster_id": self._cluster_id,
            "topic_name": self._topic,
            "partition_id": delivered.partition,
            "offset": delivered.offset,
            "timestamp": one.record.timestamp_ms,
        }
        for name, part in (("key", one.key.as_json()), ("value", one.value.as_json())):
            if part is not None:
                document[name] = part
        return document


async def produce_records(call: Call) -> Response:
    check_json_type(call.request)
    topic = call.path("topic_name")
    async with call.client() as client:
        cluster_id = await check_cluster(call, client)
        await partitions_of(client, topic)  # a topic that is unknown or hidden gets its own status

    async def answers() -> AsyncIterator[bytes]:
        stream = JsonStream()
        async with call.service.producers.lease(call.caller) as producer, call.service.schemas(call.caller) as schemas:
            sending = _Sending(call, cluster_id, topic, producer, schemas)
            async for chunk in _chunks(call):
                documents, problem = stream.fed(chunk or b"", is_last=chunk is None)
                if documents:
                    yield b"".join(_line(one) for one in await sending.outcomes(documents))
                if problem is not None:
                    yield _line(problem)
                    return

    return DuplexResponse(answers(), media_type="application/json")


class DuplexResponse(Response):
    """Answers while the body is read. Starlette's StreamingResponse reads the body itself to notice a disconnect."""

    def __init__(self, chunks: AsyncIterator[bytes], media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except ClientDisconnect:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chunks(call: Call) -> AsyncIterator[bytes | None]:
    """The body as it arrives. None is its end."""
    async for chunk in body_chunks(call.request, limit=_NO_LIMIT):
        if chunk:
            yield chunk
    yield None


def _line(outcome: JsonObject | Problem) -> bytes:
    return dumped(outcome.as_json() if isinstance(outcome, Problem) else outcome) + b"\n"


async def produce_batch(call: Call) -> Response:
    body = await call.document()
    topic = call.path("topic_name")
    entries = field(body, "entries", list)
    if len(entries) > _MOST_IN_BATCH:
        raise unprocessable(f"entries: {len(entries)} records; at most {_MOST_IN_BATCH} are allowed in one request")
    for entry in entries:
        if not isinstance(entry, dict):
            raise unprocessable("entries: each must be an object with id and value")
    async with call.client() as client:
        cluster_id = await check_cluster(call, client)
        await partitions_of(client, topic)
    async with call.service.producers.lease(call.caller) as producer, call.service.schemas(call.caller) as schemas:
        outcomes = await _Sending(call, cluster_id, topic, producer, schemas).outcomes(entries)
    successes, failures = [], []
    for entry, outcome in zip(entries, outcomes, strict=True):
        id_ = {"id": entry.get("id")}
        if isinstance(outcome, Problem):
            failures.append({**id_, **outcome.as_json()})
        else:
            successes.append({**id_, **{name: value for name, value in outcome.items() if name != "error_code"}})
    return as_json({"successes": successes, "failures": failures}, 207 if failures else 200)


async def read_records(call: Call) -> Response:
    topic = call.path("topic_name")
    is_sse = EVENT_STREAM in call.request.headers.get("accept", "")
    now_ms = int(time.time() * 1000)
    is_following = call.flag("follow", is_sse)
    try:
        start = parse_place(call.text("from") or ("end" if is_following else "beginning"), now_ms)
    except ValueError as error:
        raise bad_request(f"from={error}") from None
    if start.value > MOST_INT64:
        raise bad_request(f"from={call.text('from')!r}: must fit into 64 bits")
    limit = call.integer("limit", -1, least=1, most=MOST_INT64)
    selected = conditions(call.text("search"), call.request.query_params.getlist("match"), call.text("filter"))
    how = format_named(call.text("format") or "auto")
    level = READ_COMMITTED if call.flag("committed", True) else READ_UNCOMMITTED
    async with call.client() as client:
        await check_cluster(call, client)
        count = await partitions_of(client, topic)
    wanted = Wanted(
        topic=topic,
        partitions=_partitions(call.text("partition"), count, topic),
        start=start,
        how=how,
        conditions=selected,
        limit=None if limit < 0 else limit,
        is_following=is_following,
        last_event_id=call.request.headers.get("last-event-id"),
        isolation_level=level,
    )
    return await _streamed(call, wanted, is_sse=is_sse)


async def _streamed(call: Call, wanted: Wanted, *, is_sse: bool) -> Response:
    """Opens the stream before the answer begins, so that its first fault has a status of its own."""
    opened = call.service.reader(call.caller)
    client, schemas = await opened.__aenter__()
    try:
        stream = TopicStream(client, schemas, wanted)
        await stream.start()
    except BaseException as error:
        # Boundary to the caller: the reader is closed, also after a cancellation, and the error goes on.
        await opened.__aexit__(type(error), error, error.__traceback__)
        raise

    async def chunks() -> AsyncIterator[bytes]:
        try:
            async for chunk in (server_sent_events if is_sse else ndjson)(stream):
                yield chunk
        finally:
            await opened.__aexit__(None, None, None)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(chunks(), media_type=EVENT_STREAM if is_sse else NDJSON, headers=headers)


def _partitions(text: str | None, count: int, topic: str) -> tuple[int, ...]:
    if text is None:
        return tuple(range(count))
    numbers = text.split(",")
    if not all(one.isascii() and one.isdecimal() and len(one) < 11 for one in numbers):
        raise bad_request(f"partition={text!r}: must be numbers as 0 or 0,2")
    for one in numbers:
        if int(one) >= count:
            raise Problem(404, 40402, f"partition {one} does not exist: topic {topic!r} has {count}")
    return tuple(sorted({int(one) for one in numbers}))


_PART: Schema = an_object(
    type={"type": "string", "enum": [*TYPES, None]}, data=ANYTHING, schema_id=NUMBER, schema=TEXT, subject=TEXT,
    schema_version=NUMBER,
)  # fmt: skip
RECORD: Schema = an_object(
    partition_id=NUMBER, headers=a_list(an_object("name", name=TEXT, value=TEXT)), key=_PART, value=_PART,
    timestamp=OFFSET,
)  # fmt: skip
_READ_QUERY: dict[str, Schema] = {
    "from": TEXT,
    "partition": TEXT,
    "follow": FLAG,
    "limit": {"type": "integer", "minimum": 1},
    "format": {"type": "string", "enum": list(FORMATS)},
    "search": TEXT,
    "match": a_list(TEXT),
    "filter": TEXT,
    "committed": FLAG,
}
ENDPOINTS = (
    Endpoint(
        "POST", RECORDS, produce_records, "Produce records: JSON documents in, one answer for each.", body=RECORD,
        answer=an_object("error_code", error_code={"type": "integer"}), is_stream=True,
    ),
    Endpoint(
        "POST", f"{RECORDS}:batch", produce_batch, "Produce a batch of records.",
        body=an_object("entries", entries=a_list(an_object(id=TEXT, **RECORD["properties"]))),
        answer=an_object("successes", "failures", successes=a_list(OBJECT), failures=a_list(OBJECT)),
    ),
    Endpoint(
        "GET", RECORDS, read_records, "Read a topic as server-sent events or NDJSON.", query=_READ_QUERY,
        answer=OBJECT, answer_types=(NDJSON, EVENT_STREAM), is_stream=True,
    ),
)  # fmt: skip
