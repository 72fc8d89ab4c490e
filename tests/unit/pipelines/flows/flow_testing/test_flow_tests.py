"""Files of `headrace pipeline test`: what they may hold, and the difference between expected and found records."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipelines.errors import OptionError
from headrace.pipelines.flows.flow_testing.flow_tests import differences, find_tests, load_test
from headrace.records.builder import Record


def written(folder: Path, text: str) -> Path:
    (folder / "tests").mkdir(exist_ok=True)
    file = folder / "tests" / "one.yml"
    file.write_text(text)
    return file


def test_records_come_from_yaml_csv_and_ndjson(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "input:\n  a: [{key: k, value: {x: 1}, partition: 2, timestamp: 2026-01-31T12:00:00Z, headers: {h: v}}, text]\n"
        "  b: rows.csv\n  c: rows.ndjson\noutput: {o: []}",
    )
    (tmp_path / "tests" / "rows.csv").write_text("key,value,timestamp\nk1,v1,1700000000000\n,v2,\n")
    (tmp_path / "tests" / "rows.ndjson").write_text('{"value": {"x": [1]}}\n\n{"key": "k"}\n')
    (one,) = find_tests(tmp_path)
    assert (one.file, one.name, one.partitions("a")) == (file, "one", 3)
    (where, first), (_, second) = one.records("a")
    assert (where, first.key, first.value, first.headers) == (2, b"k", b'{"x": 1}', (("h", b"v"),))
    assert first.timestamp_ms == 1769860800000 and second.value == b"text"
    assert [(record.key, record.value) for _, record in one.records("b")] == [(b"k1", b"v1"), (None, b"v2")]
    assert one.records("b")[0][1].timestamp_ms == 1_700_000_000_000
    assert [(record.key, record.value) for _, record in one.records("c")] == [(None, b'{"x": [1]}'), (b"k", None)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("input: [", "not YAML"),
        ("3", "must be a mapping with input and output"),
        ("input: {a: []}\noutput: {b: []}\ninputs: {}", "field 'inputs' is unknown (did you mean"),
        ("input: {a: []}", "'output' must map topics to records"),
        ("input: {a: [{valu: 1}]}\noutput: {b: []}", "input.a[0]: 'valu' is unknown (did you mean \"value\"?)"),
        ("input: {a: missing.csv}\noutput: {b: []}", "missing.csv: No such file"),
    ],
)
def test_wrong_files_are_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(OptionError) as refusal:
        load_test(written(tmp_path, text))
    assert words in str(refusal.value)


def test_pipeline_without_tests_says_where_they_go(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"has no tests: write .*tests/\*\.yml"):
        find_tests(tmp_path)


def test_order_and_form_of_json_do_not_matter_and_only_named_fields_count() -> None:
    found = [Record(b"b", b'{"y":2, "x":1}', timestamp_ms=5), Record(None, b"\x00\x01", timestamp_ms=6)]
    assert differences([{"value": "0x0001"}, {"value": {"x": 1, "y": 2}}], found) == []
    assert differences([{"value": "0x0001"}, {"key": "b", "value": {"x": 1, "y": 2}}], found) == []


def test_difference_shows_missing_and_unexpected_records() -> None:
    found = [Record(None, b"a", timestamp_ms=1), Record(None, b"c", timestamp_ms=2)]
    lines = differences([{"value": "a"}, {"value": "b"}], found)
    assert lines == ['  {"value": "a"}', '- {"value": "b"}', '+ {"value": "c"}']
    assert differences([], found) == ['+ {"key": null, "value": "a"}', '+ {"key": null, "value": "c"}']
    assert differences([{"value": "a"}, {"value": "a"}, {"value": "c"}], found) != []
