"""The OpenAPI document, derived from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headrace import __version__
from headrace.http.endpoint import TEXT, Endpoint
from headrace.kernel.json_values import JsonObject

_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_PROBLEM: Final = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": TEXT},
}
_PROBLEMS: Final = {
    "400": "The request has a mistake.",
    "401": "The request has no login, or the brokers refused it.",
    "403": "The caller lacks the right.",
    "404": "The resource does not exist.",
    "405": "The path does not take this method.",
    "406": "The service cannot answer in the types that the request accepts.",
    "409": "The resource is in another state.",
    "413": "The body is too large.",
    "415": "The body has another type.",
    "422": "A field of the body has a mistake.",
    "429": "The caller has too many requests.",
    "500": "The brokers failed, or the service has a bug.",
    "501": "The brokers do not support this.",
    "503": "No broker answers.",
}


def document(endpoints: Sequence[Endpoint]) -> JsonObject:
    paths: dict[str, JsonObject] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Headrace HTTP API",
            "version": __version__,
            "description": "Confluent's REST Proxy v3 and v2, and topics as streams.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }


def _operation(one: Endpoint) -> JsonObject:
    named = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in _IN_PATH.findall(one.path)]
    queried = [
        {"name": name, "in": "query", "required": name in one.required_query, "schema": schema}
        for name, schema in one.query.items()
    ]
    operation: JsonObject = {
        "operationId": f"{one.handler.__name__}_{_id_of(one.path)}",
        "summary": one.summary,
        "tags": [one.path.split("/")[1]],
        "parameters": [*named, *queried],
        "responses": {**_success(one), **_failures()},
    }
    if one.body is not None:
        content = {kind: {"schema": one.body} for kind in one.body_types}
        operation["requestBody"] = {"required": one.is_body_required, "content": content}
    return operation


def _id_of(path: str) -> str:
    return re.sub(r"\W+", "_", path).strip("_")


def _success(one: Endpoint) -> JsonObject:
    if one.answer is None:
        return {str(one.status): {"description": "Done."}}
    # A stream is a sequence of documents, which OpenAPI 3.0 cannot describe: the schema is in the description.
    schema = {} if one.is_stream else one.answer
    text = "A sequence of JSON documents." if one.is_stream else "The answer."
    content = {kind: {"schema": schema} for kind in one.answer_types}
    success = {str(one.status): {"description": text, "content": content}}
    if one.path.endswith(":batch"):
        success["207"] = {"description": "Some records failed.", "content": content}
    if one.status == 201:
        success["200"] = {"description": "Only validated.", "content": content}
    return success


def _failures() -> JsonObject:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": text, "content": content} for status, text in _PROBLEMS.items()}
