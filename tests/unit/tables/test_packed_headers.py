"""Headers that went to a task as JSON are Kafka's headers again."""

from __future__ import annotations

import pyarrow as pa

from headrace.serialization.arrow_records import HEADERS_TYPE
from headrace.tables.formats.packed_headers import unpacked


def test_headers_are_as_they_were() -> None:
    texts = [
        None,
        "[]",
        '[{"key":"a","value":"AP8="},{"key":"a","value":""}]',
        '[{"key":"without a value"}]',
        '[{"key":"Grüße \\"x\\"","value":"eA=="}]',
    ]
    rows = unpacked(pa.record_batch({"offset": [1, 2, 3, 4, 5], "headers": pa.array(texts, pa.string())}))
    assert rows.schema.field("headers").type == HEADERS_TYPE
    assert rows.column("headers").to_pylist() == [
        None,
        [],
        [{"key": "a", "value": b"\x00\xff"}, {"key": "a", "value": b""}],
        [{"key": "without a value", "value": None}],
        [{"key": 'Grüße "x"', "value": b"x"}],
    ]
    assert rows.column("offset").to_pylist() == [1, 2, 3, 4, 5]


def test_records_without_headers_have_null() -> None:
    rows = unpacked(pa.record_batch({"headers": pa.nulls(3, pa.string())}))
    assert rows.column("headers").type == HEADERS_TYPE and rows.column("headers").null_count == 3
