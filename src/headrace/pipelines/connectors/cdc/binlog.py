"""The binary log of MariaDB and MySQL as a change log.

A position is the number of a log file and a place in it: `bin.000002` at 635 is 2 · 2³² + 635. It grows from one
transaction to the next. The server must write whole rows with the names of their columns: binlog_format = ROW,
binlog_row_image = FULL, binlog_row_metadata = FULL. The server deletes old log files by its own settings.

A position means something on its server only: after RESET MASTER the log begins anew, and a replica that takes over has
its own log. Reading there would skip the changes before the position, so `check` refuses a log that does not have it,
and a server other than the one of the offset.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.pipelines.connectors.cdc.pgoutput import Change
from headrace.pipelines.connectors.databases import Connection, Database, only_row
from headrace.pipelines.connectors.mysql_connection import connection_settings, json_row
from headrace.pipelines.errors import DataLossError, PipelineError

_PLACE_BITS: Final = 32
_SETTINGS: Final = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_BEGIN_ANEW: Final = "Start with a storage of its own (or delete the old one), which takes a new snapshot"
# Programs mark their statements by comments. Those that begin with an exclamation mark are part of the statement.
_COMMENTS: Final = re.compile(r"(?:\s+|/\*(?!!).*?\*/|(?:--|#)[^\n]*\n)+", re.DOTALL)
_SAVEPOINT: Final = re.compile(r"(SAVEPOINT|ROLLBACK\s+TO)\s+(.+)", re.IGNORECASE | re.DOTALL)
_TRUNCATE: Final = re.compile(r"\s*TRUNCATE\s+(?:TABLE\s+)?(?:[`\"]?(\w+)[`\"]?\.)?[`\"]?(\w+)[`\"]?", re.IGNORECASE)


def position_of(file: str, place: int) -> int:
    return int(file.rpartition(".")[2]) << _PLACE_BITS | place


@dataclass(frozen=True)
class BinlogChanges:
    database: Database
    tables: tuple[str, ...]
    # Names this reader: a server sends its log to one reader per server id.
    name: str
    unit: str = "bytes"

    def prepare(self) -> int:
        with self.database.connect() as connection:
            for setting, wanted in _SETTINGS.items():
                found = connection.execute(f"SHOW GLOBAL VARIABLES LIKE '{setting}'").fetchone()
                if found is None or found[1] != wanted:
                    given = "is unknown to this server" if found is None else f"is {found[1]!r}"
                    raise PipelineError(
                        f"{setting} {given}: change capture needs {setting} = {wanted}; set it in the server's "
                        "configuration and restart the server"
                    )
            for table in self.tables:
                if not self.database.primary_key(connection, table):
                    # Raises with a better sentence if the table does not exist.
                    self.database.columns(table)
        return self.latest()

    def resume(self) -> None:
        """The log has all tables, with their columns."""

    def latest(self) -> int:
        with self.database.connect() as connection:
            # MySQL 8.4 has SHOW BINARY LOG STATUS only, MariaDB both.
            file, place, *_ = only_row(connection.execute("SHOW MASTER STATUS"))
        return position_of(file, int(place))

    def server(self) -> str:
        """MySQL has a UUID, MariaDB only the id, which differs between a server and its replicas."""
        with self.database.connect() as connection:
            query = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_id')"
            found: dict[str, str] = dict(connection.execute(query).fetchall())
        return str(found.get("server_uuid") or found["server_id"])

    def check(self, start: int, server: str | None = None) -> None:
        if server is not None and (now := self.server()) != server:
            raise DataLossError(
                f"changes were taken from server {server}, and this is server {now}, as after a failover: positions in "
                f"their binary logs differ, so changes may be lost. Follow server {server} again. {_BEGIN_ANEW}"
            )
        files = self._files()
        number, place = start >> _PLACE_BITS, start & _MASK
        if not files or min(files) > number:
            raise DataLossError(
                f"the server's oldest binary log is {min(files, default=0)}, but changes were taken from log "
                f"{number} only: those between are lost. {_BEGIN_ANEW}, and keep logs longer with "
                "binlog_expire_logs_seconds"
            )
        _, size = files.get(number, ("", 0))
        if size < place:
            raise DataLossError(
                f"the server's binary log {number} ends at {size}, but changes were taken up to {place}: it is not the "
                "log that was followed, as after RESET MASTER or a failover, so changes may be lost. "
                f"{_BEGIN_ANEW}"
            )

    def behind(self, taken: int, latest: int) -> int:
        """Bytes of the log between two positions."""
        files = self._files()
        first, last = taken >> _PLACE_BITS, latest >> _PLACE_BITS
        before = sum(size for number, (_, size) in files.items() if first <= number < last)
        return before + (latest & _MASK) - (taken & _MASK)

    def _files(self) -> dict[int, tuple[str, int]]:
        with self.database.connect() as connection:
            rows = connection.execute("SHOW BINARY LOGS").fetchall()
        return {int(row[0].rpartition(".")[2]): (str(row[0]), int(row[1])) for row in rows}

    def changes(self, start: int, end: int) -> Iterator[Change]:
        if start >= end:
            return
        from pymysqlreplication import BinLogStreamReader
        from pymysqlreplication.event import QueryEvent, XidEvent
        from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

        with self.database.connect() as connection:
            keys = {table: tuple(self.database.primary_key(connection, table)) for table in self.tables}
        settings = connection_settings(self.database.url)
        file, _ = self._files()[start >> _PLACE_BITS]
        stream = BinLogStreamReader(
            connection_settings=settings,
            # Below 2^31 and not a small number, which a replica is likely to have.
            server_id=zlib.crc32(self.name.encode()) >> 1 | 1 << 30,
            log_file=file,
            log_pos=start & _MASK,
            resume_stream=True,
            only_events=[QueryEvent, XidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
            enable_logging=False,
        )
        transaction = _Transaction(self._schema, keys)
        try:
            for event in stream:
                position = position_of(stream.log_file, stream.log_pos)
                if position > end:
                    break
                yield from transaction.feed(event, position)
                if position == end:
                    break
        finally:
            stream.close()

    @property
    def _schema(self) -> str:
        return str(connection_settings(self.database.url)["database"])

    def forget(self, until: int) -> None:
        """The server deletes its logs by itself."""


_MASK: Final = (1 << _PLACE_BITS) - 1


class _Event(Protocol):
    """Fields of the library's events: rows have no query, statements no table and rows."""

    timestamp: int
    schema: str | bytes
    query: str | bytes
    table: str
    rows: list[dict[str, dict[str, object]]]


