"""`headrace.sql`: SQL over topics for Python programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.client.security import ClientSecurity
from headrace.pipelines.options import Cluster
from headrace.tables.sql_errors import SqlError
from headrace.tables.sql_session import Rows, SqlSession


def sql(
    statement: str,
    *,
    bootstrap: str = "localhost:9092",
    settings: Mapping[str, str] | None = None,
    binary: bool = False,
    tables: str | Path = "tables",
    registry: str | None = None,
) -> Rows:
    """Runs one statement. `settings` are Kafka's client settings (TLS, SASL), `tables` the pipeline directory of the
    tables, `registry` the schema registry that types the columns. Raises SqlError for an invalid statement, and a
    Fault if no broker answers."""
    cluster = Cluster(bootstrap, ClientSecurity.from_settings(settings or {}), "headrace-sql")
    with SqlSession(cluster, binary=binary, tables=Path(tables), registry=registry) as session:
        answer = session.query(statement)
        if answer is None:
            raise SqlError("the statement has no rows: headrace.sql runs one query, for example SELECT")
        return answer.read()
