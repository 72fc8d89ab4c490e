"""Which records a reader wants.

    search=TEXT           the text occurs in the key or the value, upper and lower case alike
    match=FIELD=VALUE     a field equals a value: match=value.status=paid, match=key=alice; may be given several times
    filter=EXPRESSION     a CEL expression over topic, partition, offset, timestamp, key, value and headers:
                          filter=value.amount > 100 && has(value.customer)

A record passes if all conditions hold. An expression that fails on a record, for example because a field is missing,
does not select it. One that takes too many steps for a record ends the reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.serialization.cel import LONGEST_FILTER, CelExpression, NotCel, TooCostly
from headrace.web.errors import bad_request

Condition = Callable[[JsonObject], bool]
_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")


def conditions(search: str | None, matches: Sequence[str], expression: str | None) -> list[Condition]:
    """Raises Problem 400 with the place of a mistake."""
    for text in (search or "", *matches, expression or ""):
        if len(text) > LONGEST_FILTER:
            raise bad_request(f"a filter has {len(text)} characters; at most {LONGEST_FILTER} are allowed")
    found: list[Condition] = []
    if search:
        found.append(_searching(search.lower()))
    found += [_matching(text) for text in matches]
    if expression:
        found.append(_expression(expression))
    return found


def _searching(wanted: str) -> Condition:
    def holds(document: JsonObject) -> bool:
        return any(wanted in _text(document[name]).lower() for name in ("key", "value"))

    return holds


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _matching(text: str) -> Condition:
    path, equals, wanted = text.partition("=")
    first, *rest = path.strip().split(".")
    if not equals or first not in _FIELDS:
        raise bad_request(f"match={text!r}: must be FIELD=VALUE, and the field begins with {', '.join(_FIELDS)}")

    def holds(document: JsonObject) -> bool:
        found: JsonValue = document[first]
        for name in rest:
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return False
        return _text(found) == wanted or (found is None and wanted == "null")

    return holds


def _expression(text: str) -> Condition:
    from celpy.adapter import json_to_cel  # half a second: imported when a reader uses it

    try:
        expression = CelExpression(text)
    except NotCel as error:
        where = f" at column {error.column}" if error.column else f": {error}"
        raise bad_request(f"filter={text!r}: not a CEL expression{where}") from None

    def holds(document: JsonObject) -> bool:
        names = {name: json_to_cel(document[name]) for name in _FIELDS}
        names["headers"] = json_to_cel({one["name"]: one["value"] for one in document["headers"]})
        try:
            return expression.holds(names)
        except TooCostly as fault:
            place = f"partition {document['partition']}, offset {document['offset']}"
            raise bad_request(f"filter={text!r}: {fault} ({place})") from None

    return holds