class _Transaction:
    """Collects the rows of a transaction and returns them at its commit.

    The log also has rows that were rolled back, if the transaction did something that cannot be: it wrote a table
    without transactions, or made a temporary table.
    """

    def __init__(self, schema: str, keys: dict[str, tuple[str, ...]]) -> None:
        self._schema, self._keys = schema, keys
        self._open: list[tuple[str, str, dict[str, object] | None, dict[str, object] | None]] = []
        # Number of rows before each savepoint.
        self._savepoints: dict[str, int] = {}

    def feed(self, event: _Event, position: int) -> Iterator[Change]:
        kind = type(event).__name__
        if kind == "QueryEvent":
            yield from self._statement(event, position)
        elif kind == "XidEvent":
            yield from self._committed(position, event.timestamp)
        elif event.schema == self._schema and event.table in self._keys:
            for row in event.rows:
                self._open.append(_sides(kind, event.table, row))

    def _statement(self, event: _Event, position: int) -> Iterator[Change]:
        text = event.query if isinstance(event.query, str) else event.query.decode(errors="replace")
        schema = event.schema if isinstance(event.schema, str) else event.schema.decode()
        if comments := _COMMENTS.match(text):
            text = text[comments.end() :]
        if point := _SAVEPOINT.match(text):
            name = point[2].strip().strip('`"').lower()
            if point[1].upper() == "SAVEPOINT":
                self._savepoints[name] = len(self._open)
            else:
                del self._open[self._savepoints.get(name, 0) :]
            return
        if text.strip().upper() == "ROLLBACK":
            self._open, self._savepoints = [], {}
            return
        match = _TRUNCATE.match(text)
        if match and match[2] in self._keys and (match[1] or schema) == self._schema:
            self._open.append(("truncate", match[2], None, None))
        if text.strip().upper() != "BEGIN":
            yield from self._committed(position, event.timestamp)

    def _committed(self, position: int, at_s: int) -> Iterator[Change]:
        for number, (operation, table, before, after) in enumerate(self._open):
            name = f"{self._schema}.{table}"
            yield Change(operation, name, before, after, self._keys[table], position, number, at_s * 1000)
        self._open, self._savepoints = [], {}


def _sides(
    kind: str, table: str, row: dict[str, dict[str, object]]
) -> tuple[str, str, dict[str, object] | None, dict[str, object] | None]:
    if kind == "UpdateRowsEvent":
        return "update", table, json_row(row["before_values"]), json_row(row["after_values"])
    values = json_row(row["values"])
    return ("insert", table, None, values) if kind == "WriteRowsEvent" else ("delete", table, values, None)


def snapshot_position(connection: Connection) -> int:
    """Position of the snapshot that this connection's transaction reads. Only MariaDB tells it."""
    rows: dict[str, str] = dict(connection.execute("SHOW STATUS LIKE 'binlog_snapshot_%'").fetchall())
    if "Binlog_snapshot_file" not in rows:
        raise PipelineError(
            "this server does not tell the binary log position of a snapshot, as MariaDB does: set snapshot: never in "
            "from.cdc and copy the existing rows yourself"
        )
    return position_of(str(rows["Binlog_snapshot_file"]), int(rows["Binlog_snapshot_position"]))
