"""Writers of `foreachBatch` that apply changes to a Delta table or a database table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipelines.auto_cdc.applying import KIND, CdcTarget, apply
from headrace.pipelines.auto_cdc.change_rows import changes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipelines.connectors.databases import Database

Writer = Callable[["DataFrame", int], None]


def delta_changes(path: str, name: str, target: CdcTarget, *, evolves: bool = False) -> Writer:
    def write(frame: DataFrame, batch: int) -> None:
        from headrace.pipelines.auto_cdc.delta_store import DeltaStore

        rows = frame.toArrow()
        if rows.num_rows:
            schema = rows.schema.remove(rows.schema.get_field_index(KIND))
            store = DeltaStore(path, target, schema, _writer_of(name, frame), batch, evolves)
            if not store.is_written():
                apply(store, target, changes_of(rows.to_pylist(), target))

    return write


def table_changes(database: Database, table: str, name: str, target: CdcTarget, *, evolves: bool = False) -> Writer:
    def write(frame: DataFrame, batch: int) -> None:
        from headrace.pipelines.auto_cdc.table_store import TableStore

        rows = [row.asDict() for row in frame.collect()]
        types = {field.name: field.dataType.simpleString().replace(",", ", ") for field in frame.schema.fields}
        with database.connect() as connection:
            if rows and database.claim_batch(connection, _writer_of(name, frame), batch):
                store = TableStore(database, connection, table, target, types, evolves)
                apply(store, target, changes_of(rows, target))

    return write


def _writer_of(name: str, frame: DataFrame) -> str:
    """The name in the ledger. The query's id stays the same as long as its checkpoint."""
    return f"{name}-{frame.sparkSession.sparkContext.getLocalProperty('sql.streaming.queryId')}"
