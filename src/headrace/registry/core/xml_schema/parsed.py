"""Parses XML Schema and implements the interface of `schema_types` for it.

References stand for the files that `xs:include` and `xs:import` name: the name of a reference is the `schemaLocation`,
or the namespace of an import without one. Nothing is read from disks or other hosts.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Final

from xmlschema import XMLSchema11, XMLSchemaException
from xmlschema.loaders import SchemaLoader
from xmlschema.utils.urls import normalize_url
from xmlschema.validators import XsdGroup

from headrace.registry.core.content import XML
from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.schema_types import ParsedSchema
from headrace.registry.core.tags import EMPTY, TagChange, Tags
from headrace.registry.core.xml_schema.comparison import Comparison
from headrace.registry.core.xml_schema.model_building import elements_in
from headrace.registry.core.xml_schema.source import XSD, canonical_text, plain_text, root_of

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
    loader = type("ReferenceLoader", (_ReferenceLoader,), {"texts": texts})
    # An import without a location names its namespace.
    imports = (each for root in roots for each in root.iter(f"{XSD}import"))
    namespaces = {each.get("namespace", "") for each in imports if not each.get("schemaLocation")}
    locations = [(name, name) for name in texts if name in namespaces]
    try:
        return XMLSchema11(plain_text(text), allow="none", locations=locations, loader_class=loader, use_fallback=False)
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


class _ReferenceLoader(SchemaLoader):
    """Gives the text of a reference where the library would open a file or a URL."""

    texts: Mapping[str, str]

    def load_schema(self, source, namespace=None, base_url=None, build=False, partial=False):  # type: ignore[no-untyped-def]
        names = (name for name in self.texts if source in (name, normalize_url(name, base_url), normalize_url(name)))
        name = next(names, None)
        if name is None:
            return super().load_schema(source, namespace, base_url, build, partial)
        kept = self.__dict__.setdefault("kept", {})
        if (namespace, name) not in kept:
            text = self.texts[name]
            kept[namespace, name] = super().load_schema(text, namespace, base_url, build, partial)
        return kept[namespace, name]
