"""Produces records to a topic or a partition: `{"records": [{"key": …, "value": …, "partition": …}]}`."""

from __future__ import annotations

import time

from starlette.responses import Response

from headrace.http.call import MOST_INT32, Call, checked_integer, field, partitions_of
from headrace.http.endpoint import ANYTHING, NUMBER, OBJECT, TEXT, Endpoint, Schema, a_list, an_object
from headrace.http.records.schemas import Schemas, encoded
from headrace.http.v2.formats import PRODUCE_TYPES, SCHEMA_KINDS, V2_JSON, encoded_plain, sent_format, v2_json
from headrace.http.v2.topics import PARTITION, TOPIC
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.records.builder import Record
from headrace.serialization.codecs import Codec
from headrace.serialization.schema import RegisteredSchema
from headrace.web.errors import Problem, unprocessable

_RETRIABLE, _FINAL = 2, 1
_MISSING_SCHEMA = {"key": 42201, "value": 42202}


class _Parts:
    """Encodes the keys or the values of one request."""

    def __init__(self, how: str, what: str, known: tuple[RegisteredSchema, Codec] | None) -> None:
        self._how, self._what, self._known = how, what, known

    def bytes_of(self, value: JsonValue) -> bytes | None:
        if value is None or self._how not in SCHEMA_KINDS:
            return encoded_plain(value, self._how, self._what)
        if self._known is None:
            code = _MISSING_SCHEMA[self._what]
            raise Problem(422, code, f"{self._what}s need {self._what}_schema or {self._what}_schema_id")
        return encoded(*self._known, value)

    @property
    def schema_id(self) -> int | None:
        return self._known[0].id if self._known else None


async def _parts(body: JsonObject, how: str, what: str, topic: str, schemas: Schemas | None) -> _Parts:
    spec = {
        "schema": field(body, f"{what}_schema", str, None),
        "schema_id": field(body, f"{what}_schema_id", int, None),
    }
    if how not in SCHEMA_KINDS or not any(value is not None for value in spec.values()):
        return _Parts(how, what, None)
    if schemas is None:
        raise Problem(422, 42205, "schemas need a registry: start headrace http with --registry URL")
    known = await schemas.writer({**spec, "type": SCHEMA_KINDS[how]}, topic, is_key=what == "key")
    return _Parts(how, what, known)


async def produce(call: Call) -> Response:
    how = sent_format(call)
    body = await call.document()
    topic = call.path("topic_name")
    fixed = call.number_in_path("partition_id") if "partition_id" in call.request.path_params else None
    listed = field(body, "records", list)
    if not listed:
        raise unprocessable("records: must hold at least one record")
    async with call.client() as client:
        count = await partitions_of(client, topic)
    if fixed is not None and fixed >= count:
        raise Problem(404, 40402, f"partition {fixed} does not exist: topic {topic!r} has {count}")
    async with call.service.producers.lease(call.caller) as producer, call.service.schemas(call.caller) as schemas:
        keys = await _parts(body, how, "key", topic, schemas)
        values = await _parts(body, how, "value", topic, schemas)
        records = [_record(one, keys, values, fixed) for one in listed]
        outcomes = await producer.send(topic, records)
    problems = [one for one in outcomes if isinstance(one, Problem)]
    if len(problems) == len(outcomes) and problems[0].status in (401, 403):
        raise problems[0]
    offsets = []
    for one in outcomes:
        if isinstance(one, Problem):
            code = _RETRIABLE if one.status >= 500 else _FINAL
            offsets.append({"partition": None, "offset": None, "error_code": code, "error": one.message})
        else:
            offsets.append({"partition": one.partition, "offset": one.offset, "error_code": None, "error": None})
    document = {"offsets": offsets, "key_schema_id": keys.schema_id, "value_schema_id": values.schema_id}
    return v2_json(document)


def _record(one: JsonValue, keys: _Parts, values: _Parts, fixed: int | None) -> tuple[Record, int | None]:
    if not isinstance(one, dict):
        raise unprocessable("records: each must be an object with key and value")
    partition = fixed
    if partition is None and one.get("partition") is not None:
        partition = checked_integer(one["partition"], "partition", least=0, most=MOST_INT32)
    now_ms = int(time.time() * 1000)
    return Record(keys.bytes_of(one.get("key")), values.bytes_of(one.get("value")), (), now_ms), partition


_BODY: Schema = an_object(
    "records",
    records=a_list(an_object(key=ANYTHING, value=ANYTHING, partition=NUMBER), least=1),
    key_schema=TEXT, key_schema_id=NUMBER, value_schema=TEXT, value_schema_id=NUMBER,
)  # fmt: skip
ENDPOINTS = tuple(
    Endpoint("POST", path, produce, text, body=_BODY, body_types=PRODUCE_TYPES, answer=OBJECT, answer_types=(V2_JSON,))
    for path, text in ((TOPIC, "Produce records to a topic."), (PARTITION, "Produce records to a partition."))
)
