"""Parses JSON Schema and implements the interface of `schema_types` for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import jsonschema
import referencing
import referencing.exceptions
import referencing.jsonschema
from jsonschema.validators import validator_for

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.content import JSON
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.json_schema.comparison import Comparison
from headrace.registry.core.json_schema.node import REFERENCES, Node, resolver_in, resource_of
from headrace.registry.core.json_schema.tags import json_tags, with_json_tags
from headrace.registry.core.json_text import json_text, parse_json
from headrace.registry.core.schema_types import ParsedSchema
from headrace.registry.core.tags import TagChange, Tags
from headrace.serialization.json_validation import limited_steps

# These keywords contain values, not schemas.
_VALUES: Final = ("const", "enum", "default", "examples", "example")
# These keywords contain schemas by name.
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")


class ParsedJson:
    type = JSON

    def __init__(self, document: JsonValue, node: Node) -> None:
        self.document = document
        self.node = node

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> ParsedJson:
        document = parse_json(text, "the JSON schema")
        if not isinstance(document, dict | bool):
            raise InvalidSchema("Invalid JSON schema: a JSON schema is an object, true or false")
        _check(document)
        registry: referencing.Registry[JsonValue] = referencing.Registry()
        for name, referenced in references.items():
            resource = resource_of(parse_json(referenced, f"the referenced JSON schema '{name}'"))
            registry = registry.with_resource(name, resource)
            if resource.id() is not None:
                registry = registry.with_resource(str(resource.id()), resource)
        own = resource_of(document)
        base = own.id() or ""
        registry = registry.with_resource(base, own)
        # A reference to an anchor or an `$id` makes the library search the whole document for them, each time anew.
        with suppress(Exception):  # for example an `$id` that is no address: only a reference needs it
            registry = registry.crawl()
        node = Node(document, registry.resolver(base_uri=base))
        _check_references(node, "#")
        return cls(document, node)

    def canonical(self) -> str:
        return json_text(self.document)

    def normalized(self) -> str:
        return json_text(_sorted(self.document))

    def formatted(self, format_: str) -> str:
        return self.canonical()

    def resolved(self) -> str:
        return self.canonical()

    def incompatibilities(self, writer: ParsedSchema, *, lenient: bool) -> list[Incompatibility]:
        assert isinstance(writer, ParsedJson)
        try:
            with limited_steps():
                return Comparison(lenient=lenient).compare(writer.node, self.node)
        except referencing.exceptions.Unresolvable as fault:
            raise InvalidSchema(
                f"Invalid JSON schema: '{fault.ref}', which it or one of its references uses, leads nowhere: "
                "define it, or add a reference with that name"
            ) from fault

    def tags(self) -> Tags:
        return json_tags(self.document)

    def with_tags(self, change: TagChange) -> str:
        return json_text(with_json_tags(self.document, change))

    def field_faults(self) -> list[str]:
        return []

    def has_top_level_field(self, name: str) -> bool:
        properties = self.document.get("properties") if isinstance(self.document, dict) else None
        return isinstance(properties, dict) and name in properties


def _check(document: JsonValue) -> None:
    """Validates against the metaschema of its draft (7 unless `$schema` names another)."""
    validator = validator_for(document, default=jsonschema.Draft7Validator)
    try:
        validator.check_schema(document)
    except jsonschema.SchemaError as fault:
        where = "/".join(map(str, ("#", *fault.absolute_path)))
        raise InvalidSchema(f"Invalid JSON schema at {where}: {fault.message}") from fault
    except (OverflowError, RecursionError) as fault:
        raise InvalidSchema("Invalid JSON schema: it nests too deeply, or a pattern repeats too often") from fault


def _check_references(node: Node, at: str) -> None:
    """Every reference must resolve within the schema and its references. Nothing is fetched from other hosts."""
    for where, schema, resolver in _subschemas(node.schema, at, node.resolver):
        for keyword in REFERENCES:
            target = schema.get(keyword)
            if not isinstance(target, str):
                continue
            try:
                resolver.lookup(target)
            except referencing.exceptions.Unresolvable as fault:
                raise InvalidSchema(
                    f"Invalid JSON schema at {where}: {keyword} '{target}' leads nowhere: define it, or add a "
                    "reference with that name"
                ) from fault


def _subschemas(schema: JsonValue, at: str, resolver: Any) -> Iterator[tuple[str, dict[str, JsonValue], Any]]:
    """Each subschema with its place and its resolver."""
    if isinstance(schema, dict):
        yield at, schema, resolver
        for name, value in schema.items():
            if name in _NAMED and isinstance(value, dict):
                # The names are the user's, and none of them is a keyword.
                for key, below in value.items():
                    yield from _subschemas(below, f"{at}/{name}/{key}", resolver_in(below, resolver))
            elif name not in _VALUES:
                yield from _subschemas(value, f"{at}/{name}", resolver_in(value, resolver))
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from _subschemas(value, f"{at}/{index}", resolver_in(value, resolver))


def _sorted(document: JsonValue) -> JsonValue:
    if isinstance(document, dict):
        return {name: _sorted(document[name]) for name in sorted(document)}
    return [_sorted(each) for each in document] if isinstance(document, list) else document
