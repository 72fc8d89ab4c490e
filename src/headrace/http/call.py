"""One request: its caller, its parameters, and answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.web.body import json_body
from headrace.web.errors import Problem, bad_request, unprocessable
from headrace.web.login import Caller

if TYPE_CHECKING:
    from headrace.http.service import HttpService

MOST_INT32 = (1 << 31) - 1
MOST_INT64 = (1 << 63) - 1


class Call:
    def __init__(self, request: Request, service: HttpService) -> None:
        self.request = request
        self.service = service

    @property
    def caller(self) -> Caller:
        caller: Caller = self.request.state.caller
        return caller

    def client(self) -> AbstractAsyncContextManager[ClusterClient]:
        """A client that is logged in as the caller."""
        return self.service.clients.lease(self.caller)

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def number_in_path(self, name: str) -> int:
        """Raises Problem 404: what has no number does not exist."""
        text = self.path(name)
        if not text.isascii() or not text.isdecimal() or int(text) > MOST_INT32:
            raise Problem(404, 404, f"{name} {text!r}: must be a number from 0 to {MOST_INT32}")
        return int(text)

    def text(self, name: str) -> str | None:
        return self.request.query_params.get(name)

    def integer(self, name: str, default: int, *, least: int = 0, most: int = MOST_INT32) -> int:
        text = self.text(name)
        if text is None:
            return default
        return checked_integer(text, name, least=least, most=most)

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise bad_request(f"{name}={text!r}: must be true or false")
        return text.lower() == "true"

    async def document(self) -> JsonObject:
        """The body as a JSON object. Raises Problem 400, 413, 415 or 422."""
        found = await json_body(self.request)
        if not isinstance(found, dict):
            raise unprocessable("the body must be a JSON object")
        return found

    def url(self, path: str) -> str:
        return str(self.request.base_url).rstrip("/") + path


def checked_integer(value: object, name: str, *, least: int, most: int) -> int:
    """Raises Problem 400."""
    if isinstance(value, str) and value.lstrip("-").isascii() and value.lstrip("-").isdecimal() and len(value) < 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise bad_request(f"{name}={value!r}: must be a number from {least} to {most}")
    return value


def field(
    document: Mapping[str, JsonValue], name: str, kind: type | tuple[type, ...], default: JsonValue = ...
) -> JsonValue:
    """A field of a body. Raises Problem 422 if it is missing or has another type."""
    value = document.get(name)
    if value is None:
        if default is ...:
            raise unprocessable(f"{name}: must be given")
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        names = {str: "text", int: "a number", list: "a list", dict: "an object", bool: "true or false"}
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise unprocessable(f"{name}: must be {' or '.join(names[one] for one in kinds)}")
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value <= MOST_INT64:
        raise unprocessable(f"{name}={value}: must fit into 64 bits")
    return value


def as_json(document: JsonValue, status: int = 200, *, media_type: str = "application/json") -> Response:
    return Response(dumped(document), status, media_type=media_type)


# `json.dumps` with these arguments would make an encoder for every call.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def dumped(document: JsonValue) -> bytes:
    """Compact JSON."""
    return _encode(document).encode("utf-8", "replace")


def no_content() -> Response:
    return Response(status_code=204)


async def partitions_of(client: ClusterClient, topic: str) -> int:
    """The number of partitions. Raises Refused for a topic that is unknown or hidden."""
    known = client.metadata.topics.get(topic)
    if known is None or known.error_code:
        known = (await client.refresh([topic])).topics.get(topic)
    code = ErrorCode.unknown_topic_or_partition if known is None else ErrorCode(known.error_code)
    if code is not ErrorCode.none:
        client.metadata.topics.pop(topic, None)
        raise Refused(code, reason_of(topic, code))
    assert known is not None
    return len(known.partitions)


def reason_of(topic: str, code: ErrorCode) -> str:
    if code is ErrorCode.unknown_topic_or_partition:
        return f"topic {topic!r} does not exist"
    if code is ErrorCode.topic_authorization_failed:
        return f"not authorized to access topic {topic!r}"
    return f"topic {topic!r}: {code.name.replace('_', ' ')}"
