"""New rows of a database table, by a column that only grows, with the offsets of Spark's reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.pipelines.connectors.databases import Database, only_row, quoted
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError
from headrace.pipelines.lite.rows import JsonOffset, LiteRow, SlotReader, not_in_lite
from headrace.pipelines.plugins.columns import TYPES, Column, Value
from headrace.pipelines.spark.running_batch import RunningBatch

_KINDS: Final = (*TYPES,)


class TableRows:
    def __init__(self, end: End) -> None:
        end.only("url", "table", "column")
        self._database, self._table, self._column = Database(end.text("url")), end.text("table"), end.text("column")
        found = self._database.columns(self._table)
        if self._column not in found:
            raise OptionError(f"{end.place}: table {self._table!r} has no column {self._column!r}")
        if other := next((name for name, kind in found.items() if kind not in _KINDS), None):
            raise not_in_lite(end.place, f"column {other!r} is {found[other]}")
        self.columns = tuple(Column(name, kind) for name, kind in found.items())

    def initial(self) -> JsonOffset:
        return {"after": None}

    def latest(self, start: JsonOffset, until: JsonOffset | None) -> JsonOffset:
        if until is not None:
            return start if until["after"] is None else until
        text = "::text" if self._database.is_postgres else ""
        with self._database.connect() as connection:
            query = f"SELECT max({quoted(self._column)}){text} FROM {quoted(self._table)}"
            (value,) = only_row(connection.execute(query))
        return start if value is None else {"after": value if isinstance(value, int) else str(value)}

    def end(self) -> JsonOffset | None:
        return self.latest({"after": None}, None)

    def slots(self, start: JsonOffset, end: JsonOffset, batch: RunningBatch) -> Sequence[SlotReader]:
        def read() -> Iterator[LiteRow]:
            names = ", ".join(self._selected(column) for column in self.columns)
            at, mark = quoted(self._column), self._database.mark
            query, values = f"SELECT {names} FROM {quoted(self._table)} WHERE {at} <= {mark}", [end["after"]]
            if start["after"] is not None:
                query, values = f"{query} AND {at} > {mark}", [end["after"], start["after"]]
            with self._database.connect() as connection:
                for row in connection.execute(f"{query} ORDER BY {at}", values):
                    yield {column.name: _plain(value) for column, value in zip(self.columns, row, strict=True)}

        return [read]

    def _selected(self, column: Column) -> str:
        return self._database.as_text(column.name) if column.kind == "string" else quoted(column.name)

    def committed(self, end: JsonOffset) -> None:
        pass

    def close(self) -> None:
        pass


def _plain(value: Value) -> Value:
    return bytes(value) if isinstance(value, memoryview) else value
