"""The text of an XML Schema as elements, and its canonical text.

A document type could name files and expand without limit, so a text with one is refused before anything reads it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from headrace.registry.core.errors import InvalidSchema
from headrace.serialization.xml_schema import plain_text

XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
# More levels than any schema needs; deeper ones would exhaust the stack of the recursive walks.
_DEEPEST: Final = 200


def root_of(text: str, what: str) -> ET.Element:
    """Raises InvalidSchema with line and column."""
    _check_well_formed(text, what)
    root = ET.fromstring(plain_text(text))
    if root.tag != f"{XSD}schema":
        raise InvalidSchema(f"Invalid {what}: its root is {root.tag!r} and must be 'schema' of {XSD[1:-1]}")
    return root


def _check_well_formed(text: str, what: str) -> None:
    parser = expat.ParserCreate()
    depth = 0

    def refuse_document_type(*_: object) -> None:
        raise InvalidSchema(f"Invalid {what}: it has a document type (<!DOCTYPE>), which is not allowed: remove it")

    def opened(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise InvalidSchema(f"Invalid {what}: it nests more than {_DEEPEST} levels")

    def closed(*_: object) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = refuse_document_type
    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    try:
        parser.Parse(plain_text(text).encode(), True)
    except (expat.ExpatError, ValueError) as fault:
        raise InvalidSchema(f"Invalid {what}: {fault}") from fault


def canonical_text(text: str, *, with_annotations: bool = True) -> str:
    """The text without comments, processing instructions and white space around elements, attributes in order.

    Canonical XML would drop the declarations of prefixes that occur only in values, such as `type="shop:Item"`. Here
    all of them stay where they are.
    """
    printer = _Printer(None if with_annotations else "annotation")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = printer.opened
    parser.EndElementHandler = printer.closed
    parser.CharacterDataHandler = printer.text
    parser.Parse(plain_text(text).encode(), True)
    return "".join(printer.out)


class _Printer:
    """`omitted`: the local name of elements that are left out."""

    def __init__(self, omitted: str | None) -> None:
        self.out: list[str] = []
        self._omitted = omitted
        self._depth_of_omission = 0
        self._is_open = False

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth_of_omission or name.rpartition(":")[2] == self._omitted:
            self._depth_of_omission += 1
            return
        self._end_tag()
        in_order = sorted(attributes.items(), key=lambda each: (not each[0].startswith("xmlns"), each[0]))
        self.out += [f"<{name}", *(f" {key}={quoteattr(value)}" for key, value in in_order)]
        self._is_open = True

    def closed(self, name: str) -> None:
        if self._depth_of_omission:
            self._depth_of_omission -= 1
            return
        self.out.append("/>" if self._is_open else f"</{name}>")
        self._is_open = False

    def text(self, text: str) -> None:
        if text.strip() and not self._depth_of_omission:
            self._end_tag()
            self.out.append(escape(text.strip()))

    def _end_tag(self) -> None:
        if self._is_open:
            self.out.append(">")
            self._is_open = False
