"""Whether one XML Schema accepts all documents of another: elements, attributes, complex types.

The walk begins at the global elements, any of which may be the root of a document, and compares pairs of types. A pair
that is met again below itself (a recursive type) is compatible if the rest is.

Not looked at: types that a document chooses itself (`xsi:type`), and whether an assertion or an identity constraint
that changed became weaker: a new one counts as incompatible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xmlschema import XMLSchema11
from xmlschema.validators import XsdAnyAttribute, XsdAttribute, XsdComplexType, XsdElement, XsdGroup, XsdSimpleType

from headrace.registry.core.incompatibility import Incompatibility
from headrace.registry.core.xml_schema.content_model import TooComplex, Witness, accepts_empty, missing
from headrace.registry.core.xml_schema.model_building import declared_names, elements_in, model_of, names_of, readable
from headrace.registry.core.xml_schema.simple_types import difference
from headrace.registry.core.xml_schema.source import XSD

_ANY_TYPE: Final = f"{XSD}anyType"
Type = XsdSimpleType | XsdComplexType


class Comparison:
    """One pair of schemas. `writer` wrote the documents that `reader` must accept."""

    def __init__(self, writer: XMLSchema11, reader: XMLSchema11) -> None:
        self._writer = writer
        self._reader = reader
        self._met: set[tuple[int, int]] = set()

    def incompatibilities(self) -> list[Incompatibility]:
        return list(self._roots())

    def _roots(self) -> Iterator[Incompatibility]:
        for name, element in sorted(self._writer.maps.elements.items()):
            if element.abstract or element.target_namespace != self._writer.target_namespace:
                continue
            path = f"/{readable(name)}"
            other = self._reader.maps.elements.get(name)
            if other is None or other.abstract:
                yield _found(
                    "ELEMENT_REMOVED",
                    path,
                    f"the global element {readable(name)} of namespace {element.target_namespace!r} is gone",
                    "keep the element and the target namespace",
                )
            else:
                yield from self._element(element, other, path)

    def _element(self, writer: XsdElement, reader: XsdElement, path: str) -> Iterator[Incompatibility]:
        if writer.nillable and not reader.nillable:
            yield _found("NILLABLE_REMOVED", path, "the element may not be nil any more", "keep nillable='true'")
        if reader.fixed is not None and reader.fixed != writer.fixed:
            yield _found(
                "FIXED_VALUE_CHANGED", path, f"the value must be {reader.fixed!r}", "use a default instead of fixed"
            )
        added = {_identity(each) for each in reader.identities} - {_identity(each) for each in writer.identities}
        if added:
            yield _found(
                "CONSTRAINT_ADDED", path, f"the constraint {min(added)} was not there", "remove the constraint"
            )
        yield from self._type(writer.type, reader.type, path)

    def _type(self, writer: Type, reader: Type, path: str) -> Iterator[Incompatibility]:
        if reader.name == _ANY_TYPE or (id(writer), id(reader)) in self._met:
            return
        self._met.add((id(writer), id(reader)))
        if isinstance(writer, XsdSimpleType) and isinstance(reader, XsdSimpleType):
            yield from _simple(writer, reader, path)
            return
        yield from self._attributes(writer, reader, path)
        yield from self._content(writer, reader, path)
        added = _assertions(reader) - _assertions(writer)
        if added:
            yield _found("ASSERTION_ADDED", path, f"the assertion {min(added)} was not there", "remove the assertion")

    def _content(self, writer: Type, reader: Type, path: str) -> Iterator[Incompatibility]:
        old, new = _text_of(writer), _text_of(reader)
        if old is not None and new is not None:
            yield from _simple(old, new, path)
            return
        old_group, new_group = _group_of(writer), _group_of(reader)
        if old_group is None:
            if new_group is None or not (reader.has_mixed_content() and self._accepts_empty(new_group)):
                yield _found(
                    "CONTENT_CHANGED", path, "the element held a text and must hold elements now", "keep the text"
                )
            return
        if new_group is None:
            is_empty = not list(elements_in(old_group)) and not writer.has_mixed_content()
            if not (is_empty and new is not None and new.text_is_valid("")):
                yield _found(
                    "CONTENT_CHANGED", path, "the element held elements and must hold a text now", "keep the elements"
                )
            return
        if writer.has_mixed_content() and not reader.has_mixed_content():
            yield _found("MIXED_REMOVED", path, "text between elements is not allowed any more", "keep mixed='true'")
        if getattr(writer, "open_content", None) is not None and getattr(reader, "open_content", None) is None:
            yield _found("OPEN_CONTENT_REMOVED", path, "other elements are not allowed any more", "keep openContent")
        yield from self._children(old_group, new_group, path)

    def _accepts_empty(self, group: XsdGroup) -> bool:
        return accepts_empty(model_of(group, names_of(group)))

    def _children(self, writer: XsdGroup, reader: XsdGroup, path: str) -> Iterator[Incompatibility]:
        names = names_of(writer, reader)
        try:
            witness = missing(model_of(writer, names), model_of(reader, names), names)
        except TooComplex:
            yield _found(
                "TOO_COMPLEX",
                path,
                "the content models are too large to compare",
                "use smaller limits, or unbounded",
            )
            return
        if witness is not None:
            yield _explained(witness, reader, path)
        old, new = _by_name(writer), _by_name(reader)
        for name in sorted(old):
            # An element that the reader takes by a wildcard is validated by its global declaration, if there is one.
            # (An element without children is false, so `or` would not do.)
            other = new[name] if name in new else self._reader.maps.elements.get(name)
            if other is not None and (name in new or witness is None):
                yield from self._element(old[name], other, f"{path}/{readable(name)}")

    def _attributes(self, writer: Type, reader: Type, path: str) -> Iterator[Incompatibility]:
        old, new = _attributes_of(writer), _attributes_of(reader)
        wildcard = _wildcard_of(reader)
        for name, attribute in sorted(old.items()):
            where = f"{path}/@{readable(name)}"
            other = new.get(name)
            if other is None:
                if wildcard is None or not wildcard.is_matching(name):
                    yield _found(
                        "ATTRIBUTE_REMOVED",
                        where,
                        f"the attribute {readable(name)} is not allowed any more",
                        "keep the attribute and make it optional",
                    )
                continue
            if other.fixed is not None and other.fixed != attribute.fixed:
                yield _found("FIXED_VALUE_CHANGED", where, f"the value must be {other.fixed!r}", "use a default")
            if other.use == "required" and attribute.use != "required":
                yield _found("ATTRIBUTE_REQUIRED", where, "the attribute was optional", "keep use='optional'")
            yield from _simple(attribute.type, other.type, where)
        for name in sorted(new.keys() - old.keys()):
            if new[name].use == "required":
                yield _found(
                    "REQUIRED_ATTRIBUTE_ADDED",
                    f"{path}/@{readable(name)}",
                    f"the attribute {readable(name)} is required and was not there",
                    "make it optional",
                )
        before = _wildcard_of(writer)
        if before is not None and not _covers(wildcard, before):
            yield _found(
                "ANY_ATTRIBUTE_NARROWED", path, "fewer other attributes are allowed", "keep xs:anyAttribute as it was"
            )


def _found(kind: str, path: str, reason: str, way_out: str) -> Incompatibility:
    return Incompatibility(kind, path, reason, way_out)


def _simple(writer: XsdSimpleType, reader: XsdSimpleType, path: str) -> Iterator[Incompatibility]:
    found = difference(writer, reader)
    if found is not None:
        yield _found(found.kind, path, found.reason, found.way_out)


def _explained(witness: Witness, reader: XsdGroup, path: str) -> Incompatibility:
    before = ", ".join(map(readable, witness.before))
    place = f"after {before}" if before else "at the beginning"
    if witness.name is None:
        expected = " or ".join(dict.fromkeys(map(readable, witness.expected)))
        return _found(
            "REQUIRED_ELEMENT_ADDED",
            path,
            f"{place} the element may end in old documents, and {expected} must follow now",
            f"give {expected} minOccurs='0'",
        )
    name = readable(witness.name)
    if witness.name not in _by_name(reader):
        return _found(
            "ELEMENT_REMOVED",
            f"{path}/{name}",
            f"{name} {place} is not allowed any more",
            f"keep {name} with minOccurs='0'",
        )
    return _found(
        "OCCURRENCE_NARROWED",
        f"{path}/{name}",
        f"{name} {place} was allowed and is not any more",
        "allow at least as many elements as before, in the same order",
    )


def _by_name(group: XsdGroup) -> dict[str, XsdElement]:
    found: dict[str, XsdElement] = {}
    for each in elements_in(group):
        if isinstance(each, XsdElement):
            found |= declared_names(each)
    return found


def _text_of(type_: Type) -> XsdSimpleType | None:
    if isinstance(type_, XsdSimpleType):
        return type_
    return type_.content if isinstance(type_.content, XsdSimpleType) else None


def _group_of(type_: Type) -> XsdGroup | None:
    content = None if isinstance(type_, XsdSimpleType) else type_.content
    return content if isinstance(content, XsdGroup) else None


def _attributes_of(type_: Type) -> dict[str, XsdAttribute]:
    if isinstance(type_, XsdSimpleType):
        return {}
    return {
        str(name): each
        for name, each in type_.attributes.items()
        if name is not None and isinstance(each, XsdAttribute) and each.use != "prohibited"
    }


def _wildcard_of(type_: Type) -> XsdAnyAttribute | None:
    found = None if isinstance(type_, XsdSimpleType) else type_.attributes.get(None)
    return found if isinstance(found, XsdAnyAttribute) else None


def _covers(reader: XsdAnyAttribute | None, writer: XsdAnyAttribute) -> bool:
    if reader is None:
        return False
    if "##any" in reader.namespace and not reader.not_namespace:
        return True
    return (set(reader.namespace), set(reader.not_namespace)) == (set(writer.namespace), set(writer.not_namespace))


def _assertions(type_: Type) -> set[str]:
    return {str(each.path) for each in getattr(type_, "assertions", ())}


def _identity(each: object) -> str:
    name = getattr(each, "local_name", "")
    selector = getattr(getattr(each, "selector", None), "path", "")
    fields = ", ".join(str(field.path) for field in getattr(each, "fields", ()))
    return f"{type(each).__name__.removeprefix('Xsd11').removeprefix('Xsd').lower()} {name} ({selector}: {fields})"
