"""A database table as a stream: finds new rows by a column that only grows (an id, a modification time).

Offsets are values of that column. A batch is (start, end], so a repeated batch reads the same rows. The source does not
see a change of a row that leaves this column unchanged. Use change data capture for that (`cdc`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructType

from headrace.pipelines.connectors.databases import Database, DatabaseRow, only_row, quoted
from headrace.pipelines.errors import OptionError
from headrace.pipelines.spark.closed_session import leave_closed_session


def required(options: Mapping[str, str], name: str, source: str) -> str:
    if not options.get(name):
        raise OptionError(f'{source}: "{name}" is missing')
    return options[name]


class TableSource(DataSource):  # type: ignore[misc]
    """`format("headrace_table")` with url, table, column."""

    @classmethod
    def name(cls) -> str:
        return "headrace_table"

    def _table(self) -> tuple[Database, str, str]:
        options = dict(self.options)
        database = Database(required(options, "url", "jdbc"))
        return database, required(options, "table", "jdbc"), required(options, "column", "jdbc")

    def schema(self) -> str:
        database, table, column = self._table()
        columns = database.columns(table)
        if column not in columns:
            raise OptionError(f"jdbc: table {table!r} has no column {column!r}")
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        texts = frozenset(field.name for field in schema.fields if isinstance(field.dataType, StringType))
        return TableReader(*self._table(), schema.fieldNames(), texts)


class TableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, database: Database, table: str, column: str, columns: list[str], texts: frozenset[str]) -> None:
        self.database, self.table, self.column, self.columns, self.texts = database, table, column, columns, texts
        self._stop_at: dict[str, object] | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        return {"after": None}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = self._largest()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        latest = self._stop_at or self._largest()
        return latest if latest["after"] is not None else start

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        return self._largest()

    def _largest(self) -> dict[str, object]:
        with self.database.connect() as connection:
            text = "::text" if self.database.is_postgres else ""
            query = f"SELECT max({quoted(self.column)}){text} FROM {quoted(self.table)}"
            (value,) = only_row(connection.execute(query))
        return {"after": value if value is None or isinstance(value, int) else str(value)}

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        return [] if start == end else [InputPartition((start["after"], end["after"]))]

    def read(self, partition: InputPartition) -> Iterator[DatabaseRow]:
        after, until = partition.value
        names = ", ".join(self._selected(name) for name in self.columns)
        at, mark = quoted(self.column), self.database.mark
        query, values = f"SELECT {names} FROM {quoted(self.table)} WHERE {at} <= {mark}", [until]
        if after is not None:
            query, values = f"{query} AND {at} > {mark}", [until, after]
        with self.database.connect() as connection:
            yield from (tuple(row) for row in connection.execute(f"{query} ORDER BY {at}", values))

    def _selected(self, name: str) -> str:
        # Types that Spark lacks (uuid, json, arrays, times) are text, as PostgreSQL prints them.
        return self.database.as_text(name) if name in self.texts else quoted(name)

    def commit(self, end: dict[str, object]) -> None:
        pass

    def stop(self) -> None:
        leave_closed_session()
