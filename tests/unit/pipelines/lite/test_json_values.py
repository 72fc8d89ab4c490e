"""JSON values that no target could take: they must not stop a connector."""

from __future__ import annotations

import pytest

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.lite.json_values import JsonValues
from headrace.pipelines.lite.topic_target import record_maker
from headrace.pipelines.plugins.columns import parse_columns

_TOPIC = End("topic", {"name": "events", "schema": "a string"}, "from.topic")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r'{"a": "cut \ud83d"}', "cut ?"),
        (r'{"a": "\ud83d\ude00 ä"}', "\U0001f600 ä"),
        (r'{"a": {"\udc00": ["\ud800"]}}', '{"?":["?"]}'),
    ],
)
def test_halves_of_characters_are_question_marks(text: str, wanted: str) -> None:
    values = JsonValues.of(_TOPIC)
    row, problem = values.decode(text)
    assert (row, problem) == ({"a": wanted}, None)
    made = record_maker(End("topic", {"name": "copy"}, "to.topic"), values.columns)(row)
    assert wanted.replace('"', r"\"") in made["value"].decode()


def test_reasons_of_dead_letters_can_be_written() -> None:
    _, problem = JsonValues.of(_TOPIC).decode(r'{"a": "x", "\ud800": 1}')
    assert problem == "extra field: ?"


def test_value_that_is_nested_too_deeply_is_a_dead_letter() -> None:
    depth = 100_000
    row, problem = JsonValues.of(_TOPIC).decode('{"a": ' + "[" * depth + "]" * depth + "}")
    assert row == {"a": None}
    assert problem is not None
    assert problem.startswith("not JSON of the schema: ")


def test_texts_of_a_plugin_can_be_written() -> None:
    (column,) = parse_columns("a string")
    assert column.to_json("cut \ud83d ä") == "cut ? ä"
