"""Delta and database tables that a connector keeps by changes: `scd: 1` (current rows) or `scd: 2` (their history).

The changes of a database (`from: cdc`) know their key, order and kind. Other rows need `keys`, `sequence` and, if they
have them, `deletes` and `truncates`: SQL expressions over the columns after the SELECT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from headrace.pipelines.auto_cdc.applying import CdcTarget
from headrace.pipelines.auto_cdc.change_rows import marked_changes, marked_rows
from headrace.pipelines.auto_cdc.writers import Writer, delta_changes, table_changes
from headrace.pipelines.connectors.cdc.change_topics import record_changes
from headrace.pipelines.connectors.connector import ConnectorSpec
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Settings of a target that is kept by changes.
SETTINGS: Final = ("scd", "keys", "sequence", "deletes", "truncates", "columns", "track")


def scd_target(spec: ConnectorSpec, path: str | None) -> tuple[Writer, Callable[[DataFrame], DataFrame]]:
    """The writer of the target and the function that makes changes of the rows. `path` is that of a Delta table."""
    end = spec.target
    if end.text("scd") not in ("1", "2"):
        raise OptionError(f"{end.place}: scd {end.text('scd')!r} must be 1 (current rows) or 2 (their history)")
    is_cdc = spec.source.kind == "cdc" and spec.select is None
    made = _of_database(spec, end) if is_cdc else _of_rows(end)

    def write(frame: DataFrame, batch: int) -> None:
        target = made.target([name for name in frame.columns if not name.startswith("__")])
        evolves = end.is_on("evolve")
        if path is not None:
            delta_changes(path, spec.name, target, evolves=evolves)(frame, batch)
        else:
            table_changes(Database(end.text("url")), end.text("table"), spec.name, target, evolves=evolves)(
                frame, batch
            )

    return write, made.fit


class _Changes:
    """How the rows of the source become changes of the target."""

    def __init__(self, end: End, keys: list[str], fit: Callable[[DataFrame], DataFrame]) -> None:
        self._end, self._keys, self.fit = end, tuple(keys), fit

    def target(self, columns: list[str]) -> CdcTarget:
        keeps_history = self._end.text("scd") == "2"
        tracked = tuple(self._end.names("track")) if "track" in self._end.settings else None
        return CdcTarget(self._keys, tuple(columns), keeps_history, tracked)


def _of_rows(end: End) -> _Changes:
    keys = end.names("keys")
    if not keys:
        raise OptionError(f'{end.place}: "keys" is missing: the columns that name a row')
    sequence = end.text("sequence")

    def fit(frame: DataFrame) -> DataFrame:
        chosen = end.names("columns") or [name for name in frame.columns if not name.startswith("_")]
        if missing := next((name for name in (*keys, *chosen) if name not in frame.columns), None):
            raise OptionError(f"{end.place}: {missing!r} is not a column; there are {', '.join(frame.columns)}")
        conditions = {
            name: f.expr(end.text(name)) if name in end.settings else None for name in ("deletes", "truncates")
        }
        return marked_rows(frame, list(dict.fromkeys([*keys, *chosen])), f.expr(sequence), **conditions)

    return _Changes(end, keys, fit)


def _of_database(spec: ConnectorSpec, end: End) -> _Changes:
    for name in ("keys", "sequence", "deletes", "truncates", "columns"):
        if name in end.settings:
            raise OptionError(f'{end.place}: "{name}" does not go with cdc: the database has it. Or use a select')
    tables = spec.source.names("tables")
    if len(tables) != 1:
        raise OptionError(f"{end.place}: scd takes the changes of one table, and from.cdc has {len(tables)}")
    source = Database(spec.source.text("url"))
    with source.connect() as connection:
        keys = source.primary_key(connection, tables[0])
    types = source.columns(tables[0])
    if not keys:
        raise OptionError(f"{end.place}: table {tables[0]!r} has no primary key, which its changes need")
    return _Changes(end, keys, lambda frame: marked_changes(record_changes(frame, tombstones=False), types, keys))
