"""`format("headrace_cdc")`: change data capture. Reads every insert, update and delete of database tables as a stream.

Offsets are positions in the database's own change log (see `change_logs`). The source releases changes only after Spark
has committed them to its checkpoint. So a restart continues where it stopped, and a repeated batch reads the same
changes.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Final, TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.pipelines.connectors.change_logs import ChangeLog, change_log
from headrace.pipelines.connectors.pgoutput import Change
from headrace.pipelines.connectors.table_source import required

_ROW: Final = (
    "key string, op string, table string, before string, after string, "
    "position bigint, number int, committed_at timestamp"
)


# Columns of the source, in order.
ChangeRow: TypeAlias = tuple[str, str, str, str | None, str | None, int, int, datetime.datetime]


class ChangeSource(DataSource):  # type: ignore[misc]
    """Options: url, tables (comma-separated), slot (PostgreSQL; default headrace)."""

    @classmethod
    def name(cls) -> str:
        return "headrace_cdc"

    def schema(self) -> str:
        return _ROW

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = dict(self.options)
        tables = [part.strip() for part in required(options, "tables", "cdc").split(",") if part.strip()]
        return ChangeReader(change_log(required(options, "url", "cdc"), tables, options.get("slot") or "headrace"))


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, log: ChangeLog) -> None:
        self.log = log
        self._stop_at: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": self.log.prepare()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # The first run must create the slot or the triggers before it reads the current position.
        self.log.prepare()
        self._stop_at = self.log.latest()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        self.log.check(start["position"])
        latest = self._stop_at if self._stop_at is not None else self.log.latest()
        return {"position": max(latest, start["position"])}

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        # For progress only: the offsets of batches have no unit.
        return {"position": self.log.latest(), "unit": self.log.unit}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        # One task, because changes are ordered and a slot has one reader.
        return [] if start == end else [InputPartition((start["position"], end["position"]))]

    def read(self, partition: InputPartition) -> Iterator[ChangeRow]:
        for change in self.log.changes(*partition.value):
            yield _as_row(change)

    def commit(self, end: dict[str, int]) -> None:
        self.log.forget(end["position"])

    def stop(self) -> None:
        pass


def _as_row(change: Change) -> ChangeRow:
    row = change.after or change.before or {}
    names = change.key or tuple(row)
    key = json.dumps({name: row.get(name) for name in names})
    return (
        key,
        change.operation,
        change.table,
        None if change.before is None else json.dumps(change.before),
        None if change.after is None else json.dumps(change.after),
        change.lsn,
        change.number,
        datetime.datetime.fromtimestamp(change.committed_at_ms / 1000, datetime.UTC),
    )
