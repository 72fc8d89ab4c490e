"""XML Schema subjects: refused unless they are turned on, then registered, checked, encoded and decoded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.registry.core.content import XML
from headrace.registry.core.schema_types import USUAL_TYPES
from headrace.registry.core.xml_schema.source import canonical_text
from headrace.serialization.errors import SerializationError
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import SchemaReference
from headrace.testing.in_process import RunningBroker
from tests.support.registry import RunningRegistry, registry

HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:shop" targetNamespace="urn:shop">'
CHILDREN = '<xs:element name="id" type="xs:int"/><xs:element name="price" type="xs:decimal" minOccurs="0"/>'


def order(children: str = CHILDREN) -> str:
    content = f'<xs:sequence>{children}</xs:sequence><xs:attribute name="day" type="xs:date"/>'
    return f'{HEAD}<xs:element name="order"><xs:complexType>{content}</xs:complexType></xs:element></xs:schema>'


@pytest.fixture(scope="module")
def xml_server(running: RunningBroker) -> Iterator[RunningRegistry]:
    types = (*USUAL_TYPES, XML)
    with registry(running.bootstrap, topic="_schemas_xml", group="schemas-xml", types=types) as started:
        yield started


def body(text: str) -> dict[str, str]:
    return {"schema": text, "schemaType": "XML"}


def test_without_the_setting_xml_is_refused(server: RunningRegistry, subject: str) -> None:
    assert server.ask("GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])
    for path in (
        f"/subjects/{subject}/versions",
        f"/subjects/{subject}",
        f"/compatibility/subjects/{subject}/versions",
    ):
        status, answer = server.ask("POST", path, body(order()))
        assert (status, answer["error_code"]) == (422, 42201)
        assert answer["message"].endswith("the registry must be started with --xml-schemas")


def test_versions_are_registered_checked_and_refused_with_the_reason(xml_server: RunningRegistry, subject: str) -> None:
    ask = xml_server.ask
    assert ask("GET", "/schemas/types") == (200, ["XML", "JSON", "PROTOBUF", "AVRO"])
    status, first = ask("POST", f"/subjects/{subject}/versions", body(order()))
    assert (status, first["version"], first["schemaType"]) == (200, 1, "XML")
    indented = order().replace("><", ">\n  <!-- the same -->\n<")
    assert ask("POST", f"/subjects/{subject}/versions", body(indented))[1]["id"] == first["id"]
    assert ask("POST", f"/subjects/{subject}", body(indented))[1]["version"] == 1
    wider = order(CHILDREN + '<xs:element name="note" type="xs:string" minOccurs="0"/>')
    assert ask("POST", f"/subjects/{subject}/versions", body(wider))[1]["version"] == 2
    needed = order('<xs:element name="id" type="xs:int"/><xs:element name="price" type="xs:decimal"/>')
    status, refused = ask("POST", f"/subjects/{subject}/versions", body(needed))
    assert (status, refused["error_code"]) == (409, 40901)
    assert "after id the element may end in old documents, and price must follow now" in refused["message"]
    path = f"/compatibility/subjects/{subject}/versions/latest?verbose=true"
    assert ask("POST", path, body(needed))[1]["is_compatible"] is False
    assert ask("GET", f"/schemas/ids/{first['id']}")[1]["schema"] == canonical_text(order())
    status, wrong = ask("POST", f"/subjects/{subject}/versions", body(order()[:-5]))
    assert (status, wrong["error_code"]) == (422, 42201)
    assert "line 1, column" in wrong["message"]


def test_a_reference_stands_for_an_included_file(xml_server: RunningRegistry, subject: str) -> None:
    client = RegistryClient(xml_server.url)
    kind = '<xs:simpleType name="Kind"><xs:restriction base="xs:string"><xs:enumeration value="tea"/></xs:restriction>'
    client.register(f"{subject}-kind", f"{HEAD}{kind}</xs:simpleType></xs:schema>", kind=XML)
    text = f'{HEAD}<xs:include schemaLocation="kind.xsd"/><xs:element name="kind" type="Kind"/></xs:schema>'
    uses = [SchemaReference("kind.xsd", f"{subject}-kind", 1)]
    encoder = RecordEncoder(client, XML, schema=text, references=uses)
    data = encoder.encode(subject, {"kind": "tea"})
    assert RecordDecoder(client).decode(subject, data).value == {"kind": "tea"}
    with pytest.raises(SerializationError, match="value must be one of"):
        encoder.encode(subject, {"kind": "coffee"})


def test_records_are_encoded_from_json_or_xml_and_decoded(xml_server: RunningRegistry, subject: str) -> None:
    client = RegistryClient(xml_server.url)
    encoder = RecordEncoder(client, XML, schema=order())
    value = {"order": {"@day": "2026-01-31", "id": 7, "price": "12.50"}}
    data = encoder.encode(subject, value)
    assert data[0] == 0
    found = RecordDecoder(client).decode(subject, data)
    assert found.error is None
    assert found.value == value
    text = '<order xmlns="urn:shop" day="2026-01-31"><id xmlns="">8</id></order>'
    assert encoder.encode(subject, text)[5:] == text.encode()
    for wrong, says in (
        ({"order": {"id": "seven"}}, "seven"),
        ({"other": {}}, "other"),
        ([], "an object with one field"),
        ("<order", "unclosed token"),
        ('<!DOCTYPE order [<!ENTITY a "b">]><order xmlns="urn:shop"/>', "ntit"),
    ):
        with pytest.raises(SerializationError) as raised:
            encoder.encode(subject, wrong)
        assert says in str(raised.value)
    broken = RecordDecoder(client).decode(subject, data[:5] + b"<order/>")
    assert broken.value is None
    assert broken.error is not None
