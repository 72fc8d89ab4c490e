"""`format("headrace_cdc")`: change data capture. Reads every insert, update and delete of database tables as a stream.

Offsets are positions in the database's own change log (see `change_logs`). The source releases changes only after Spark
has committed them to its checkpoint. So a restart continues where it stopped, and a repeated batch reads the same
changes.

The stream begins with a snapshot: the rows that exist, as changes with the operation `read` (see `snapshots`). A batch
with a chunk of the snapshot has the changes up to the chunk's position first, then the rows. The driver keeps the chunk
in a file until Spark has finished the batch, so a repeated batch has the same rows, too.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.pipelines.connectors.cdc.change_logs import ChangeLog, change_log
from headrace.pipelines.connectors.cdc.pgoutput import Change
from headrace.pipelines.connectors.cdc.snapshots import (
    Chunk,
    SnapshotFolder,
    SnapshotReader,
    SnapshotState,
    snapshot_reader,
)
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.connectors.table_source import required
from headrace.pipelines.errors import OptionError
from headrace.pipelines.spark.closed_session import leave_closed_session

CHANGE_COLUMNS: Final = (
    "key string, op string, table string, before string, after string, "
    "position bigint, number int, committed_at timestamp, old_key string"
)
INITIAL: Final = "initial"
NEVER: Final = "never"
_CHUNK_ROWS: Final = 10_000
# Numbers of snapshot rows: after every change that was committed at the same position.
FIRST_OF_SNAPSHOT: Final = 1_000_000_000


# Columns of the source, in order.
ChangeRow: TypeAlias = tuple[
    str | None, str, str, str | None, str | None, int, int, datetime.datetime | None, str | None
]
Offset: TypeAlias = Mapping[str, object]


class ChangeSource(DataSource):  # type: ignore[misc]
    """Options: url, tables (comma-separated), slot (PostgreSQL; default headrace), snapshot (initial or never),
    chunkRows, state (a local directory for chunks of the snapshot)."""

    @classmethod
    def name(cls) -> str:
        return "headrace_cdc"

    def schema(self) -> str:
        return CHANGE_COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = dict(self.options)
        tables = [part.strip() for part in required(options, "tables", "cdc").split(",") if part.strip()]
        url, slot = required(options, "url", "cdc"), options.get("slot") or "headrace"
        mode = options.get("snapshot") or NEVER
        if mode not in (INITIAL, NEVER):
            raise OptionError(f"cdc: snapshot {mode!r} must be {INITIAL} or {NEVER}")
        state = options.get("state")
        rows = options.get("chunkRows") or str(_CHUNK_ROWS)
        if not rows.isdigit() or not int(rows):
            raise OptionError(f"cdc: chunkRows {rows!r} must be a number of rows")
        return ChangeReader(
            change_log(url, tables, slot),
            snapshot_reader(Database(url), slot),
            SnapshotFolder(Path(state) if state else None),
            tuple(tables) if mode == INITIAL else (),
            int(rows),
        )


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(
        self, log: ChangeLog, reader: SnapshotReader, folder: SnapshotFolder, first: tuple[str, ...], chunk_rows: int
    ) -> None:
        self.log = log
        self._reader = reader
        self._folder = folder
        self._first = first
        self._chunk_rows = chunk_rows
        self._stop_at: int | None = None
        self._taken: int | None = None
        self._has_resumed = False

    def initialOffset(self) -> Offset:  # noqa: N802
        position = self.log.prepare()
        return _offset(position, SnapshotState(todo=self._first), self.log.server())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # The first run must create the slot or the triggers before it reads the current position.
        self.log.prepare()
        self._stop_at = self.log.latest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        position, state, server = _position(start), SnapshotState.of_offset(start), _server(start)
        self.log.check(position, server)
        if not self._has_resumed:
            self.log.resume()
            self._has_resumed = True
        # An offset of an earlier version does not name its server: it is the one that has the position now.
        server = server or self.log.server()
        request = self._folder.request()
        if request is not None and not state.todo and request[0] != state.request:
            state = SnapshotState(todo=request[1], chunk=state.chunk, request=request[0])
        if state.todo:
            return self._chunk_offset(position, state, server)
        latest = self._stop_at if self._stop_at is not None else self.log.latest()
        return _offset(max(latest, position), state, server)

    def _chunk_offset(self, position: int, state: SnapshotState, server: str | None) -> Offset:
        chunk = self._reader.chunk(state.todo[0], state.after, self._chunk_rows)
        if chunk.position < position:
            # The transaction is older than the changes that were read. It must not bring back old rows.
            self._reader.close()
            chunk = self._reader.chunk(state.todo[0], state.after, self._chunk_rows)
        after = state.next(chunk, self._chunk_rows, self.log.database)
        if not after.todo:
            self._reader.close()
        self._folder.write(after.chunk, chunk)
        return _offset(max(chunk.position, position), after, server)

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        # For progress only: the offsets of batches have no unit.
        latest = self.log.latest()
        behind = 0 if self._taken is None else max(self.log.behind(self._taken, latest), 0)
        return {"position": latest, "unit": self.log.unit, "behind": behind}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        # One task, because changes are ordered and a slot has one reader.
        before, after = SnapshotState.of_offset(start), SnapshotState.of_offset(end)
        self._taken = _position(end)
        if start != end:
            # A batch that is repeated after a restart comes here first.
            self.log.check(_position(start), _server(start))
            self.log.check(_position(end), _server(end))
        chunk = None
        if after.chunk != before.chunk:
            chunk = self._folder.read(after.chunk) or self._read_again(before, after)
        span = (_position(start), _position(end))
        return [] if chunk is None and span[0] == span[1] else [InputPartition((*span, chunk))]

    def _read_again(self, before: SnapshotState, after: SnapshotState) -> Chunk:
        begins_here = before.request == after.request and before.todo
        table = before.todo[0] if begins_here else str(after.table)
        return self._reader.chunk(table, before.after if begins_here else None, self._chunk_rows)

    def read(self, partition: InputPartition) -> Iterator[ChangeRow]:
        start, end, chunk = partition.value
        for change in self.log.changes(start, end):
            yield change_row(change)
        if chunk is not None:
            yield from _snapshot_rows(chunk, end)

    def commit(self, end: Offset) -> None:
        self.log.forget(_position(end))
        self._folder.forget(SnapshotState.of_offset(end))

    def stop(self) -> None:
        self._reader.close()
        leave_closed_session()


def _offset(position: int, state: SnapshotState, server: str | None) -> Offset:
    """Earlier versions read only `position` and `snapshot`."""
    offset: dict[str, object] = {"position": position}
    if state != SnapshotState():
        offset["snapshot"] = state.in_offset()
    if server is not None:
        offset["server"] = server
    return offset


def _position(offset: Offset) -> int:
    return int(str(offset["position"]))


def _server(offset: Offset) -> str | None:
    found = offset.get("server")
    return None if found is None else str(found)


def change_row(change: Change) -> ChangeRow:
    row = change.after or change.before or {}
    names = change.key or tuple(row)
    key = {name: row.get(name) for name in names}
    old = {name: (change.before or {}).get(name, value) for name, value in key.items()}
    return (
        # A truncated table has no row, so its record has no key.
        json.dumps(key) if row else None,
        change.operation,
        change.table,
        None if change.before is None else json.dumps(change.before),
        None if change.after is None else json.dumps(change.after),
        change.lsn,
        change.number,
        datetime.datetime.fromtimestamp(change.committed_at_ms / 1000, datetime.UTC),
        json.dumps(old) if change.operation == "update" and old != key else None,
    )


def _snapshot_rows(chunk: Chunk, position: int) -> Iterator[ChangeRow]:
    for number, row in enumerate(chunk.rows, FIRST_OF_SNAPSHOT):
        key = json.dumps({name: row.get(name) for name in chunk.key})
        yield key, "read", chunk.table, None, json.dumps(row), position, number, None, None
