"""Parses the text of an Avro schema with its references, for fastavro and for our own writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from headrace.kernel.dataclass import dataclass
from headrace.serialization.errors import SerializationError
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import RegisteredSchema, SchemaReference


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """`root` is fastavro's form: names are full names. `named` holds every named type, also of references."""

    root: Any
    named: dict[str, Any]

    def resolved(self, node: Any) -> Any:
        """The definition of a name; every other node as it is."""
        return self.named.get(node, node) if isinstance(node, str) else node

    @property
    def record_name(self) -> str | None:
        name = self.resolved(self.root).get("name") if isinstance(self.resolved(self.root), dict) else None
        return str(name) if name else None


def parse_avro(schema: RegisteredSchema, client: RegistryClient | None) -> AvroSchema:
    """Raises SerializationError if the text is not an Avro schema."""
    named: dict[str, Any] = {}
    try:
        for each in _dependencies(schema.references, client, set()):
            fastavro.parse_schema(json.loads(each.text), named_schemas=named)
        root = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    except (ValueError, TypeError, KeyError, SchemaParseException) as fault:
        raise SerializationError(f"schema id {schema.id} is not an Avro schema: {fault}") from fault
    return AvroSchema(root, named)


def _dependencies(
    references: tuple[SchemaReference, ...], client: RegistryClient | None, seen: set[tuple[str, int]]
) -> Iterator[RegisteredSchema]:
    """Every referenced schema once, its own references first."""
    for reference in references:
        place = (reference.subject, reference.version)
        if place in seen or client is None:
            continue
        seen.add(place)
        found = client.referenced(reference)
        yield from _dependencies(found.references, client, seen)
        yield found
