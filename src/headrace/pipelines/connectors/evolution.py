"""New and wider columns of a flow's rows in its database table, when the connector may change the table.

With `evolve: true` a column that the table lacks is added, and a column that is too narrow is widened. Both are safe:
old rows have null, or keep their values. Any other difference stops the flow with a sentence, because the database
would reject rows or change values. The statements run in the transaction of the batch, so a failed batch leaves the
table as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.pipelines.connectors.databases import Connection, Database, quoted
from headrace.pipelines.errors import FlowStopped

_POSTGRES: Final = {
    "string": "text",
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
}
_SQLITE: Final = {"int": "INTEGER", "bigint": "INTEGER", "float": "REAL", "double": "REAL", "binary": "BLOB"}
# Each type holds every value of the types before it.
_WIDER: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_JSON_TYPES: Final = ((bool, "boolean"), (int, "bigint"), (float, "double"), (str, "string"))


def evolve(database: Database, connection: Connection, table: str, columns: Mapping[str, str]) -> list[str]:
    """Makes the table take rows with these columns (name → Spark type). Returns the statements that it executed."""
    existing = database.columns(table, connection)
    statements = []
    for name, kind in columns.items():
        if name not in existing:
            statements.append(f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(name)} {sql_type(database, kind)}")
        elif not holds(existing[name], kind) and not database.is_sqlite:
            if not holds(kind, existing[name]):
                raise FlowStopped(
                    f"column {name!r} of table {table!r} is {existing[name]}, but the rows have {kind}: "
                    f"cast it in select, for example CAST({name} AS {existing[name]})"
                )
            to = sql_type(database, kind)
            statements.append(f"ALTER TABLE {quoted(table)} ALTER COLUMN {quoted(name)} TYPE {to}")
    for statement in statements:
        connection.execute(statement)
    return statements


def columns_of_changes(rows: Iterable[str | None]) -> dict[str, str]:
    """Columns of changed rows (JSON), with a type that holds their values."""
    found: dict[str, str] = {}
    for text in filter(None, rows):
        for name, value in json.loads(text).items():
            kind = next((kind for of, kind in _JSON_TYPES if isinstance(value, of)), None)
            if kind is not None and name not in found:
                found[name] = kind
    return found


def holds(wide: str, narrow: str) -> bool:
    """Whether a column of type `wide` holds every value of `narrow` as it is."""
    if wide == narrow:
        return True
    for kinds in _WIDER:
        if wide in kinds and narrow in kinds:
            return kinds.index(wide) >= kinds.index(narrow)
    of, to = _DECIMAL.fullmatch(narrow), _DECIMAL.fullmatch(wide)
    if of and to:
        return int(to[2]) >= int(of[2]) and int(to[1]) - int(to[2]) >= int(of[1]) - int(of[2])
    return False


def sql_type(database: Database, kind: str) -> str:
    if database.is_sqlite:
        return _SQLITE.get(kind, "TEXT")
    if found := _DECIMAL.fullmatch(kind):
        return f"numeric({found[1]}, {found[2]})"
    return _POSTGRES.get(kind, "text")
