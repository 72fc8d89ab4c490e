"""Rows of a stream as changes with key, sequence and kind.

`marked_rows` adds the columns `__sequence` and `__kind` in Spark. `changes_of` makes changes of a collected batch. The
changes of a database (see `connectors.cdc`) get their columns from the database's catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from headrace.pipelines.auto_cdc.applying import KIND, SEQUENCE, CdcTarget
from headrace.pipelines.auto_cdc.history import DELETE, TRUNCATE, UPSERT, Change
from headrace.pipelines.errors import FlowStopped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Changes of one transaction have one position and are numbered.
_NUMBERS: Final = 10_000_000_000


def marked_rows(
    rows: DataFrame,
    columns: Sequence[str],
    sequence: Column,
    deletes: Column | None = None,
    truncates: Column | None = None,
) -> DataFrame:
    kind = f.lit(UPSERT)
    if deletes is not None:
        kind = f.when(f.coalesce(deletes, f.lit(False)), DELETE).otherwise(kind)
    if truncates is not None:
        kind = f.when(f.coalesce(truncates, f.lit(False)), TRUNCATE).otherwise(kind)
    return rows.select(*[f.col(name) for name in columns], sequence.alias(SEQUENCE), kind.alias(KIND))


def marked_changes(changes: DataFrame, types: Mapping[str, str], keys: Sequence[str]) -> DataFrame:
    """Changes of one table of a database, with its columns."""
    parsed = ", ".join(f"`{name}` {'string' if kind == 'binary' else kind}" for name, kind in types.items())
    row = f.from_json(f.col("after"), parsed, {"mode": "FAILFAST"})
    key = f.from_json(f.col("key"), parsed)
    columns = []
    for name, kind in types.items():
        value = f.coalesce(row[name], key[name]) if name in keys else row[name]
        # PostgreSQL prints bytes as \\x0102.
        columns.append((f.unhex(f.substring(value, 3, 1 << 30)) if kind == "binary" else value).alias(name))
    sequence = (f.col("position").cast("decimal(38,0)") * _NUMBERS + f.col("number")).cast("decimal(38,0)")
    kind = f.when(f.col("op") == "delete", DELETE).when(f.col("op") == "truncate", TRUNCATE).otherwise(UPSERT)
    lacks = f.array_except(f.array(*[f.lit(name) for name in types]), f.json_object_keys("after"))
    complete = f.when(
        f.col("op").isin("update", "insert", "read") & (f.size(lacks) > 0) & f.col("after").isNotNull(),
        f.raise_error(
            f.concat(
                f.lit("the change of the row "), f.col("key"),
                f.lit(" lacks its unchanged large value in "), f.array_join(lacks, ", "),
                f.lit(": ALTER TABLE … REPLICA IDENTITY FULL makes PostgreSQL send it"),
            )
        ),
    ).otherwise(kind)  # fmt: skip
    return changes.select(*columns, sequence.alias(SEQUENCE), complete.alias(KIND))


def changes_of(rows: Iterable[Mapping[str, object]], target: CdcTarget) -> Iterator[Change]:
    for row in rows:
        key, sequence, kind = tuple(row[name] for name in target.keys), row[SEQUENCE], str(row[KIND])
        if sequence is None:
            raise FlowStopped(f"the change of the row {key} has no sequence: every change needs one to have a place")
        if kind != TRUNCATE and any(part is None for part in key):
            missing = next(name for name in target.keys if row[name] is None)
            raise FlowStopped(f"a change with the sequence {sequence} has no {missing!r}: every change needs its key")
        yield Change(key, sequence, kind, {name: row[name] for name in target.columns})
