"""Tags of an Avro schema: the property `confluent:tags` of records and fields."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.avro.schema import NO_DEFAULT, Array, Map, Record, Schema, Union
from headrace.registry.core.tags import FIELD, RECORD, TAGS, Entity, TagChange, Tags, names_in


def avro_tags(schema: Schema) -> Tags:
    return {entity: names_in(props[TAGS]) for entity, props in _entities(schema, set()) if names_in(props.get(TAGS))}


def with_avro_tags(schema: Schema, change: TagChange) -> Schema:
    """A copy with the changed tags. Raises InvalidSchema for an unknown entity."""
    changed = deepcopy(schema, {id(NO_DEFAULT): NO_DEFAULT})
    found = dict(_entities(changed, set()))
    change.check_found(found)
    for entity, props in found.items():
        tags = change.applied(entity, names_in(props.get(TAGS)))
        if tags:
            props[TAGS] = tags
        else:
            props.pop(TAGS, None)
    return changed


def _entities(schema: Schema, visited: set[str]) -> Iterator[tuple[Entity, dict[str, JsonValue]]]:
    """Each record and field with its properties."""
    if isinstance(schema, Union):
        for branch in schema.branches:
            yield from _entities(branch, visited)
    elif isinstance(schema, Array):
        yield from _entities(schema.items, visited)
    elif isinstance(schema, Map):
        yield from _entities(schema.values, visited)
    elif isinstance(schema, Record) and schema.name.full not in visited:
        visited.add(schema.name.full)
        yield Entity(schema.name.full, RECORD), schema.props
        for field in schema.fields.values():
            yield Entity(f"{schema.name.full}.{field.name}", FIELD), field.props
            yield from _entities(field.schema, visited)
