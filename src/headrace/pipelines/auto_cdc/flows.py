"""`dp.create_auto_cdc_flow` of Spark's pipelines API in our runner.

The target is a streaming table, which becomes a Delta table below the pipeline's storage, or a sink with the format
`delta` (option `path`) or `jdbc` (options `url` and `table`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pyspark.pipelines.output import Output, Sink, Table
from pyspark.sql import functions as f

from headrace.pipelines.auto_cdc.applying import CdcTarget
from headrace.pipelines.auto_cdc.change_rows import marked_rows
from headrace.pipelines.auto_cdc.writers import Writer, delta_changes, table_changes
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.errors import OptionError, nearest

if TYPE_CHECKING:
    from pyspark.pipelines.flow import AutoCdcFlow
    from pyspark.sql import Column, DataFrame, SparkSession

_CONNECT: Final = "pyspark.sql.connect.functions.builtin"


@contextmanager
def classic_expressions() -> Iterator[None]:
    """Lets `create_auto_cdc_flow` make ordinary columns. It takes them from Spark Connect, which needs grpc and whose
    columns an ordinary session cannot use."""
    before = sys.modules.get(_CONNECT)
    stand_in = ModuleType(_CONNECT)
    stand_in.__dict__.update(expr=f.expr, col=f.col)
    sys.modules[_CONNECT] = stand_in
    try:
        yield
    finally:
        if before is None:
            del sys.modules[_CONNECT]
        else:
            sys.modules[_CONNECT] = before


def cdc_target(flow: AutoCdcFlow, rows: DataFrame) -> CdcTarget:
    """How the flow applies the changes that these rows are."""
    keys = _names(flow.keys, rows)
    columns = _names(flow.column_list, rows) or tuple(
        name for name in rows.columns if name not in _names(flow.except_column_list, rows)
    )
    if missing := next((name for name in keys if name not in columns), None):
        raise OptionError(f"auto CDC flow {flow.name!r}: the key {missing!r} must be one of the columns of the target")
    tracked = _names(flow.track_history_column_list, rows)
    if excluded := _names(flow.track_history_except_column_list, rows):
        tracked = tuple(name for name in columns if name not in excluded)
    return CdcTarget(keys, columns, str(flow.stored_as_scd_type or 1) == "2", tracked or None)


def _names(columns: list[Column] | None, rows: DataFrame) -> tuple[str, ...]:
    return tuple(rows.select(*columns).columns) if columns else ()


def source_rows(spark: SparkSession, flow: AutoCdcFlow) -> DataFrame:
    return spark.readStream.table(flow.source)


def change_frame(flow: AutoCdcFlow, rows: DataFrame) -> DataFrame:
    target = cdc_target(flow, rows)
    return marked_rows(rows, target.columns, flow.sequence_by, flow.apply_as_deletes)


def writer_for(flow: AutoCdcFlow, output: Output, rows: DataFrame, place_of: Callable[[str], str]) -> Writer:
    """The writer of the flow's target. `place_of` gives the path of a table of the pipeline."""
    target, name = cdc_target(flow, rows), str(flow.name)
    if isinstance(output, Table):
        if output.format not in (None, "delta"):
            raise OptionError(
                f"auto CDC flow {name!r}: table {output.name!r} has the format {output.format!r}, which cannot be "
                "merged into: use delta"
            )
        path = place_of(output.name)
        if "://" not in path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        return delta_changes(path, name, target, evolves=True)
    assert isinstance(output, Sink)
    options = dict(output.options)
    evolves = options.pop("evolve", "false") == "true"
    known = {"delta": ("path",), "jdbc": ("url", "table")}.get(output.format)
    if known is None:
        raise OptionError(f"auto CDC flow {name!r}: sink {output.name!r} must have the format delta or jdbc")
    if unknown := next((key for key in options if key not in known), None):
        raise OptionError(f"sink {output.name!r}: option {unknown!r} is unknown{nearest(unknown, (*known, 'evolve'))}")
    if missing := next((key for key in known if key not in options), None):
        raise OptionError(f"sink {output.name!r}: option {missing!r} is missing")
    if output.format == "delta":
        return delta_changes(options["path"], name, target, evolves=evolves)
    return table_changes(Database(options["url"]), options["table"], name, target, evolves=evolves)
