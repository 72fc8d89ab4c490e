"""The answer that carries only an error, for any API whose answer has a top-level error code.

Built from the schema: the code, the message if there is a field for it, and for every other field Kafka's default
(empty lists, -1, empty text).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kio.serial._introspect import classify_field, get_field_tag, is_optional

from headrace.wire.codec import response_schema

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_NOTHING: Final[dict[str, object]] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "uuid": None,
    "records": None,
    "float64": -1.0,
    "error_code": 0,
}


def error_answer(api_key: int, version: int, error_code: int, message: str) -> dict[str, object] | None:
    """None if the API has no top-level error code."""
    schema = response_schema(api_key, version)
    if not any(field.name == "error_code" for field in dataclasses.fields(schema)):
        return None
    answer = _nothing_of(schema)
    answer["error_code"] = error_code
    if "error_message" in answer:
        answer["error_message"] = message
    return answer


def _nothing_of(schema: type[DataclassInstance]) -> dict[str, object]:
    answer: dict[str, object] = {}
    for field in dataclasses.fields(schema):
        if get_field_tag(field) is not None:
            continue
        kind = classify_field(field)
        if kind.is_array:
            answer[field.name] = None if is_optional(field) else ()
        elif "kafka_type" in field.metadata:
            kafka_type = field.metadata["kafka_type"]
            answer[field.name] = None if is_optional(field) else _NOTHING.get(kafka_type, -1)
            if kafka_type == "datetime_i64":
                answer[field.name] = -1 if is_optional(field) else 0
        else:
            answer[field.name] = None if is_optional(field) else _nothing_of(kind.type_)
    if "throttle_time" in answer:
        answer["throttle_time"] = 0
    return answer
