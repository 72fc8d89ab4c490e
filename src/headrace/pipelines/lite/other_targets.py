"""Targets beside topics: a database table, the console, a plugin. A batch is written whole, with Spark's ledgers."""

from __future__ import annotations

from pathlib import Path

from headrace.pipelines.connectors.databases import Database, DatabaseRow
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError
from headrace.pipelines.lite.rows import DELETED, ERROR, KEY, LiteBatch, LiteRow, not_in_lite, visible
from headrace.pipelines.lite.spark_text import json_text
from headrace.pipelines.plugins.api import Batch
from headrace.pipelines.plugins.batch_ledger import write_once
from headrace.pipelines.plugins.catalogue import open_sink

_ROWS_AT_ONCE = 1_000
# A table may have other columns that begin with an underscore, such as _id.
_HIDDEN = (DELETED, ERROR, KEY)


class TableTarget:
    def __init__(self, end: End) -> None:
        end.only("url", "table", "keys", "evolve")
        if end.is_on("evolve"):
            raise not_in_lite(end.place, "evolve is on")
        self._database, self._table, self._keys = Database(end.text("url")), end.text("table"), end.names("keys")
        self._place = end.place

    def write(self, batch: LiteBatch) -> int:
        names = [column.name for column in batch.columns if column.name not in _HIDDEN]
        statement = self._database.upsert_sql(self._table, names, self._keys)
        count = 0
        with self._database.connect() as connection:
            rows = list(batch.rows())
            if not rows or not self._database.claim_batch(connection, batch.name, batch.number):
                return 0
            cursor = connection.cursor()
            waiting: list[DatabaseRow] = []
            for row in rows:
                count += 1
                if row.get(DELETED) or len(waiting) >= _ROWS_AT_ONCE:
                    cursor.executemany(statement, waiting)
                    waiting = []
                if row.get(DELETED):
                    cursor.execute(self._database.delete_sql(self._table, self._keys), (self._deleted_key(row),))
                else:
                    waiting.append(tuple(row[name] for name in names))
            if waiting:
                cursor.executemany(statement, waiting)
        return count

    def _deleted_key(self, row: LiteRow) -> str:
        if len(self._keys) != 1:
            raise OptionError(
                f'{self._place}: a tombstone names one key column: set "keys" to it, or leave _deleted out in select'
            )
        return str(row.get(KEY) or "")

    def close(self) -> None:
        pass


class ConsoleTarget:
    def __init__(self, end: End) -> None:
        end.only()

    def write(self, batch: LiteBatch) -> int:
        names = [column.name for column in batch.columns]
        count = 0
        for row in batch.rows():
            print(json_text(row, names), flush=True)
            count += 1
        return count

    def close(self) -> None:
        pass


class PluginTarget:
    def __init__(self, end: End, checkpoint: Path) -> None:
        self._sink, self._checkpoint = open_sink(end), checkpoint

    def write(self, batch: LiteBatch) -> int:
        counted = 0
        columns = [column.name for column in batch.columns]

        def rows() -> list[LiteRow]:
            nonlocal counted
            keeps = self._sink.takes_deletes
            found = [
                {**visible(row), DELETED: bool(row.get(DELETED)), KEY: row.get(KEY)} if keeps else visible(row)
                for row in batch.rows()
                if keeps or not row.get(DELETED)
            ]
            counted = len(found)
            return found

        write_once(self._sink, self._checkpoint, batch.name, batch.number, lambda: Batch.of(columns, rows()))
        return counted

    def close(self) -> None:
        self._sink.close()
