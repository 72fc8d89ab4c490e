"""A schema that names an address does not make the registry ask that address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.json_schema.parsed import ParsedJson
from headrace.registry.core.schema_types import parse
from headrace.serialization.errors import SerializationError
from headrace.serialization.json_schema import JsonCodec
from headrace.serialization.schema import RegisteredSchema
from tests.support.clock import Stopwatch

ENUM = {"enum": [1]}


class Server:
    """Answers every request with a schema, and remembers the paths."""

    def __init__(self) -> None:
        paths: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                pass

        self.paths = paths
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/secret"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    started = Server()
    yield started
    started.http.shutdown()
    started.http.server_close()


@pytest.fixture
def server(running: Server) -> Server:
    running.paths.clear()
    return running


def compare(old: Any, new: Any, references: dict[str, str]) -> None:
    writer = ParsedJson.parse(json.dumps(old), {})
    ParsedJson.parse(json.dumps(new), references).incompatibilities(writer, lenient=False)


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("old", [ENUM, {"const": 1}, {"type": "integer"}], ids=["enum", "const", "type"])
@pytest.mark.parametrize("place", ["if", "not", "allOf", "property", "named-default"])
@pytest.mark.parametrize("draft", [None, "https://json-schema.org/draft/2020-12/schema"])
def test_a_json_schema_fetches_no_reference(
    server: Server, keyword: str, old: Any, place: str, draft: str | None
) -> None:
    reference = {keyword: server.url}
    new: Any = {
        "if": {"if": reference},
        "not": {"not": reference},
        "allOf": {"allOf": [reference]},
        "property": {"properties": {"a": reference}},
        "named-default": {"if": {"properties": {"default": reference}}},
    }[place]
    new = {"$schema": draft, **new} if draft else new
    with pytest.raises(InvalidSchema, match="leads nowhere"):
        compare(old, new, {})
    # Also if a reference has the name.
    compare(old, new, {server.url: "{}"})
    assert server.paths == []


def test_a_reference_of_a_reference_is_not_fetched(server: Server) -> None:
    middle = json.dumps({"properties": {"a": {"$ref": server.url}}})
    with pytest.raises(InvalidSchema, match="leads nowhere"):
        compare({"properties": {"a": {"type": "string"}}}, {"$ref": "middle"}, {"middle": middle})
    assert server.paths == []


def test_a_value_is_validated_without_a_request(server: Server) -> None:
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        for draft in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"):
            inner = {"$schema": "https://json-schema.org/draft/2020-12/schema", keyword: server.url}
            schema = json.dumps({"$schema": draft, "allOf": [inner, {keyword: server.url}]})
            codec = JsonCodec(RegisteredSchema(1, None, "s", 1, "JSON", schema), None)
            try:
                codec.encode(1)
            except SerializationError as fault:
                assert server.url in str(fault)
    assert server.paths == []


def bundle(reference: dict[str, str], kind: str) -> dict[str, Any]:
    """A list whose schema is a document of its own in this document."""
    item = {"$anchor": "item", "$dynamicAnchor": "node", "type": kind}
    inner = {"$id": "list", "items": reference, "$defs": {"item": item}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/schemas/root",
        "properties": {"list": {"$ref": "list"}, "own": {"$ref": "#/$defs/own"}},
        "$defs": {"list": inner, "own": {"type": kind}},
    }


@pytest.mark.parametrize("reference", [{"$ref": "#/$defs/item"}, {"$ref": "#item"}, {"$dynamicRef": "#node"}])
def test_references_in_an_embedded_document_lead_into_it(reference: dict[str, str]) -> None:
    compare(bundle(reference, "integer"), bundle(reference, "number"), {})
    writer = ParsedJson.parse(json.dumps(bundle(reference, "string")), {})
    found = ParsedJson.parse(json.dumps(bundle(reference, "number")), {}).incompatibilities(writer, lenient=False)
    assert {each.kind for each in found} == {"TYPE_CHANGED"}
    assert any("items" in each.path for each in found)
    with pytest.raises(InvalidSchema, match="leads nowhere"):
        ParsedJson.parse(json.dumps(bundle({"$ref": "#/$defs/absent"}, "number")), {})


@pytest.mark.parametrize("root", ["schemas/root", "https://example.com/root"])
def test_a_property_with_an_id_may_name_a_definition_of_the_whole_document(root: str) -> None:
    def document(kind: str) -> dict[str, Any]:
        item = {"$id": "/properties/a/items", "$ref": "#/definitions/a"}
        return {
            "$id": root,
            "properties": {"a": {"$id": "/properties/a", "items": item, "not": {"$ref": "#/definitions/a"}}},
            "definitions": {"a": {"type": kind}},
        }

    compare(document("integer"), document("integer"), {})


@pytest.mark.parametrize("keyword", ["$id", "$anchor"])
def test_many_references_to_names_are_resolved_at_once(keyword: str) -> None:
    named = {f"d{n}": {keyword: f"a{n}"} for n in range(2_000)}
    prefix = "" if keyword == "$id" else "#"
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/many",
        "$defs": named,
        "properties": {f"p{n}": {"$ref": f"{prefix}a{n}"} for n in range(2_000)},
    }
    watch = Stopwatch()
    ParsedJson.parse(json.dumps(document), {})
    watch.at_most(60, because="the document is searched for names once, and not for each reference")


def test_an_id_that_is_no_address_is_taken_where_no_reference_needs_it() -> None:
    ParsedJson.parse(json.dumps({"properties": {"a": {"$id": "http://["}}}), {})


XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"'
XSI = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"'
OTHERS = [
    ("XML", f'{XSD}><xs:include schemaLocation="URL"/></xs:schema>'),
    ("XML", f'{XSD}><xs:import namespace="n" schemaLocation="URL"/></xs:schema>'),
    ("XML", f'{XSD} {XSI} i:schemaLocation="n URL"><xs:element name="a" type="xs:int"/></xs:schema>'),
    ("XML", f'{XSD} {XSI} i:noNamespaceSchemaLocation="URL"><xs:element name="a" type="xs:int"/></xs:schema>'),
    ("XML", f'<!DOCTYPE s SYSTEM "URL">{XSD}/>'),
    ("XML", f'<!DOCTYPE s [<!ENTITY e SYSTEM "URL">]>{XSD}>&e;</xs:schema>'),
    ("PROTOBUF", 'syntax = "proto3"; import "URL"; message A { int32 a = 1; }'),
    ("AVRO", '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "URL"}]}'),
]


@pytest.mark.parametrize(("kind", "text"), OTHERS)
def test_other_types_fetch_nothing(server: Server, kind: str, text: str) -> None:
    with suppress(InvalidSchema):
        parse(kind, text.replace("URL", server.url), {})
    assert server.paths == []
