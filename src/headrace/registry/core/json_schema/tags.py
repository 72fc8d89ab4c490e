"""Tags of a JSON schema: the keyword `confluent:tags` of objects and properties.

Paths name the way through the schema: `object.total`, `object.items.array.object.sku`, `oneOf.0.object.id`,
`object.definitions.Address.object.city`.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.tags import FIELD, RECORD, TAGS, Entity, TagChange, Tags, names_in

_COMBINED: Final = ("oneOf", "anyOf", "allOf")
_CONDITIONS: Final = ("if", "then", "else")


def json_tags(document: JsonValue) -> Tags:
    found = _entities(document, "", in_field=False)
    return {entity: names_in(schema[TAGS]) for entity, schema in found if names_in(schema.get(TAGS))}


def with_json_tags(document: JsonValue, change: TagChange) -> JsonValue:
    """A copy with the changed tags. Raises InvalidSchema for an unknown entity."""
    changed = deepcopy(document)
    found = dict(_entities(changed, "", in_field=False))
    change.check_found(found)
    for entity, schema in found.items():
        tags = change.applied(entity, names_in(schema.get(TAGS)))
        if tags:
            schema[TAGS] = tags
        else:
            schema.pop(TAGS, None)
    return changed


def _entities(schema: JsonValue, scope: str, *, in_field: bool) -> Iterator[tuple[Entity, dict[str, JsonValue]]]:
    """Each object and property with its schema. A property that is an object is the property."""
    if not isinstance(schema, dict):
        return
    for name in _COMBINED:
        for index, branch in enumerate(_list(schema.get(name))):
            yield from _entities(branch, f"{scope}{name}.{index}.", in_field=False)
    for name in _CONDITIONS:
        yield from _entities(schema.get(name), f"{scope}conditional.{name}.", in_field=False)
    yield from _entities(schema.get("not"), f"{scope}not.", in_field=False)
    yield from _entities(schema.get("items"), f"{scope}array.", in_field=False)
    if schema.get("type") == "object" or isinstance(schema.get("properties"), dict):
        yield from _object(schema, f"{scope}object", in_field=in_field)


def _object(
    schema: dict[str, JsonValue], path: str, *, in_field: bool
) -> Iterator[tuple[Entity, dict[str, JsonValue]]]:
    if not in_field:
        yield Entity(path, RECORD), schema
    for name, value in _members(schema.get("properties")):
        if isinstance(value, dict):
            yield Entity(f"{path}.{name}", FIELD), value
            yield from _entities(value, f"{path}.{name}.", in_field=True)
    for keyword in ("definitions", "$defs"):
        for name, value in _members(schema.get(keyword)):
            yield from _entities(value, f"{path}.{keyword}.{name}.", in_field=False)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _members(value: JsonValue) -> list[tuple[str, JsonValue]]:
    return list(value.items()) if isinstance(value, dict) else []
