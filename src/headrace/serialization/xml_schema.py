"""XML payloads by XML Schema.

As JSON, a document is an object with its root: `{"order": {"@day": "2026-01-31", "id": 7}}`, attributes with `@`, text
beside attributes or elements as `$`, names without namespaces. The library opens no file and no URL: references stand
for the files that `xs:include` and `xs:import` name.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from xmlschema import XMLResource, XMLSchema11, XMLSchemaException
from xmlschema.loaders import SchemaLoader
from xmlschema.utils.urls import normalize_url

from headrace.serialization.errors import SerializationError
from headrace.serialization.plain_values import as_json
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import RegisteredSchema, SchemaReference


class XmlCodec:
    def __init__(self, schema: RegisteredSchema, client: RegistryClient | None) -> None:
        texts = {name: plain_text(text) for name, text in _referenced(schema.references, client, set())}
        try:
            roots = [ET.fromstring(text) for text in (plain_text(schema.text), *texts.values())]
            self._schema = compiled_schema(schema.text, texts, imported_namespaces(roots))
        except (XMLSchemaException, ET.ParseError) as fault:
            raise SerializationError(f"schema id {schema.id} is not an XML Schema: {_first_line(fault)}") from fault

    @property
    def record_name(self) -> str | None:
        return next((str(element.local_name) for element in self._schema.elements.values()), None)

    def decode(self, payload: bytes, _: bytes | None = None) -> Any:
        try:
            return self._schema.decode(
                self._resource(payload), preserve_root=True, decimal_type=str, strip_namespaces=True
            )
        except (XMLSchemaException, ET.ParseError, ValueError) as fault:
            raise SerializationError(f"the payload is not XML of its schema: {_first_line(fault)}") from fault

    def encode(self, value: Any) -> bytes:
        """A JSON object with the root element, or the text of a document."""
        try:
            if isinstance(value, str):
                self._schema.validate(self._resource(value.encode()))
                return value.encode()
            plain = as_json(value)
            if not isinstance(plain, dict) or len(plain) != 1:
                raise SerializationError("an XML value is an object with one field, the root element, or text")
            ((root, content),) = plain.items()
            prefix, namespaces = self._naming()
            element = self._schema.encode(
                {prefix + root: content}, path=prefix + root, preserve_root=True, namespaces=namespaces
            )
        except (XMLSchemaException, ET.ParseError) as fault:
            raise SerializationError(_first_line(fault)) from fault
        if not isinstance(element, ET.Element):
            raise SerializationError(f"{root!r} is not a global element of the schema")
        return ET.tostring(element)

    def plain(self, value: Any) -> Any:
        return as_json(value)

    def indexes(self) -> bytes:
        return b""

    def _resource(self, payload: bytes) -> XMLResource:
        return XMLResource(payload, defuse="always", allow="none")

    def _naming(self) -> tuple[str, dict[str, str]]:
        """The prefix of the root and the namespaces of names in JSON. Elements inside the root have the target
        namespace if the schema says so (`elementFormDefault`), else none."""
        target = self._schema.target_namespace
        if not target:
            return "", {}
        return ("", {"": target}) if self._schema.element_form_default == "qualified" else ("root:", {"root": target})


def compiled_schema(text: str, references: Mapping[str, str], namespaces: Collection[str]) -> XMLSchema11:
    """`references`: plain texts by location. `namespaces`: imported without a location, so that the name
    of their reference is the namespace. Raises XMLSchemaException, ET.ParseError."""
    loader = type("ReferenceLoader", (_ReferenceLoader,), {"texts": references})
    locations = [(name, name) for name in references if name in namespaces]
    return XMLSchema11(plain_text(text), allow="none", locations=locations, loader_class=loader, use_fallback=False)


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
            kept[namespace, name] = super().load_schema(self.texts[name], namespace, base_url, build, partial)
        return kept[namespace, name]


def plain_text(text: str) -> str:
    """The text without its XML declaration, which speaks of bytes that the text once was. Spaces stand in its place, so
    that positions in messages stay."""
    end = text.find("?>")
    if not text.lstrip("\ufeff \t\r\n").startswith("<?xml") or end < 0:
        return text
    return "".join("\n" if each == "\n" else " " for each in text[: end + 2]) + text[end + 2 :]


def imported_namespaces(roots: Collection[ET.Element]) -> set[str]:
    """Namespaces that are imported without a location."""
    imports = (each for root in roots for each in root.iter("{http://www.w3.org/2001/XMLSchema}import"))
    return {each.get("namespace", "") for each in imports if not each.get("schemaLocation")}


def _first_line(fault: Exception) -> str:
    reason = getattr(fault, "reason", None) or getattr(fault, "message", None) or fault
    element = getattr(fault, "elem", None)
    path = getattr(fault, "path", None) or (None if element is None else element.tag)
    return f"{str(reason).partition(chr(10))[0].rstrip(':')}{f' (at {path})' if path else ''}"


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
