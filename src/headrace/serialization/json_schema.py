"""JSON payloads, and their validation by JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import jsonschema
import referencing
import referencing.exceptions
import referencing.jsonschema

from headrace.serialization.errors import SerializationError
from headrace.serialization.json_validation import TooManySteps, limited_steps, validator_of
from headrace.serialization.patterns import UnsupportedPattern
from headrace.serialization.plain_values import as_json
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import RegisteredSchema, SchemaReference

_DRAFT_7: Final = referencing.jsonschema.DRAFT7


class JsonCodec:
    """Reading does not validate, as in Confluent's Java deserializer: the writer has. Writing does. `any_pattern`: see
    `json_validation`."""

    def __init__(self, schema: RegisteredSchema, client: RegistryClient | None, *, any_pattern: bool = False) -> None:
        try:
            document = json.loads(schema.text)
        except ValueError as fault:
            raise SerializationError(f"schema id {schema.id} is not a JSON Schema: {fault}") from fault
        self.document = document
        registry: referencing.Registry[Any] = referencing.Registry()
        for name, text in _referenced(schema.references, client, set()):
            registry = registry.with_resource(name, _resource(json.loads(text)))
        self._validator = validator_of(document, registry, any_pattern=any_pattern)

    @property
    def record_name(self) -> str | None:
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return str(title) if title else None

    def decode(self, payload: bytes, _: bytes | None = None) -> Any:
        try:
            return json.loads(payload)
        except ValueError as fault:
            raise SerializationError(f"the payload is not JSON: {fault}") from fault

    def encode(self, value: Any) -> bytes:
        plain = as_json(value)
        try:
            with limited_steps():
                problem = jsonschema.exceptions.best_match(self._validator.iter_errors(plain))
        except referencing.exceptions.Unresolvable as fault:
            raise SerializationError(
                f"the JSON Schema uses {fault.ref!r}, which is not among its references"
            ) from fault
        except (UnsupportedPattern, TooManySteps) as fault:
            raise SerializationError(f"JSON Schema: {fault}") from fault
        except RecursionError as fault:
            raise SerializationError("the value or the JSON Schema nests too deeply") from fault
        if problem is not None:
            raise SerializationError(f"{problem.json_path}: {problem.message}")
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()

    def plain(self, value: Any) -> Any:
        return as_json(value)

    def indexes(self) -> bytes:
        return b""


def _resource(document: Any) -> referencing.Resource[Any]:
    named = document.get("$schema") if isinstance(document, dict) else None
    known = referencing.jsonschema.specification_with(named, default=_DRAFT_7) if isinstance(named, str) else _DRAFT_7
    return known.create_resource(document)


def _referenced(
    references: tuple[SchemaReference, ...], client: RegistryClient | None, seen: set[str]
) -> Iterator[tuple[str, str]]:
    for each in references:
        if client is None or each.name in seen:
            continue
        seen.add(each.name)
        found = client.referenced(each)
        yield each.name, found.text
        yield from _referenced(found.references, client, seen)
