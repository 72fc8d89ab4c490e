"""One row of the table of endpoints. Routes and the OpenAPI document are derived from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from starlette.responses import Response

from headrace.http.call import Call
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue

Handler = Callable[[Call], Awaitable[Response]]
Schema = Mapping[str, JsonValue]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 2147483647}
OFFSET: Schema = {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
OBJECT: Schema = {"type": "object"}


def an_object(*required: str, **properties: Schema) -> Schema:
    """An object with these properties. The `required` ones must be given, the others may be null."""
    return {
        "type": "object",
        **({"required": list(required)} if required else {}),
        "properties": {
            name: one if name in required or not one else {**one, "nullable": True} for name, one in properties.items()
        },
    }


def a_list(items: Schema, *, least: int = 0) -> Schema:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    summary: str
    query: Mapping[str, Schema] = field(default_factory=dict)
    required_query: tuple[str, ...] = ()
    body: Schema | None = None
    """The schema of the body; None if the endpoint takes no body."""
    body_types: tuple[str, ...] = ("application/json",)
    is_body_required: bool = True
    status: int = 200
    answer: Schema | None = field(default_factory=dict)
    """The schema of the answer; None if the answer has no body."""
    answer_types: tuple[str, ...] = ("application/json",)
    is_stream: bool = False
    """The answer is a sequence of documents. The schema describes one of them."""
