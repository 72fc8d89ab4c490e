"""The latest row of each key is the same however records are divided into batches."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.tables.formats.table_files import OFFSET, PARTITION
from headrace.tables.formats.table_log import DELETED
from headrace.tables.latest_rows import latest_rows

COLUMNS = pa.schema([("name", pa.string()), ("_key", pa.binary())])
Records = list[tuple[bytes | None, bytes | None]]


def typed(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """As `TypedRows`: the fields, and the columns that are not Kafka's. Values that begin with ! are undecodable."""
    values = batch.column("value").cast(pa.string())
    others = [name for name in batch.schema.names if name not in ("key", "value")]
    arrays = [values, batch.column("key"), *(batch.column(name) for name in others)]
    is_good = pc.invert(pc.fill_null(pc.starts_with(values, "!"), fill_value=False))
    rows = pa.RecordBatch.from_arrays(arrays, names=["name", "_key", *others]).filter(is_good)
    return rows, batch.num_rows - rows.num_rows


def table_after(records: Records, cuts: tuple[int, ...]) -> tuple[dict[bytes, str], int]:
    """The rows by key, and the number of dead letters, after batches that begin at the cuts."""
    held, letters = dict[bytes, str](), 0
    for start, end in itertools.pairwise([0, *cuts, len(records)]):
        rows = pa.table(
            {
                "key": pa.array([key for key, _ in records[start:end]], pa.binary()),
                "value": pa.array([value for _, value in records[start:end]], pa.binary()),
                PARTITION: pa.array([0] * (end - start), pa.int32()),
                OFFSET: pa.array(range(start, end), pa.int64()),
            }
        )
        latest, failed = latest_rows(rows, COLUMNS, typed)
        assert latest.column_names == ["name", "_key", DELETED]
        letters += failed
        for row in latest.to_pylist():
            held.pop(row["_key"], None)
            if not row[DELETED]:
                held[row["_key"]] = row["name"]
    return held, letters


@pytest.mark.parametrize(
    "records",
    [
        [(b"k", b"good"), (b"k", b"!bad")],
        [(b"k", b"!bad"), (b"k", b"good"), (b"k", b"!worse")],
        [(b"k", b"good"), (b"k", None), (b"k", b"!bad")],
        [(b"a", b"1"), (b"b", b"!2"), (None, b"3"), (None, b"!4"), (b"a", b"5"), (b"b", b"6")],
        [(b"k", b"!bad")],
    ],
)
def test_batches_make_no_difference(records: Records) -> None:
    one_each = table_after(records, tuple(range(1, len(records))))
    assert one_each[1] == sum(value is not None and value.startswith(b"!") for _, value in records)
    for count in range(len(records)):
        for cuts in itertools.combinations(range(1, len(records)), count):
            assert table_after(records, cuts) == one_each


def test_fields_may_have_any_name() -> None:
    """Debezium adds a field `__deleted` to rows."""
    fields = ["__deleted", "__key"]
    columns = pa.schema([("name", pa.string()), ("_key", pa.binary()), *((field, pa.string()) for field in fields)])

    def with_fields(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        rows, failed = typed(batch.drop_columns([name for name in batch.schema.names if name in fields]))
        for field in fields:
            rows = rows.append_column(field, pa.array(["false"] * rows.num_rows))
        return rows, failed

    rows = pa.table(
        {
            "key": pa.array([b"a", b"b", b"a"], pa.binary()),
            "value": pa.array([b"1", b"2", None], pa.binary()),
            PARTITION: pa.array([0] * 3, pa.int32()),
            OFFSET: pa.array(range(3), pa.int64()),
        }
    )
    latest, _ = latest_rows(rows, columns, with_fields)
    assert latest.column_names == [*columns.names, DELETED]
    assert {row["_key"]: row[DELETED] for row in latest.to_pylist()} == {b"a": True, b"b": False}


def test_the_row_before_an_undecodable_one_stays() -> None:
    assert table_after([(b"k", b"good"), (b"k", b"!bad")], ()) == ({b"k": "good"}, 1)
