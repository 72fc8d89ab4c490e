"""Database changes as records of a topic: what a compacted topic and readers of Debezium's records expect.

A record has the primary key of the row as its key, so all changes of a row are in one partition, in order. A change of
the key is a delete with the old key and an insert with the new one. After a delete comes a tombstone (a record without
a value), so that compaction removes the row. The value is the change as JSON: by default the columns of the change
source, with `envelope: debezium` the fields that Debezium writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from headrace.pipelines.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Operation of the rows that become tombstones.
TOMBSTONE: Final = "tombstone"
DEBEZIUM: Final = "debezium"
ENVELOPES: Final = ("headrace", DEBEZIUM)
_OPERATIONS: Final = {"insert": "c", "update": "u", "delete": "d", "read": "r", "truncate": "t"}


def record_changes(changes: DataFrame, *, tombstones: bool) -> DataFrame:
    """One row per record: changes of a key become two, a delete gets a tombstone."""
    names = [name for name in changes.columns if name != "old_key"]

    def record(**values: Column) -> Column:
        return f.struct(*[values.get(name, f.col(name)).alias(name) for name in names])

    nothing = f.lit(None).cast("string")
    gone = record(op=f.lit("delete"), key=f.col("old_key"), after=nothing)
    buried = record(op=f.lit(TOMBSTONE), key=f.col("old_key"), after=nothing, before=nothing)
    made = record(op=f.lit("insert"), before=nothing)
    moved = [gone, *([buried] if tombstones else []), made]
    ended = record(op=f.lit(TOMBSTONE), before=nothing, after=nothing)
    deleted = [record(), *([ended] if tombstones else [])]
    each = (
        f.when(f.col("old_key").isNotNull(), f.array(*moved))
        .when(f.col("op") == "delete", f.array(*deleted))
        .otherwise(f.array(record()))
    )
    return changes.select(f.explode(each).alias("_record")).select("_record.*")


def topic_changes(changes: DataFrame, *, tombstones: bool, envelope: str, place: str) -> DataFrame:
    """`key` and `value` for the sink."""
    if envelope not in ENVELOPES:
        raise OptionError(f"{place}: envelope {envelope!r} must be {' or '.join(ENVELOPES)}")
    records = record_changes(changes, tombstones=tombstones)
    body = _debezium() if envelope == DEBEZIUM else _plain(records)
    return records.select("key", f.when(f.col("op") != TOMBSTONE, body).alias("value"))


def _plain(records: DataFrame) -> Column:
    return f.to_json(f.struct(*records.columns), {"ignoreNullFields": "false"})


def _debezium() -> Column:
    """The rows are JSON already, so the text is put together: as a map it would lose the types of the values."""
    source = f.to_json(
        f.struct(
            f.lit("headrace").alias("connector"),
            f.col("table").alias("table"),
            f.col("position").alias("lsn"),
            f.unix_millis("committed_at").alias("ts_ms"),
            f.when(f.col("op") == "read", "true").otherwise("false").alias("snapshot"),
        ),
        {"ignoreNullFields": "false"},
    )
    operation: Column = f.lit(None).cast("string")
    for name, letter in _OPERATIONS.items():
        operation = f.when(f.col("op") == name, letter).otherwise(operation)
    return f.concat(
        f.lit('{"before":'), _row("before"), f.lit(',"after":'), _row("after"), f.lit(',"source":'), source,
        f.lit(',"op":"'), operation, f.lit('","ts_ms":'), _millis(), f.lit("}"),
    )  # fmt: skip


def _row(name: str) -> Column:
    return f.coalesce(f.col(name), f.lit("null"))


def _millis() -> Column:
    return f.coalesce(f.unix_millis("committed_at").cast("string"), f.lit("null"))
