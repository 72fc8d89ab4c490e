"""One interface for all schema types: Avro, JSON Schema, Protobuf, and XML Schema where it is turned on.

Parsing is pure and there are few texts, so a cache of limited size keeps parsed schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Protocol

from headrace.registry.core.content import AVRO, JSON, PROTOBUF, XML
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.tags import TagChange, Tags

# A parsed schema is a few times as large as its text.
_CACHED_SCHEMAS: Final = 1000


class ParsedSchema(Protocol):
    @property
    def type(self) -> str: ...

    def canonical(self) -> str:
        """The text that the registry stores and hashes."""
        ...

    def normalized(self) -> str:
        """The text for `normalize=true`, equal for schemas that differ only in order or form."""
        ...

    def formatted(self, format_: str) -> str:
        """The text in a format of this type. As in Confluent's registry, an unknown format means the canonical text."""
        ...

    def resolved(self) -> str:
        """The text with all references inlined, if the type supports it."""
        ...

    def incompatibilities(self, writer: ParsedSchema, *, lenient: bool) -> list[Incompatibility]:
        """Reasons why this schema, as the reader, cannot read data of `writer` (of the same type)."""
        ...

    def tags(self) -> Tags:
        """The tags that stand in the text."""
        ...

    def with_tags(self, change: TagChange) -> str:
        """The canonical text with other tags. Raises InvalidSchema if the change names an unknown entity."""
        ...

    def field_faults(self) -> list[str]:
        """What is wrong with fields that only the setting `validateFields` checks."""
        ...

    def has_top_level_field(self, name: str) -> bool: ...


Parser = Callable[[str, Mapping[str, str]], ParsedSchema]


def _avro(text: str, references: Mapping[str, str]) -> ParsedSchema:
    from headrace.registry.core.avro.parsed import ParsedAvro

    return ParsedAvro.parse(text, references)


def _json(text: str, references: Mapping[str, str]) -> ParsedSchema:
    from headrace.registry.core.json_schema.parsed import ParsedJson

    return ParsedJson.parse(text, references)


def _protobuf(text: str, references: Mapping[str, str]) -> ParsedSchema:
    from headrace.registry.core.protobuf.parsed import ParsedProtobuf

    return ParsedProtobuf.parse(text, references)


def _xml(text: str, references: Mapping[str, str]) -> ParsedSchema:
    try:
        from headrace.registry.core.xml_schema.parsed import ParsedXml
    except ModuleNotFoundError as fault:
        raise InvalidSchema(
            f"schemaType XML needs the library {fault.name}: install headrace[xml] where the registry runs"
        ) from fault

    return ParsedXml.parse(text, references)


# Each type imports its own libraries when it is first used.
SCHEMA_TYPES: Final[dict[str, Parser]] = {AVRO: _avro, PROTOBUF: _protobuf, JSON: _json, XML: _xml}
# Clients that list types expect these. Others can be turned on.
USUAL_TYPES: Final = (AVRO, PROTOBUF, JSON)


def parse(type_: str, text: str, references: Mapping[str, str]) -> ParsedSchema:
    """`references`: the text of each reference by its name, dependencies first. Raises InvalidSchema."""
    if type_ not in SCHEMA_TYPES:
        known = ", ".join(USUAL_TYPES)
        raise InvalidSchema(f"Invalid schema type {type_}. Valid types are {known}")
    if not text.strip():
        raise InvalidSchema("Empty schema: the field `schema` must hold the text of the schema")
    return _parse(type_, text, tuple(references.items()))


@lru_cache(maxsize=_CACHED_SCHEMAS)
def _parse(type_: str, text: str, references: tuple[tuple[str, str], ...]) -> ParsedSchema:
    return SCHEMA_TYPES[type_](text, dict(references))
