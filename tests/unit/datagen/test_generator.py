"""Test data: the same seed gives the same records, references exist, shares are kept."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from headrace.datagen.errors import BadPlan
from headrace.datagen.generator import Generated, Generator
from headrace.datagen.plan import load, read, seconds, shipped

START_MS = 1_767_225_600_000


def records(plan: Any, count: int, seed: int | None = None) -> list[Generated]:
    found = plan if not isinstance(plan, dict) else read(plan, "test")
    return list(islice(Generator(found, start_ms=START_MS, seed=seed), count))


def one_topic(**settings: Any) -> dict[str, Any]:
    return {"topics": {"t": {"value": {"n": {"sequence": {}}, "user": {"zipf": {"count": 5}}}, **settings}}}


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_plan_gives_the_same_records_for_the_same_seed(name: str) -> None:
    first, again, other = (records(load(shipped()[name]), 3000, seed) for seed in (1, 1, 2))
    assert first == again and first != other


def test_references_name_existing_records() -> None:
    posts: set[str] = set()
    authors: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for record in records(load(shipped()["social"]), 20_000):
        value = json.loads(record.value or b"")
        seen[record.topic] += 1
        if record.topic == "posts":
            posts.add(value["post"])
            authors[value["post"]] = value["author"]
        else:
            assert value["post"] in posts
            assert record.topic != "comments" or value["author"] == authors[value["post"]]
    assert seen["likes"] > seen["comments"] > seen["posts"] > 0


def test_parts_are_in_templates_and_keys_and_not_in_the_record() -> None:
    parts = {"host": {"choice": ["h1", "h2"]}, "code": {"integer": [100, 199]}}
    settings = {"parts": parts, "key": "host", "value": {"line": {"template": "{host} [{code}]"}}}
    for form in ("text", "json"):
        for record in records({"topics": {"t": {**settings, "format": form}}}, 50):
            line = (record.value or b"").decode()
            if form == "json":
                value = json.loads(line)
                assert value.keys() == {"line"}
                line = value["line"]
            assert record.key is not None and line.startswith(f"{record.key.decode()} [1")


def test_late_duplicate_malformed_and_deleted_records_have_their_shares() -> None:
    plan = one_topic(key="n", late={"share": 0.2, "by": "5s"}, duplicates=0.1, malformed=0.05, tombstones=0.1)
    found = records(plan, 20_000)
    keys = Counter(record.key for record in found)
    assert 0.08 < sum(number - 1 for number in keys.values()) / len(keys) < 0.12
    assert 0.08 < sum(record.value is None for record in found) / len(found) < 0.12
    broken = sum(record.value is not None and not record.value.endswith(b"}") for record in found)
    assert 0.03 < broken / len(found) < 0.07
    late = [record for record in found if record.at_s * 1000 + START_MS - record.timestamp_ms > 1]
    assert 0.15 < len(late) / len(found) < 0.25
    assert [record.at_s for record in found] == sorted(record.at_s for record in found)


def test_sessions_and_walks_follow_their_key() -> None:
    value = {
        "user": {"zipf": {"count": 20}},
        "session": {"session": {"by": "user", "events": 5}},
        "at": {"walk": {"by": "user", "between": [0, 10], "step": 0.5}},
    }
    owners: dict[str, int] = {}
    last: dict[int, float] = {}
    for record in records({"topics": {"t": {"value": value}}}, 5000):
        row = json.loads(record.value or b"")
        assert owners.setdefault(row["session"], row["user"]) == row["user"]
        assert abs(last.get(row["user"], row["at"]) - row["at"]) <= 0.5001 and 0 <= row["at"] <= 10
        last[row["user"]] = row["at"]
    assert 700 < len(owners) < 1500


def test_progress_grows_for_each_key_and_ends() -> None:
    value = {"car": {"zipf": {"count": 3}}, "km": {"progress": {"by": "car", "step": [2, 4], "most": 500}}}
    last: dict[int, int] = {}
    for record in records({"topics": {"t": {"value": value}}}, 1000):
        row = json.loads(record.value or b"")
        before = last.get(row["car"], 0)
        assert 2 <= row["km"] - before <= 4 or row["km"] == 500 >= before
        last[row["car"]] = row["km"]
    assert set(last.values()) == {500}


def test_preferred_records_are_referred_to_more_often() -> None:
    shown = {"value": {"n": {"sequence": {}}, "campaign": {"choice": ["A", "B"]}}}
    reference = {"topic": "shown", "field": "n", "skew": 0, "prefer": {"campaign": {"A": 1, "B": 3}}}
    clicked = {
        "value": {"n": {"reference": reference}, "campaign": {"lookup": {"reference": "n", "field": "campaign"}}}
    }
    found = records({"topics": {"shown": shown, "clicked": clicked}}, 8000)
    clicks = Counter(json.loads(record.value or b"")["campaign"] for record in found if record.topic == "clicked")
    assert 2.5 < clicks["B"] / clicks["A"] < 3.5
    reference["prefer"] = {"colour": {"red": 1}}
    with pytest.raises(BadPlan, match="topic 'shown' has no field 'colour'"):
        records({"topics": {"shown": shown, "clicked": clicked}}, 100)
    reference["prefer"] = {"campaign": "B"}
    with pytest.raises(BadPlan, match="prefer must be one FIELD"):
        records({"topics": {"shown": shown, "clicked": clicked}}, 100)


def test_bursts_and_the_day_curve_change_the_rate() -> None:
    plan = one_topic()
    plan |= {"rate": 100, "bursts": [{"at": "10s", "for": "2s", "times": 20}]}
    per_second = Counter(int(record.at_s) for record in records(plan, 6000))
    assert 95 <= per_second[5] <= 105 and 1900 <= per_second[10] <= 2100 and 95 <= per_second[13] <= 105
    plan = one_topic() | {"rate": 100, "curve": {"night": 0.2, "period": "20s"}}
    per_second = Counter(int(record.at_s) for record in records(plan, 2000))
    assert per_second[0] < 30 and per_second[10] > 90


def test_every_kind_of_field_is_json(tmp_path: Path) -> None:
    value = {
        'na"me': {"constant": {"a": [1, None]}},
        "number": {"number": [0, 1]},
        "normal": {"normal": {"mean": 5, "stddev": 2, "min": 0, "max": 10}},
        "exponential": {"exponential": 3},
        "mixed": {"choice": [1, "two", None, True]},
        "flag": {"boolean": 0.3},
        "id": {"uuid": {}},
        "seconds": {"time": "s"},
        "words": {"words": [1, 3]},
        "inner": {"object": {"deep": {"list": {"of": {"integer": [1, 6]}, "between": [0, 3]}}}},
        "maybe": {"optional": {"share": 0.5, "of": {"integer": [1, 2]}}},
        "mail": {"template": "{seconds}@example.com 100%"},
    }
    for record in records({"topics": {"t": {"value": value, "key": "{flag}-{words}"}}}, 200):
        row = json.loads(record.value or b"")
        assert list(row) == list(value)
        assert 0 <= row["normal"] <= 10 and row["mail"] == f"{row['seconds']}@example.com 100%"
        assert record.key == f"{row['flag']}-{row['words']}".encode()


@pytest.mark.parametrize(
    ("schema", "checks"),
    [
        (
            {"type": "record", "name": "R", "fields": [
                {"name": "id", "type": "long"},
                {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
                {"name": "note", "type": ["null", "string"]},
                {"name": "tags", "type": {"type": "array", "items": "string"}},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            ]},
            {"id": int, "kind": str, "tags": list, "at": int},
        ),
        (
            {"type": "object", "properties": {
                "id": {"type": "integer", "minimum": 5, "maximum": 9}, "name": {"type": "string"},
                "inner": {"type": "object", "properties": {"ok": {"type": "boolean"}}}, "kind": {"enum": ["x", "y"]},
            }},
            {"id": int, "name": str, "inner": dict, "kind": str},
        ),
    ],
    ids=["avro", "json schema"],
)  # fmt: skip
def test_records_follow_a_schema(tmp_path: Path, schema: dict[str, Any], checks: dict[str, type]) -> None:
    (tmp_path / "record.json").write_text(json.dumps(schema))
    document = {"topics": {"t": {"schema": "record.json", "key": "id"}}}
    for record in islice(Generator(read(document, "test", tmp_path), start_ms=START_MS), 100):
        row = json.loads(record.value or b"")
        assert all(isinstance(row[name], kind) for name, kind in checks.items())


WRONG: list[tuple[Any, str]] = [
    (None, "must be a mapping, not None"),
    ({"topics": {}}, "topics: must name at least one topic"),
    ({"topics": {"t": {}}}, "topics.t.value: must describe at least one field"),
    ({"topic": {}}, "no setting 'topic'. Did you mean 'topics'?"),
    (one_topic() | {"rate": 0}, "rate: must be a number of records per second above 0, not 0"),
    (one_topic() | {"seed": "x"}, "seed: must be a whole number, not 'x'"),
    (one_topic() | {"start": "soon"}, "start: must be now or a time"),
    (one_topic() | {"curve": {"night": 2}}, "curve.night: must be between 0 and 1, not 2"),
    (one_topic() | {"bursts": [{"at": "soon"}]}, "bursts[0].at: must be a duration"),
    (one_topic(key="nme"), "topics.t.key: the record has no field 'nme'; fields: n, user"),
    (one_topic(format="xml"), "topics.t.format: must be one of json, text, avro, jsonschema, not 'xml'"),
    (one_topic(late={"share": 3}), "topics.t.late.share: must be between 0 and 1, not 3"),
    (one_topic(partitions=0), "topics.t.partitions: must be a number above 0, not 0"),
    (one_topic(schema="gone.avsc"), "topics.t.schema: cannot read"),
    (one_topic(parts={"n": {"sequence": {}}}), "topics.t.parts.n: is a field of the record already"),
    (one_topic(format="text"), "topics.t.format: text needs exactly one field, not 2"),
    ({"topics": {"t": {"value": {"a": {"integr": [1, 2]}}}}}, "no kind of field 'integr'. Did you mean 'integer'?"),
    ({"topics": {"t": {"value": {"a": {"integer": [2, 1]}}}}}, "topics.t.value.a.integer: between: 2 is larger than 1"),
    ({"topics": {"t": {"value": {"a": {"template": "{b}"}}}}}, "needs the field 'b', which this record does not have"),
    (
        {"topics": {"t": {"value": {"a": {"template": "{b}"}, "b": {"template": "{a}"}}}}},
        "depends on itself: a → b → a",
    ),
    (
        {"topics": {"t": {"value": {"a": {"reference": {"topic": "u", "field": "x"}}}}}},
        "refers to topic 'u', which is not",
    ),
    ({"topics": {"t": {"value": {"a": {"zipf": {"count": 0}}}}}}, "count must be at least 1, not 0"),
    ({"topics": {"t": {"value": {"a": {"sequence": "order"}}}}}, "format must be a text with one {}"),
]


@pytest.mark.parametrize(("document", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_a_wrong_plan_is_refused_with_its_place(document: Any, message: str) -> None:
    with pytest.raises(BadPlan) as refused:
        records(read(document, "test"), 10)
    assert message in str(refused.value)


def test_a_missing_field_of_a_reference_is_named() -> None:
    value = {"a": {"reference": {"topic": "t", "field": "gone"}}}
    document = one_topic()
    document["topics"]["u"] = {"value": value}
    with pytest.raises(BadPlan, match="topic 't' has no field 'gone'"):
        records(document, 100)


@pytest.mark.parametrize(
    ("text", "value"), [("500ms", 0.5), ("30s", 30), ("2m", 120), ("1h", 3600), ("7d", 604800), (5, 5)]
)
def test_durations(text: object, value: float) -> None:
    assert seconds(text) == value
