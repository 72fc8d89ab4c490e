"""Schemas of a registry: subjects, versions, differences, checks, registration, and records decoded by them."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from itertools import takewhile
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from headrace.net.free_ports import free_port
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from headrace.testing import broker
from tests.console.browser import page_of, retype
from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.console import console_on
from tests.support.names import unique
from tests.support.registry import RunningRegistry

ONE = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
TWO = {**ONE, "fields": [*ONE["fields"], {"name": "note", "type": "string", "default": ""}]}
BROKEN = {**ONE, "fields": [{"name": "other", "type": "string"}]}
HOSTILE = "<script>alert(1)</script>\"'>"


@pytest.fixture(scope="module")
def registered() -> Iterator[tuple[Scene, RunningRegistry]]:
    with broker() as running:
        registry = RunningRegistry(running.bootstrap)
        try:
            with console_on(running.bootstrap, registry.url) as url:
                yield Scene(running.bootstrap, url), registry
        finally:
            registry.stop()


def _register(registry: RunningRegistry, subject: str, schema: object) -> None:
    status, _ = registry.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": json.dumps(schema)})
    assert status == 200


def test_subjects_versions_and_their_difference(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    subject = unique("orders/odd name")
    for schema in (ONE, TWO):
        _register(registry, subject, schema)
    assert subject in fetch_json(scene.page("/schemas"))["subjects"]["rows"]
    found = fetch_json(scene.page(f"/subject?name={quote(subject)}"))
    added = [line["text"].strip() for line in found["diff"] if line["mark"] == "+"]
    assert found["version"] == 2 and found["against"] == 1 and '"name": "note",' in added
    assert fetch_json(scene.page(f"/subject?name={quote(subject)}&version=1"))["version"] == 1
    assert status_of(scene.page(f"/subject?name={quote(subject)}&version=9"))[0] == 404
    assert status_of(scene.page("/subject?name=absent"))[0] == 404


def test_a_schema_is_checked_and_registered(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    subject = unique("checked")
    _register(registry, subject, ONE)
    form = {"subject": subject, "kind": "AVRO"}
    _, refused = scene.post("/register-schema", **form, schema=json.dumps(BROKEN), action="check")
    assert "Not compatible" in refused and "READER_FIELD_MISSING_DEFAULT_VALUE" in refused
    status, text = scene.post("/register-schema", **form, schema=json.dumps(BROKEN), action="register")
    assert status == 422 and "incompatible" in text.lower()
    _, fine = scene.post("/register-schema", **form, schema=json.dumps(TWO), action="check")
    assert "Compatible" in fine and "Not compatible" not in fine
    assert scene.post("/register-schema", **form, schema=json.dumps(TWO), action="register")[0] == 200
    assert fetch_json(scene.page(f"/subject?name={subject}"))["versions"] == [1, 2]


def test_records_are_decoded_searched_and_produced_by_their_schema(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    topic = scene.topic()
    encoder = RecordEncoder(RegistryClient(registry.url), schema=json.dumps(TWO))
    scene.produce(topic, ("k", encoder.encode(topic, {"id": 7, "note": "hello"})))
    shown = fetch_json(scene.page(f"/topics/{topic}/messages/0/0"))["record"]["value"]
    assert shown["value"] == {"id": 7, "note": "hello"} and shown["schema"].startswith("avro ")
    assert fetch_json(scene.page(f"/topics/{topic}/search?cel=value.id+%3D%3D+7"))["matched"] == 1
    status, _ = scene.post(
        f"/topics/{topic}/produce", topic=topic, key_form="null", value='{"id": 8, "note": "new"}', value_form="schema"
    )
    assert status == 200
    assert fetch_json(scene.page(f"/topics/{topic}/messages/0/1"))["record"]["value"]["value"]["id"] == 8
    status, text = scene.post(
        f"/topics/{topic}/produce", topic=topic, key_form="null", value='{"id": "x"}', value_form="schema"
    )
    assert status == 422 and "cannot be encoded" in text


def test_values_that_name_no_schema_are_decoded_by_a_chosen_one(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    topic, subject = scene.topic(), unique("chosen")
    named = RecordEncoder(RegistryClient(registry.url), schema=json.dumps(TWO)).encode(topic, {"id": 7, "note": "tea"})
    scene.produce(topic, ("bare", named[5:]), ("named", named), ("other", b"\xff\xff"))
    _register(registry, subject, TWO)
    id_ = int.from_bytes(named[1:5], "big")
    plain = fetch_json(scene.page(f"/topics/{topic}/messages/0/0"))["record"]["value"]
    assert plain["kind"] != "json"
    for wanted in (subject, id_):
        shown = fetch_json(scene.page(f"/topics/{topic}/messages/0/0?schema={wanted}"))["record"]["value"]
        assert shown["value"] == {"id": 7, "note": "tea"} and shown["schema"] == f"avro {id_} by hand"
    rows = fetch_json(scene.page(f"/topics/{topic}/messages?from=oldest&schema={subject}"))["records"]
    assert [row["value"]["kind"] for row in rows] == ["json", "json", "hex"] and rows[2]["value"]["error"]
    assert rows[0]["value"]["value"] == rows[1]["value"]["value"]
    assert fetch_json(scene.page(f"/topics/{topic}/search?cel=value.id+%3D%3D+7&schema={subject}"))["matched"] == 2
    with urllib.request.urlopen(scene.page(f"/topics/{topic}/export?format=ndjson&schema={subject}")) as answer:
        assert json.loads(answer.readline())["value"] == {"id": 7, "note": "tea"}
    page = status_of(scene.page(f"/topics/{topic}/messages?schema={subject}"))[1]
    assert f"/messages/0/0?schema={subject}" in page and f'<option value="{subject}">' in page
    status, text = status_of(scene.page(f"/topics/{topic}/messages?schema=absent"))
    assert status == 404 and "Type a subject, or the id of a schema" in text


def test_a_live_tail_decodes_by_a_chosen_schema(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    topic, subject = scene.topic(), unique("followed")
    named = RecordEncoder(RegistryClient(registry.url), schema=json.dumps(TWO)).encode(topic, {"id": 7, "note": "tea"})
    _register(registry, subject, TWO)
    page = scene.page(f"/topics/{topic}/tail?schema={subject}")
    assert re.search(f'sse-connect="[^"]*schema={subject}"', status_of(page)[1])  # the page follows with its schema
    request = urllib.request.Request(page, headers={"accept": "text/event-stream"})
    with urllib.request.urlopen(request, timeout=30) as events:
        assert events.readline() == b"event: state\n"
        scene.produce(topic, ("bare", named[5:]))
        row = takewhile(lambda line: b"</tr>" not in line, events)
        assert any(b"by hand" in line for line in row)


def test_a_protobuf_value_without_a_frame_is_decoded_by_a_chosen_schema(
    registered: tuple[Scene, RunningRegistry],
) -> None:
    scene, registry = registered
    topic, subject = scene.topic(), unique("proto")
    text = 'syntax = "proto3"; message Cup { int64 id = 1; string note = 2; }'
    registry.ask("POST", f"/subjects/{subject}/versions", {"schemaType": "PROTOBUF", "schema": text})
    scene.produce(topic, ("k", b"\x08\x07\x12\x03tea"))
    shown = fetch_json(scene.page(f"/topics/{topic}/messages/0/0?schema={subject}"))["record"]["value"]
    assert shown["value"] == {"id": 7, "note": "tea"}


def test_a_record_is_produced_by_the_fields_of_its_schema(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    topic = scene.topic()
    schema = {
        **TWO,
        "fields": [
            *TWO["fields"],
            {"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["NEW", "PAID"]}},
        ],
    }
    _register(registry, f"{topic}-value", schema)
    path = f"/topics/{topic}/produce"
    text = status_of(scene.page(path))[1]
    assert 'name="field id"' in text and "<option>PAID</option>" in text and 'name="value"' not in text
    assert 'name="value"' in status_of(scene.page(path + "?fields=0"))[1]
    fields = {"key_form": "null", "value_form": "fields", "field state": "PAID", "field note": ""}
    status, text = scene.post(path, topic=topic, **fields, **{"field id": "x"})
    assert status == 422 and "id &#39;x&#39;: must be a whole number" in text and "<option selected>PAID" in text
    assert scene.post(path, topic=topic, **fields, **{"field id": "8"})[0] == 200
    shown = fetch_json(scene.page(f"/topics/{topic}/messages/0/0"))["record"]["value"]
    assert shown["value"] == {"id": 8, "note": "", "state": "PAID"} and shown["schema"].startswith("avro ")
    copied = status_of(scene.page(path + "?copy=0:0"))[1]
    assert 'name="field id" value="8"' in copied and "<option selected>PAID" in copied


def test_fields_of_a_protobuf_message(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    topic = scene.topic()
    proto = (
        'syntax = "proto3"; enum Level { PLAIN = 0; GOLD = 1; } '
        "message Customer { int64 id = 1; Level level = 2; Place home = 3; repeated string tags = 4; } "
        "message Place { string city = 1; }"
    )
    body = {"schema": proto, "schemaType": "PROTOBUF"}
    assert registry.ask("POST", f"/subjects/{topic}-value/versions", body)[0] == 200
    fields = {"field id": "5", "field level": "GOLD", "field home.city": "Ulm", "field tags": '["a", "b"]'}
    status, text = scene.post(f"/topics/{topic}/produce", topic=topic, key_form="null", value_form="fields", **fields)
    assert status == 200, text
    shown = fetch_json(scene.page(f"/topics/{topic}/messages/0/0"))["record"]["value"]["value"]
    assert int(shown["id"]) == 5 and shown["home"] == {"city": "Ulm"} and shown["tags"] == ["a", "b"]


def test_texts_of_schemas_are_text(registered: tuple[Scene, RunningRegistry]) -> None:
    scene, registry = registered
    subject, topic = unique(HOSTILE), scene.topic()
    _register(registry, subject, {**ONE, "doc": HOSTILE})
    _register(registry, f"{topic}-value", {**ONE, "fields": [{"name": "id", "type": "long", "doc": HOSTILE}]})
    _, form = status_of(scene.page(f"/topics/{topic}/produce"))
    assert "<script>alert" not in form and "&lt;script&gt;alert" in form
    for path in (f"/subject?name={quote(subject)}", f"/register-schema?name={quote(subject)}", "/schemas"):
        _, text = status_of(scene.page(path))
        assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_an_absent_registry_is_reported_and_records_are_still_shown() -> None:
    with broker() as running, console_on(running.bootstrap, f"http://127.0.0.1:{free_port()}") as url:
        scene = Scene(running.bootstrap, url)
        topic = scene.topic()
        scene.produce(topic, ("k", b"\x00\x00\x00\x00\x01x"))
        status, text = status_of(scene.page("/schemas"))
        assert status == 502 and "Error of the schema registry" in text and "Traceback" not in text
        assert "Connection refused. Start it, or check the address after --registry" in text
        shown = fetch_json(scene.page(f"/topics/{topic}/messages/0/0"))["record"]["value"]
        assert shown["kind"] == "hex" and shown["error"]


def test_a_console_without_a_registry_says_how_to_add_one(scene: Scene) -> None:
    assert "--registry" in status_of(scene.page("/schemas"))[1]


@pytest.mark.needs("chromium")
def test_a_schema_is_checked_while_a_person_types(registered: tuple[Scene, RunningRegistry], browser: Browser) -> None:
    scene, registry = registered
    subject = unique("typed")
    _register(registry, subject, ONE)
    with page_of(browser) as page:
        page.goto(scene.page(f"/register-schema?name={subject}"))
        field = page.get_by_role("textbox", name="Schema")
        retype(field, json.dumps(TWO))
        expect(page.locator("#verdict")).to_contain_text("Compatible")
        retype(field, json.dumps(BROKEN))
        expect(page.locator("#verdict")).to_contain_text("Not compatible")
        retype(field, "{not a schema")
        expect(page.locator("#verdict [role=alert]")).to_be_visible()
        retype(field, json.dumps(TWO))
        # The form leaves the page: a check that is still under way would be an error of the page.
        expect(page.locator("#verdict strong")).to_have_text("Compatible")
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_role("status")).to_have_text(f"Registered a schema of {subject}.")
