"""Forms by schemas: the fields of a schema, and the value of a record from the texts of a form."""

from __future__ import annotations

import pytest

from headrace.console.core.schema_fields import BadField, avro_fields, filled, json_fields, texts_of
from headrace.kernel.json_values import JsonValue

ORDER = {
    "type": "record", "name": "Order",
    "fields": [
        {"name": "id", "type": "long", "doc": "the number"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "rush", "type": "boolean", "default": False},
        {"name": "total", "type": "double"},
        {"name": "items", "type": {"type": "array", "items": "string"}},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "parent", "type": ["null", "Order"], "default": None},
    ],
}  # fmt: skip
CUSTOMER = {
    "type": "object", "required": ["id", "home"],
    "properties": {
        "id": {"type": "integer"}, "name": {"type": ["string", "null"], "description": "as on the card"},
        "level": {"enum": ["gold", "plain"]}, "home": {"$ref": "#/$defs/place"}, "tags": {"type": "array"},
    },
    "$defs": {"place": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}},
}  # fmt: skip
TEXTS = {
    "id": "7", "state": "PAID", "note": "", "rush": "", "total": "1.5", "items": '["a"]', "place.city": "Ulm",
    "before": "NEW", "parent": "",
}  # fmt: skip


def test_an_avro_record_becomes_fields_of_their_kinds() -> None:
    found = {field.name: field for field in avro_fields(ORDER)}
    assert {name: field.kind for name, field in found.items()} == {
        "id": "integer", "state": "choice", "note": "text", "rush": "boolean", "total": "number", "items": "json",
        "place.city": "text", "before": "choice", "parent": "json",
    }  # fmt: skip
    assert found["state"].choices == ("NEW", "PAID") and found["id"].doc == "the number"
    assert [name for name, field in found.items() if not field.is_optional] == [
        "id", "state", "total", "items", "place.city",
    ]  # fmt: skip


def test_a_form_becomes_the_value_of_the_record_and_back() -> None:
    fields = avro_fields(ORDER)
    value = filled(fields, TEXTS)
    assert value == {
        "id": 7, "state": "PAID", "note": None, "rush": False, "total": 1.5, "items": ["a"], "place": {"city": "Ulm"},
        "before": "NEW", "parent": None,
    }  # fmt: skip
    assert texts_of(fields, value) == {**TEXTS, "rush": "false"}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("id", "x", "a whole number"),
        ("id", "", "a whole number"),
        ("total", "much", "a number"),
        ("state", "LOST", "one of NEW, PAID"),
        ("rush", "maybe", "true or false"),
        ("items", "[", "JSON"),
    ],
)
def test_a_text_that_does_not_fit_names_its_field(name: str, text: str, reason: str) -> None:
    with pytest.raises(BadField, match=f"^{name} .*{reason}"):
        filled(avro_fields(ORDER), {**TEXTS, name: text})


def test_a_json_schema_becomes_fields_and_absent_ones_are_left_out() -> None:
    fields = json_fields(CUSTOMER)
    assert {field.name: field.kind for field in fields} == {
        "id": "integer", "name": "text", "level": "choice", "home.city": "text", "tags": "json",
    }  # fmt: skip
    assert filled(fields, {"id": "3", "home.city": "Ulm"}) == {"id": 3, "home": {"city": "Ulm"}}


@pytest.mark.parametrize("schema", ["string", None, [], {"type": "array"}, {"type": "record"}, {"properties": 3}])
def test_other_schemas_have_no_fields(schema: JsonValue) -> None:
    assert avro_fields(schema) == [] == json_fields(schema)


def test_a_record_that_holds_itself_ends() -> None:
    endless = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]}
    assert [field.kind for field in avro_fields(endless)] == ["json"]
