"""An invalid connector file is refused with its name, the place of the error and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipelines.connectors.connector import load_connector
from headrace.pipelines.errors import OptionError

_ENDS = "from: topic\nto: console\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "c.yml: must be a mapping with from and to"),
        ("from: a: b", "c.yml: not YAML: mapping values are not allowed here"),
        ("from: {topic: [a]}\nto: console", "c.yml: from.topic is a list: must be a mapping of its settings"),
        ("from: {topic: {name: a}, file: {path: b}}\nto: console", 'c.yml: "from" must name one of topic, file'),
        (f"{_ENDS}configuration: x", "c.yml: configuration is a text: must be a mapping such as {name: value}"),
        (f"{_ENDS}configuration: {{a: [1]}}", 'c.yml: configuration: "a" is a list: must be a text'),
        (f"{_ENDS}select: [a]", 'c.yml: "select" is a list: must be a text'),
        (f"{_ENDS}bootstrap: 9092", 'c.yml: "bootstrap" is 9092: must be a text'),
    ],
)
def test_error_names_file_place_and_remedy(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "c.yml"
    file.write_text(text)
    with pytest.raises(OptionError) as refusal:
        load_connector(file)
    assert words in str(refusal.value)


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match=r"c\.yml: not YAML"):
        load_connector(file)


def test_settings_of_source_and_target(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_text(
        "bootstrap: [a:1, b:2]\nfrom: {file: {path: x, options: {header: true}, schema: [a]}}\n"
        "to: {jdbc: {keys: 'id, day', table: {a: b}}}"
    )
    spec = load_connector(file)
    assert spec.bootstrap == "a:1,b:2"
    assert spec.source.options() == {"header": "true"}
    assert spec.target.names("keys") == ["id", "day"]
    with pytest.raises(OptionError, match='"schema" is a list: must be a text'):
        spec.source.text("schema")
    with pytest.raises(OptionError, match='"table" is a mapping'):
        spec.target.names("table")


def test_null_without_quotes_is_a_choice_of_strictness(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_text("from: {topic: {name: a, schema: id int, missing_field: null, extra_field: fail}}\nto: console")
    settings = load_connector(file).source.settings
    assert (settings["missing_field"], settings["extra_field"]) == ("null", "fail")
