"""Pages as HTML for people and as JSON for programs, from the same data.

A page is a `View`: the name of a template and plain data. `Accept: application/json` gets the data itself. Templates
escape every value; nothing is marked as safe.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from headrace.console.core import formats
from headrace.console.core.listing import Listing
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.kernel.plurals import counted


@dataclass(frozen=True, slots=True)
class View:
    template: str
    title: str
    data: Mapping[str, object]
    status: int = 200
    section: str = ""
    """The entry of the navigation that is marked."""


def wants_json(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return "application/json" in accept and "text/html" not in accept


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("headrace.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters |= {
        "number": formats.number,
        "rate": formats.rate,
        "amount": formats.amount,
        "size": formats.size,
        "duration": formats.duration,
        "setting": formats.setting,
        "instant": formats.instant,
        "instant_text": formats.instant_text,
        "plain": lambda text: text.replace("`", ""),
        "compact_json": lambda value: json.dumps(document(value), ensure_ascii=False, separators=(",", ":")),
        "pretty_json": lambda value: json.dumps(document(value), ensure_ascii=False, indent=2),
    }
    made.globals["counted"] = counted
    made.globals["static"] = static_address
    return made


@cache
def static_address(name: str) -> str:
    """The address of a static file, with a part that changes with its content: browsers may keep it for ever."""
    import hashlib

    data = resources.files("headrace.console").joinpath("static", *name.split("/")).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(data).hexdigest()[:12]}"


def html(view: View, context: Mapping[str, object]) -> Response:
    text = environment().get_template(view.template).render(**view.data, **context, title=view.title, view=view)
    return HTMLResponse(text, status_code=view.status, headers={"cache-control": "no-store"})


def as_json(view: View) -> Response:
    return JSONResponse(document(view.data), status_code=view.status, headers={"cache-control": "no-store"})


def document(value: object) -> JsonValue:
    """Plain JSON of dataclasses, mappings and sequences. Bytes are hexadecimal."""
    if isinstance(value, Listing):
        return {
            "rows": document(value.rows), "total": value.total, "page": value.page, "pages": value.pages,
        }  # fmt: skip
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: document(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): document(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [document(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
