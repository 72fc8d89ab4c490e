"""SQL over topics: a DuckDB connection whose relations are the topics of a cluster and their tables.

    with SqlSession(Cluster("localhost:9092", ClientSecurity(), "headrace-sql")) as session:
        session.query("SELECT partition, count(*) FROM orders GROUP BY ALL").read().arrow()

A topic becomes a relation when a statement names it. The brokers are asked when DuckDB scans the relation, so every
statement sees the records that are committed when it begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from headrace.client.blocking.client import BlockingClient
from headrace.kernel.errors import Fault
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.options import Cluster
from headrace.tables.definitions import Definition, Definitions
from headrace.tables.lake_table import APPEND, DEAD_LETTERS, REGISTRY
from headrace.tables.relations.last_rows import last_rows_of
from headrace.tables.relations.relation_rows import HistoryRows, LiveRows, WholeRows
from headrace.tables.relations.row_shapes import KafkaShape, RowShape
from headrace.tables.relations.topic_relation import Relation, RowsOfRelation, kafka_schema
from headrace.tables.relations.topic_scan import client_of
from headrace.tables.sql_errors import SqlError, has_position, sentence_of
from headrace.tables.table_logs import record_columns

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_SETTINGS: Final = (
    "SET TimeZone='UTC'",
    # Nothing is loaded from the network.
    "SET autoinstall_known_extensions=false",
    "SET python_enable_replacements=false",
    "SET enable_progress_bar=false",
    # `sql_errors` takes the position from it.
    "SET errors_as_json=true",
)
_ROWS_AT_ONCE: Final = 10_000
LIVE: Final = "live"
HISTORY: Final = "history"
PREPARE: Final = "PREPARE headrace_statement AS "


@dataclass(frozen=True)
class Rows:
    """The rows of a statement in memory: as Arrow, pandas, Polars or Python objects."""

    table: pa.Table

    def arrow(self) -> pa.Table:
        return self.table

    def pandas(self) -> pd.DataFrame:
        return self.table.to_pandas()

    def polars(self) -> pl.DataFrame:
        import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found


class Answer:
    """The rows of a statement, read once: as a stream, or whole."""

    def __init__(self, session: SqlSession, statement: str, first_line: int, found: duckdb.DuckDBPyRelation) -> None:
        self._session, self._statement, self._line, self._found = session, statement, first_line, found

    def stream(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns, and the rows in batches as DuckDB produces them."""
        with self._session.explained(self._statement, self._line):
            reader = self._found.to_arrow_reader(_ROWS_AT_ONCE)
        self._session.opened(reader)
        return reader.schema, self._batches(reader)

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._session.explained(self._statement, self._line):
            yield from reader

    def read(self) -> Rows:
        schema, batches = self.stream()
        return Rows(pa.Table.from_batches(batches, schema))


class _Explained:
    """Raises errors of DuckDB and of a scan as errors of ours."""

    def __init__(self, session: SqlSession, statement: str, first_line: int) -> None:
        self._session, self._statement, self._line = session, statement, first_line

    def __enter__(self) -> None:
        self._session.scan_error = None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, duckdb.Error | pa.ArrowException | OSError):
            return
        cause = self._session.scan_error
        if isinstance(cause, PipelineError | Fault):
            raise cause from None
        if cause is not None:
            raise cause
        text, statement = str(error), self._statement
        if not has_position(text):
            text, statement = self._session.position_of(text, statement), PREPARE + statement
        names = self._session.topic_names()
        raise SqlError(
            sentence_of(text, statement, names, self._line, skipped=len(statement) - len(self._statement))
        ) from None


