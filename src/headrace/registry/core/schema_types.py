"""The types of schemas that the registry knows, behind one interface.

Parsing is pure and the texts are few, so parsed schemas are kept in a cache of limited size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Protocol

from headrace.registry.core.content import AVRO, JSON, PROTOBUF
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.incompatibility import Incompatibility

# A parsed schema is a few times as large as its text.
_CACHED_SCHEMAS: Final = 1000


class ParsedSchema(Protocol):
    @property
    def type(self) -> str: ...

    def canonical(self) -> str:
        """The text that is stored and hashed."""
        ...

    def normalized(self) -> str:
        """The text for `normalize=true`: schemas that differ only in order or form have the same."""
        ...

    def formatted(self, format_: str) -> str:
        """The text in a format of this type; an unknown format gives the canonical text, as Confluent's does."""
        ...

    def resolved(self) -> str:
        """The text with all references written into it, where the type can do that."""
        ...

    def incompatibilities(self, writer: ParsedSchema, *, lenient: bool) -> list[Incompatibility]:
        """Why this schema, as the reader, cannot read what `writer` (of the same type) wrote."""
        ...


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


# Each type imports its own libraries when it is first used.
SCHEMA_TYPES: Final[dict[str, Parser]] = {AVRO: _avro, PROTOBUF: _protobuf, JSON: _json}


def parse(type_: str, text: str, references: Mapping[str, str]) -> ParsedSchema:
    """`references`: the text of each reference by its name, dependencies first. Raises InvalidSchema."""
    if type_ not in SCHEMA_TYPES:
        known = ", ".join(SCHEMA_TYPES)
        raise InvalidSchema(f"Invalid schema type {type_}. Valid types are {known}")
    if not text.strip():
        raise InvalidSchema("Empty schema: the field `schema` must hold the text of the schema")
    return _parse(type_, text, tuple(references.items()))


@lru_cache(maxsize=_CACHED_SCHEMAS)
def _parse(type_: str, text: str, references: tuple[tuple[str, str], ...]) -> ParsedSchema:
    return SCHEMA_TYPES[type_](text, dict(references))
