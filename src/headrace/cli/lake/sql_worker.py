"""Runs one SQL statement over topics for the web console, in a process of its own.

The console must not load DuckDB: a query may take more memory than the console has, and the layers keep the console
apart from tables. It starts a Python that calls `answer` and reads JSON from its standard output:
{"columns": […], "types": […], "rows": [[…]], "more": false} or {"error": "…"}.

A statement may read topics and nothing else: no files, no other databases, no settings. The process acts with the login
of the console's user, which it gets in the request.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.client.security import ClientSecurity
from headrace.kernel.json_values import JsonValue

if TYPE_CHECKING:
    from headrace.tables.sql_session import SqlSession

# DuckDB's memory beside what the scan of topics needs.
_LIMITS: Final = (
    "SET memory_limit='512MB'", "SET max_temp_directory_size='0B'", "SET threads=2",
    "SET enable_external_access=false", "SET lock_configuration=true",
)  # fmt: skip
_LONGEST_CELL: Final = 2000


@dataclass(frozen=True)
class Request:
    bootstrap: str
    security: ClientSecurity | None
    statement: str
    most_rows: int


def answer(request: Request) -> dict[str, JsonValue]:
    try:
        from headrace.pipelines.options import Cluster
        from headrace.tables.sql_session import SqlSession
    except ModuleNotFoundError as error:
        return {"error": f"SQL needs {error.name}: pip install 'headrace[spark]'"}
    from headrace.kernel.errors import Fault
    from headrace.pipelines.errors import PipelineError

    cluster = Cluster(request.bootstrap, request.security or ClientSecurity(), "headrace-console-sql")
    try:
        with SqlSession(cluster, tables=Path("/nonexistent")) as session:
            for setting in _LIMITS:
                session.query(setting)
            return _last_result(session, request)
    except (PipelineError, Fault) as error:
        return {"error": str(getattr(error, "message", "") or error)}


def _last_result(session: SqlSession, request: Request) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {"columns": [], "types": [], "rows": [], "more": False}
    for statement, line in session.statements(request.statement):
        result = session.query(statement, line)
        if result is None:
            continue
        schema, batches = result.stream()
        rows: list[JsonValue] = []
        more = False
        for batch in batches:
            for row in batch.to_pylist():
                if len(rows) >= request.most_rows:
                    more = True
                    break
                rows.append([_cell(value) for value in row.values()])
            if more:
                break
        kinds: list[JsonValue] = [str(field.type) for field in schema]
        found = {"columns": list(schema.names), "types": kinds, "rows": rows, "more": more}
    return found


def _cell(value: object) -> JsonValue:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        text = value.hex(" ")
    elif isinstance(value, str):
        text = value
    elif isinstance(value, dict | list):
        text = json.dumps(value, default=str, ensure_ascii=False)
    else:
        text = str(value)
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + "…"
