"""Parses XML Schema and implements the interface of `schema_types` for it.

References stand for the files that `xs:include` and `xs:import` name: the name of a reference is the `schemaLocation`,
or the namespace of an import without one. Nothing is read from disks or other hosts.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Final

from xmlschema import XMLSchema11, XMLSchemaException
from xmlschema.validators import XsdGroup

from headrace.registry.core.content import XML
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.schema_types import ParsedSchema
from headrace.registry.core.tags import EMPTY, TagChange, Tags
from headrace.registry.core.xml_schema.comparison import Comparison
from headrace.registry.core.xml_schema.model_building import elements_in
from headrace.registry.core.xml_schema.source import XSD, canonical_text, root_of
from headrace.serialization.xml_schema import compiled_schema, imported_namespaces, plain_text

_XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"


class ParsedXml:
    type = XML

    def __init__(self, text: str, schema: XMLSchema11) -> None:
        self._text = text
        self.schema = schema

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> ParsedXml:
        return cls(text, compiled(text, references))

    def canonical(self) -> str:
        return canonical_text(self._text)

    def normalized(self) -> str:
        return canonical_text(self._text, with_annotations=False)

    def formatted(self, format_: str) -> str:
        return self.canonical()

    def resolved(self) -> str:
        return self.canonical()

    def incompatibilities(self, writer: ParsedSchema, *, lenient: bool) -> list[Incompatibility]:
        assert isinstance(writer, ParsedXml)
        return Comparison(writer.schema, self.schema).incompatibilities()

    def tags(self) -> Tags:
        return EMPTY

    def with_tags(self, change: TagChange) -> str:
        change.check_found(())
        return self.canonical()

    def field_faults(self) -> list[str]:
        return []

    def has_top_level_field(self, name: str) -> bool:
        contents = (getattr(each.type, "content", None) for each in self.schema.elements.values())
        return any(
            each.local_name == name
            for content in contents
            if isinstance(content, XsdGroup)
            for each in elements_in(content)
        )


def compiled(text: str, references: Mapping[str, str]) -> XMLSchema11:
    """Raises InvalidSchema."""
    texts = {name: plain_text(found) for name, found in references.items()}
    roots = [root_of(found, f"referenced XML schema '{name}'") for name, found in references.items()]
    roots.append(root_of(text, "XML schema"))
    for root in roots:
        _check_locations(root, texts)
    try:
        return compiled_schema(text, texts, imported_namespaces(roots))
    except XMLSchemaException as fault:
        message = str(getattr(fault, "message", None) or fault).partition("\n")[0].rstrip(":")
        path = str(getattr(fault, "path", None) or "").replace(XSD, "xs:")
        raise InvalidSchema(f"Invalid XML schema{f' at {path}' if path else ''}: {message}") from fault
    except RecursionError as fault:
        raise InvalidSchema("Invalid XML schema: it nests too deeply") from fault


def _check_locations(root: ET.Element, references: Mapping[str, str]) -> None:
    for element in root:
        kind = str(element.tag).removeprefix(XSD)
        if kind not in ("include", "import", "redefine", "override"):
            continue
        namespace = element.get("namespace", "")
        name = element.get("schemaLocation") or namespace
        if name not in references and not (kind == "import" and namespace == _XML_NAMESPACE):
            raise InvalidSchema(
                f"Invalid XML schema: xs:{kind} names '{name}', which is unknown: add a reference with that name"
            )
