"""A database table as the target of changes, and the table of its changes beside it (`<table>__changes`).

The store creates the tables that do not exist. Everything that a batch writes is one transaction with its row in the
ledger, so a repeated batch is skipped.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.pipelines.auto_cdc.applying import END, KIND, SEQUENCE, START, CdcTarget, Known, Plan
from headrace.pipelines.auto_cdc.history import TRUNCATE, Change, Key, Order, Version
from headrace.pipelines.connectors.databases import Connection, Database, quoted
from headrace.pipelines.connectors.evolution import evolve, sql_type
from headrace.pipelines.errors import FlowStopped

# A statement may have 999 parameters in SQLite.
_KEYS_AT_ONCE: Final = 200


@dataclass
class TableStore:
    database: Database
    connection: Connection
    table: str
    target: CdcTarget
    # Spark types of the columns and of `__sequence`.
    types: Mapping[str, str]
    evolves: bool = False

    @property
    def _changes(self) -> str:
        return f"{self.table}__changes"

    def known(self, keys: Collection[Key] | None) -> Known:
        self._prepare()
        found: dict[Key, list[Change]] = {}
        truncates: list[Order] = []
        kept = self._stored_columns()
        for row in self._rows(self._changes, [*kept, SEQUENCE, KIND], keys):
            values = {name: self._value(name, value) for name, value in zip(kept, row, strict=False)}
            sequence, kind = self._value(SEQUENCE, row[-2]), str(row[-1])
            if kind == TRUNCATE:
                truncates.append(sequence)
            else:
                key = tuple(values[name] for name in self.target.keys)
                found.setdefault(key, []).append(Change(key, sequence, kind, values))
        return Known(found, truncates)

    def write(self, plan: Plan) -> None:
        kept = self._stored_columns()
        if plan.replaces_changes:
            self._delete(self._changes, {change.key for change in plan.changes if change.kind != TRUNCATE})
        else:
            same = [*self.target.keys, SEQUENCE]
            rows = [(*change.key, change.sequence) for change in plan.changes if change.kind != TRUNCATE]
            self._each(self.database.delete_sql(self._changes, same), rows)
        truncates = [(change.sequence, TRUNCATE) for change in plan.changes if change.kind == TRUNCATE]
        self._each(self.database.delete_sql(self._changes, [SEQUENCE, KIND]), truncates)
        stored = [
            (*[self._kept(change, name) for name in kept], change.sequence, change.kind) for change in plan.changes
        ]
        self._each(self.database.upsert_sql(self._changes, [*kept, SEQUENCE, KIND], []), stored)
        self._delete(self.table, plan.versions)
        columns = [*self.target.columns, *((START, END) if self.target.keeps_history else ())]
        rows = [self._cells(version) for some in plan.versions.values() for version in some]
        self._each(self.database.upsert_sql(self.table, columns, []), rows)

    def _kept(self, change: Change, name: str) -> object:
        if change.kind == TRUNCATE:
            return None
        return change.key[self.target.keys.index(name)] if name in self.target.keys else change.row.get(name)

    def _cells(self, version: Version) -> tuple[object, ...]:
        values = tuple(version.row.get(name) for name in self.target.columns)
        return (*values, version.start, version.end) if self.target.keeps_history else values

    def _stored_columns(self) -> tuple[str, ...]:
        return (*self.target.keys, *(self.target.others if self.target.keeps_history else ()))

    def _prepare(self) -> None:
        columns = {name: self.types[name] for name in self.target.columns}
        sequence = self.types[SEQUENCE]
        history = {START: sequence, END: sequence} if self.target.keeps_history else {}
        self._create(
            self.table, {**columns, **history}, self.target.keys if not history else (*self.target.keys, START)
        )
        self._create(
            self._changes, {**{n: columns[n] for n in self._stored_columns()}, SEQUENCE: sequence, KIND: "string"}, ()
        )
        known = self.database.columns(self.table, self.connection)
        missing = [name for name in (*columns, *history) if name not in known]
        if missing and self.evolves and not set(missing) & set(history):
            for table in (self.table, *((self._changes,) if history else ())):
                evolve(self.database, self.connection, table, columns)
        elif missing:
            raise FlowStopped(
                f"table {self.table!r} has no column {', '.join(map(repr, missing))}: add it with ALTER TABLE, let the "
                "flow add columns with evolve: true, or name another table, which the flow creates"
            )

    def _create(self, table: str, columns: Mapping[str, str], key: Sequence[str]) -> None:
        parts = [f"{quoted(name)} {sql_type(self.database, kind)}" for name, kind in columns.items()]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(quoted(name) for name in key)})")
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({', '.join(parts)})")
        if not key:
            index = quoted(f"{table.replace('.', '_')}_key")
            names = ", ".join(quoted(name) for name in self.target.keys)
            self.connection.execute(f"CREATE INDEX IF NOT EXISTS {index} ON {quoted(table)} ({names})")

    def _rows(self, table: str, columns: Sequence[str], keys: Collection[Key] | None) -> Iterator[tuple[object, ...]]:
        names = ", ".join(quoted(name) for name in columns)
        query = f"SELECT {names} FROM {quoted(table)}"
        if keys is None:
            yield from self.connection.execute(query)
            return
        yield from self.connection.execute(f"{query} WHERE {quoted(KIND)} = '{TRUNCATE}'")
        same = " AND ".join(f"{quoted(name)} = {self.database.mark}" for name in self.target.keys)
        every = list(keys)
        for begin in range(0, len(every), _KEYS_AT_ONCE):
            some = every[begin : begin + _KEYS_AT_ONCE]
            where = " OR ".join([f"({same})"] * len(some))
            values = [self._cell(part) for key in some for part in key]
            yield from self.connection.execute(f"{query} WHERE {where}", values)

    def _delete(self, table: str, keys: Collection[Key]) -> None:
        self._each(self.database.delete_sql(table, self.target.keys), list(keys))

    def _each(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        if rows:
            self.connection.cursor().executemany(statement, [[self._cell(value) for value in row] for row in rows])

    def _cell(self, value: object) -> object:
        """A value that the driver takes: SQLite has no decimals and times."""
        if not self.database.is_sqlite:
            return value
        if isinstance(value, decimal.Decimal):
            return str(value)
        return value.isoformat() if isinstance(value, datetime.date | datetime.datetime) else value

    def _value(self, name: str, value: object) -> object:
        """A stored value in the type that Spark gives it."""
        kind = self.types[name]
        if value is None or not self.database.is_sqlite:
            return value
        if kind.startswith("decimal"):
            return decimal.Decimal(str(value))
        if kind.startswith("timestamp"):
            return datetime.datetime.fromisoformat(str(value))
        if kind == "date":
            return datetime.date.fromisoformat(str(value))
        return bool(value) if kind == "boolean" else value
