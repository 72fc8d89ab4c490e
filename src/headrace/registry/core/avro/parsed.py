"""Implements the interface of `schema_types` for Avro."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.registry.core.avro.compatibility import avro_incompatibilities
from headrace.registry.core.avro.defaults import default_faults
from headrace.registry.core.avro.parsing import parse_avro
from headrace.registry.core.avro.printing import avro_text
from headrace.registry.core.avro.schema import Record, Schema
from headrace.registry.core.avro.tags import avro_tags, with_avro_tags
from headrace.registry.core.content import AVRO
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.schema_types import ParsedSchema
from headrace.registry.core.tags import TagChange, Tags


class ParsedAvro:
    type = AVRO

    def __init__(self, schema: Schema, referenced: frozenset[str]) -> None:
        self.schema = schema
        self._referenced = referenced

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> ParsedAvro:
        return cls(*parse_avro(text, references.values()))

    def canonical(self) -> str:
        return avro_text(self.schema, self._referenced)

    def normalized(self) -> str:
        return avro_text(self.schema, self._referenced, normalize=True)

    def formatted(self, format_: str) -> str:
        return self.resolved() if format_ == "resolved" else self.canonical()

    def resolved(self) -> str:
        return avro_text(self.schema)

    def incompatibilities(self, writer: ParsedSchema, *, lenient: bool) -> list[Incompatibility]:
        assert isinstance(writer, ParsedAvro)
        return avro_incompatibilities(self.schema, writer.schema)

    def tags(self) -> Tags:
        return avro_tags(self.schema)

    def with_tags(self, change: TagChange) -> str:
        return avro_text(with_avro_tags(self.schema, change), self._referenced)

    def field_faults(self) -> list[str]:
        return default_faults(self.schema)

    def has_top_level_field(self, name: str) -> bool:
        return isinstance(self.schema, Record) and name in self.schema.fields
