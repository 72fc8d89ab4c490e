"""The pattern of plain values never hides a value that the parser would refuse, and never changes a row."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pyspark.sql.types import StructType

from headrace.pipelines import decode as decoding
from headrace.pipelines.decode import decode, doubtful_rows
from headrace.pipelines.json_pattern import json_pattern

_SCHEMA = "id bigint, count int, customer string, amount double, is_new boolean"
_ODD = (
    b'{"id": 007, "count": 1, "customer": "a", "amount": 1, "is_new": true}',
    b'{"id": 1, "count": 9999999999, "customer": "a", "amount": 1, "is_new": true}',
    b'{"id": 1, "count": 1, "customer": "\xff\xfe", "amount": 1, "is_new": true}',
    b'{"id": 1, "count": 1, "customer": "a\nb", "amount": 1, "is_new": true}',
    b'{"id": 1, "count": 1, "customer": "a", "amount": 01.5, "is_new": true}',
    b'{"id": 1, "count": 1, "customer": "a", "amount": 1., "is_new": true}',
    b'{"id": 1, "count": 1, "customer": "a", "amount": .5, "is_new": TRUE}',
    b'{"id": 1, "count": 1, "customer": "a", "amount": 1, "is_new": true}\n',
    b'{"id": 1, "count": 1, "customer": "a", "amount": 1, "is_new": true}x',
    b'{"id": 1, "count": 1, "customer": "a", "amount": 1, "is_new": true}{}',
    b'{"id": 1, "count": 1, "customer": "a", "amount": 1, "is_new": true]',
    b'[{"id": 1, "count": 1, "customer": "a", "amount": 1, "is_new": true}]',
    b'x{"id": 1, "count": 1, "customer": "a", "amount": 1, "is_new": true}',
    b'\xef\xbb\xbf{"id": 1, "count": 1, "customer": "a", "amount": 1, "is_new": true}',
    b'{"id": 1.0, "count": 1, "customer": "a", "amount": 1, "is_new": true}',
    b'{"id": -0, "count": -1, "customer": "\xc3\xa9 \xf0\x9f\x99\x82", "amount": -0.5, "is_new": null}',
    b'{"id": null, "count": null, "customer": null, "amount": null, "is_new": null}',
    b"",
    b"null",
)


def _values(count: int) -> list[bytes | None]:
    """Plain values, and values with up to three bytes replaced, removed, doubled or added."""
    chance, made = random.Random(18), list[bytes | None](_ODD)
    for number in range(count):
        fields: dict[str, object] = {
            "id": chance.choice([number, -number, 10**17, 10**19, None, "7"]),
            "count": chance.choice([0, 7, -7, 10**8, 10**10]),
            "customer": chance.choice(["", "anna", "ö\\", 'a"b', "\ufffd", "x" * 40, None, 5]),
            "amount": chance.choice([1, 1.5, -0.25, 1e300, 123456789.123456789, True]),
            "is_new": chance.choice([True, False, None, 0]),
        }
        if chance.random() < 0.1:
            del fields[chance.choice(list(fields))]
        if chance.random() < 0.1:
            fields["more"] = 1
        text = bytearray(json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode())
        for _ in range(chance.choice([0, 0, 1, 3])):
            at = chance.randrange(len(text))
            piece = chance.choice([b"", b" ", b"0", b"-", b'"', b"\\", b",", b"}", b"\n", b"\x01", b"\xff", b".", b"e"])
            text[at : at + chance.randint(0, 1)] = piece
        made.append(bytes(text))
    return [*made, None]


def test_rows_and_errors_are_those_of_the_parser(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame([(value,) for value in _values(3000)], "value binary").coalesce(1)
    found = decode(frame, _SCHEMA).collect()
    doubtful = {bytes(row.value) for row in doubtful_rows(frame, _SCHEMA).collect()}
    with monkeypatch.context() as patched:
        patched.setattr(decoding, "json_pattern", lambda _schema: None)
        parsed = decode(frame, _SCHEMA).collect()
    assert found == parsed
    errors = {bytes(row._source.value) for row in parsed if row._error is not None}
    assert errors <= doubtful
    values = {bytes(row._source.value) for row in parsed if row._source.value is not None}
    # Neither all nor none: otherwise the test compares nothing.
    assert 100 < len(values - doubtful) < len(values) - len(errors) < len(values) - 200


@pytest.mark.parametrize("ddl", ["a timestamp", "a struct<b: int>", "a decimal(9, 2)", "`a b` int", "a int, A int"])
def test_other_schemas_are_left_to_the_parser(spark: Any, ddl: str) -> None:
    assert json_pattern(StructType.fromDDL(ddl)) is None
