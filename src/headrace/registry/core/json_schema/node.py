"""A JSON schema within its document.

A `$ref` is resolved when the schema is used. Keywords next to a `$ref`, `allOf`, `anyOf` or `oneOf` are one more schema
that must hold. `parts` returns the schema as a list of simple schemas that must all hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import referencing
import referencing.exceptions
import referencing.jsonschema

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue

# Keywords that do not affect validation.
ANNOTATIONS: Final = frozenset(
    {
        "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$comment", "$defs", "definitions", "title", "description",
        "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "format", "$vocabulary",
        "contentEncoding", "contentMediaType", "contentSchema",
    }
)  # fmt: skip
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_DEEPEST: Final = 50
_DRAFT_7: Final = referencing.jsonschema.DRAFT7


@dataclass(frozen=True, slots=True)
class EmbeddedResolver:
    """Resolves references in a schema with an `$id`: relative to it, else as in the schema around it. Strictly, that is
    wrong, but many schemas have an `$id` at each property, and references to the definitions of the whole document."""

    inner: Any
    outer: Any

    def lookup(self, reference: str) -> Any:
        try:
            return self.inner.lookup(reference)
        except referencing.exceptions.Unresolvable as fault:
            try:
                return self.outer.lookup(reference)
            except referencing.exceptions.Unresolvable:
                raise fault from None

    def in_subresource(self, resource: referencing.Resource[JsonValue]) -> Any:
        return self.inner.in_subresource(resource)


def resolver_in(schema: JsonValue, outer: Any) -> Any:
    """The resolver of references in a schema. `outer` is the one of the schema around it."""
    if not isinstance(schema, dict) or not isinstance(schema.get("$id"), str):
        return outer
    try:
        return EmbeddedResolver(outer.in_subresource(resource_of(schema)), outer)
    except ValueError:  # an `$id` that is no address
        return outer


def resource_of(document: JsonValue) -> referencing.Resource[JsonValue]:
    named = document.get("$schema") if isinstance(document, dict) else None
    known = referencing.jsonschema.specification_with(named, default=_DRAFT_7) if isinstance(named, str) else _DRAFT_7
    return known.create_resource(document)


@dataclass(frozen=True, slots=True)
class Node:
    schema: JsonValue  # a dict, True or False
    resolver: JsonValue

    def at(self, schema: JsonValue) -> Node:
        return Node(schema, resolver_in(schema, self.resolver))

    def resolved(self) -> Node:
        """Follows references that have no other keywords next to them."""
        node = self
        for _ in range(_DEEPEST):
            name = node._lone_reference()
            if name is None:
                return node
            node = node._follow(name)
        return node.at(True)

    def _follow(self, name: str) -> Node:
        found = self.resolver.lookup(self.schema[name])
        return Node(found.contents, found.resolver)

    def _lone_reference(self) -> str | None:
        if not isinstance(self.schema, dict):
            return None
        name = next((each for each in REFERENCES if each in self.schema), None)
        return name if name is not None and not (self._rules().keys() - {name}) else None

    def _rules(self) -> dict[str, JsonValue]:
        return {
            name: value for name, value in self.schema.items() if name not in ANNOTATIONS and not name.startswith("x-")
        }

    @property
    def accepts_all(self) -> bool:
        return self.schema is True or (isinstance(self.schema, dict) and not self._rules())

    @property
    def accepts_none(self) -> bool:
        return self.schema is False

    @property
    def keywords(self) -> Mapping[str, JsonValue]:
        return self.schema if isinstance(self.schema, dict) else {}

    @property
    def has_default(self) -> bool:
        return "default" in self.keywords

    def below(self, name: str, absent: JsonValue = True) -> Node:
        return self.at(self.keywords.get(name, absent))

    def parts(self, known: set[int] | None = None) -> list[Node]:
        """Simple schemas that must all hold: plain keywords, or one `anyOf`, `oneOf`, `not`, `enum` or `const`.

        `known` has the ids of the schemas whose parts are in the result. Without it a chain of definitions that each
        name the next one twice would take exponential time, and a schema that names itself would not end.
        """
        node = self.resolved()
        if not isinstance(node.schema, dict):
            return [node]
        known = set() if known is None else known
        if id(node.schema) in known:
            return []
        known.add(id(node.schema))
        rules = node._rules()
        special = [name for name in (*REFERENCES, *_COMBINED, "not", "enum", "const") if name in rules]
        if not special:
            return [node]
        found: list[Node] = []
        plain = {name: value for name, value in rules.items() if name not in special}
        if plain:
            found.append(node.at(plain))
        for name in special:
            if name in REFERENCES:
                found += node._follow(name).parts(known)
            elif name == "allOf" or (name in _COMBINED and len(rules[name]) == 1):
                for each in rules[name]:
                    found += node.at(each).parts(known)
            else:
                found.append(node.at({name: rules[name]}))
        return [each for each in found if not each.accepts_all] or [node.at(True)]