class SqlSession:
    """`registry`: address of a schema registry. Topics with a subject `<topic>-value` then have typed columns."""

    def __init__(
        self, cluster: Cluster, *, binary: bool = False, tables: Path = Path("tables"), registry: str | None = None
    ) -> None:
        self.cluster, self._tables, self._registry, self._binary = cluster, tables, registry, binary
        self.scan_error: Exception | None = None
        self._schema = kafka_schema(binary=binary)
        self._client: BlockingClient | None = None
        self._names: list[str] | None = None
        self._last_rows: tuple[str, int, str] | None = None
        self._open_reader: pa.RecordBatchReader | None = None
        self._database = duckdb.connect(":memory:")
        for setting in _SETTINGS:
            self._database.execute(setting)

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._close_reader()
        self._database.close()
        if self._client is not None:
            self._client.close()

    @property
    def client(self) -> BlockingClient:
        if self._client is None:
            self._client = client_of(self.cluster)
        return self._client

    def topic_names(self) -> list[str]:
        """All topics of the cluster, as of the last statement."""
        if self._names is None:
            self._names = sorted(self.client.topics(None))
        return self._names

    @property
    def columns(self) -> list[str]:
        return list(self._schema.names)

    def columns_of(self, topic: str) -> list[str]:
        """The columns of a topic and of its table."""
        definition = next((item for item in Definitions(self._tables) if item.table.topic == topic), None)
        relations = self._relations(topic, definition).values()
        return list(dict.fromkeys(name for relation in relations for name in relation.schema.names))

    def explained(self, statement: str, first_line: int = 1) -> _Explained:
        return _Explained(self, statement, first_line)

    def statements(self, text: str) -> list[tuple[str, int]]:
        """The statements of a text, each with its first line."""
        with self.explained(text):
            found = [statement.query for statement in self._database.extract_statements(text)]
        placed, at = [], 0
        for statement in found:
            at = max(text.find(statement, at), at)
            begin = at + len(statement) - len(statement.lstrip())
            placed.append((statement.strip(), text.count("\n", 0, begin) + 1))
            at += len(statement)
        return placed

    def query(self, statement: str, first_line: int = 1) -> Answer | None:
        """Prepares one statement. None if it has no rows, as CREATE VIEW."""
        self._names = None
        self._close_reader()
        self._register(statement)
        with self.explained(statement, first_line):
            self._last_rows = last_rows_of(self._database, statement)
            (kind,) = self._database.extract_statements(statement)
            found = self._database.sql(statement)
        # CREATE, COPY and others may also return a number of changed rows.
        has_rows = list(kind.expected_result_type) == [duckdb.ExpectedResultType.QUERY_RESULT]
        return None if found is None or not has_rows else Answer(self, statement, first_line, found)

    def opened(self, reader: pa.RecordBatchReader) -> None:
        self._open_reader = reader

    def _close_reader(self) -> None:
        """Ends a statement whose rows were read in part: DuckDB runs one statement at a time."""
        if self._open_reader is not None:
            self._open_reader.close()
            self._open_reader = None

    def position_of(self, error: str, statement: str) -> str:
        """The error with its position. DuckDB omits the position when it makes a relation, but not when it prepares a
        statement."""
        try:
            self._database.execute(PREPARE + statement)
        except duckdb.Error as with_position:
            return str(with_position)
        return error

    def _register(self, statement: str) -> None:
        """Creates the relations of topics whose name is in the text of the statement. A name in a comment or a string
        costs nothing, because a relation is read only when DuckDB scans it."""
        lower = statement.lower()
        tables = {item.table.topic: item for item in Definitions(self._tables)}
        # DuckDB takes "Orders" and "orders" for one relation: it is the topic that the statement spells so.
        alike: dict[str, list[str]] = {}
        for name in self.topic_names():
            if name.lower() in lower:
                alike.setdefault(name.lower(), []).append(name)
        for names in alike.values():
            spelled = [name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", statement)]
            if len(names) > 1 and len(spelled) > 1:
                raise SqlError(f"topics {' and '.join(spelled)} are one name for SQL: read them in two statements")
            name = (spelled or names)[0]
            self._register_topic(name, tables.get(name), lower)

    def _register_topic(self, name: str, definition: Definition | None, lower: str) -> None:
        relations = self._relations(name, definition)
        self._database.register(name, relations[""])
        for part in (LIVE, HISTORY):
            if not re.search(rf"{re.escape(name.lower())}\"?\.\"?{part}\b", lower):
                continue
            if part not in relations:
                raise SqlError(
                    f"topic {name!r} has no table in {self._tables}: create it with 'headrace tables create {name}', "
                    "or name the directory of the tables with --tables"
                )
            self._register_part(name, part, relations[part])

    def _relations(self, name: str, definition: Definition | None) -> dict[str, Relation]:
        """The relations of a topic: `""` (table and topic together), `live`, and `history` if there is a table."""
        shape, columns = self._shape(name, definition)

        def relation(schema: pa.Schema, rows: RowsOfRelation) -> Relation:
            return Relation(schema, rows, self._note_error)

        def live(of: str) -> Relation:
            return relation(
                columns, LiveRows(self.cluster, name, columns, lambda: self._count_of_last_rows(of, shape), shape)
            )

        found = {"": live(name), LIVE: live(f"{name}.{LIVE}")}
        if definition is not None:
            is_one_relation = definition.table.mode == APPEND and definition.table.columns in ("", REGISTRY)
            held = columns if is_one_relation else definition.log.columns()
            history = HistoryRows(definition.log, held)
            found[HISTORY] = relation(held, history)
            if is_one_relation:
                found[""] = relation(held, WholeRows(history, self.cluster, shape))
        return found

    def _shape(self, name: str, definition: Definition | None) -> tuple[RowShape, pa.Schema]:
        """How records become rows, and the columns of the topic."""
        has_table = definition is not None and definition.table.has_registry_columns
        address = definition.table.registry if definition is not None and has_table else self._registry
        is_untyped_table = definition is not None and definition.table.has_kafka_columns
        if address is None or is_untyped_table:
            return KafkaShape(), self._schema
        from headrace.tables.relations.row_shapes import TypedShape
        from headrace.tables.typed_rows import TypedRows, has_subject, newest_that_fits

        if not has_subject(name, address):
            return KafkaShape(), self._schema
        if definition is not None and has_table:
            held = definition.log.columns()
            leaves_out = definition.table.incompatible == DEAD_LETTERS
            typed = newest_that_fits(name, address, held) if leaves_out else TypedRows.latest(name, address)
            typed = typed.with_columns(record_columns(definition.table, held))
        else:
            typed = TypedRows.latest(name, address)
        shape = TypedShape(typed, keeps_errors=not has_table)
        return shape, shape.columns(binary=self._binary)

    def _register_part(self, topic: str, part: str, made: Relation) -> None:
        """`orders.live` is the view `live` in the schema `orders`. No topic has a space in its name."""
        relation = quoted(f"{topic} {part}")
        self._database.register(f"{topic} {part}", made)
        self._database.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(topic)}")
        self._database.execute(
            f"CREATE OR REPLACE VIEW {quoted(topic)}.{quoted(part)} AS SELECT * FROM temp.{relation}"
        )

    def _note_error(self, error: Exception) -> None:
        self.scan_error = error

    def _count_of_last_rows(self, relation: str, shape: RowShape) -> int | None:
        """How many of the last rows the running statement needs of this relation; None for all rows."""
        if self._last_rows is None or not shape.has_every_record:
            return None
        name, count, prefix = self._last_rows
        return count if name.lower() == relation.lower() and prefix == shape.prefix else None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
