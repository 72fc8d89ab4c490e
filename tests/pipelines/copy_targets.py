"""Targets of copy jobs that are killed: topic, database table, Parquet files. Each one counts the rows that arrived."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, FetchStream
from headrace.serialization.arrow_records import Decoder

_CONNECTOR_CHECKPOINT = "storage/checkpoints/copy"
_CONNECTOR = """name: copy
bootstrap: {bootstrap}
storage: {storage}
configuration:
  spark.speculation: true
  spark.speculation.quantile: 0.3
  spark.speculation.minTaskRuntime: 1s
  headrace.backend: {backend}
from:
  topic: {{name: {source}, options: {{maxOffsetsPerTrigger: {rows}}}}}
select: SELECT CAST(key AS INT) AS id, value AS name FROM source
to:
  {to}
"""


class CopyTarget(Protocol):
    name: str
    checkpoint: str

    def prepare(self, client: BlockingClient, directory: Path) -> None: ...

    def job(self, bootstrap: str, source: str, directory: Path, rows_per_batch: int) -> list[str]:
        """The arguments of copy_job.py, without the master."""

    def written(self, client: BlockingClient, directory: Path) -> Counter[int]:
        """Every row that a reader sees, with the number of times it was written."""


def _connector_job(
    to: str, bootstrap: str, source: str, directory: Path, rows: int, backend: str = "auto"
) -> list[str]:
    file = directory / "copy.yml"
    given = {"bootstrap": bootstrap, "storage": directory / "storage", "source": source, "rows": rows, "to": to}
    file.write_text(_CONNECTOR.format(**given, backend=backend))
    return ["connector", str(file)]


@dataclass
class TopicTarget:
    format: str = "headrace"
    # The source may be Spark's own connector.
    read_format: str | None = None
    name: str = "topic"
    checkpoint: str = "checkpoint"

    def prepare(self, client: BlockingClient, directory: Path) -> None:
        client.create_topic("copied", 3)

    def job(self, bootstrap: str, source: str, directory: Path, rows_per_batch: int) -> list[str]:
        checkpoint = str(directory / self.checkpoint)
        formats = [self.read_format or self.format, self.format]
        return ["topic", bootstrap, source, "copied", checkpoint, *formats, str(rows_per_batch)]

    def written(self, client: BlockingClient, directory: Path) -> Counter[int]:
        return committed_keys(client, "copied")


def committed_keys(client: BlockingClient, topic: str) -> Counter[int]:
    seen: Counter[int] = Counter()
    for partition in client.topics([topic])[topic].partitions:
        pair = (topic, partition)
        start = client.list_offsets({pair: EARLIEST})[pair]
        # To the log end, not the last stable offset: the markers of an acknowledged commit may not be written yet.
        end = client.list_offsets({pair: LATEST})[pair]
        decoder = Decoder(topic, partition)
        for chunk in FetchStream(client, pair, start, end, FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=90)):
            for batch in decoder.decode(chunk.records, start, end, chunk.aborted):
                seen.update(map(int, batch.column("key").to_pylist()))
    return seen


@dataclass
class ConnectorTopicTarget:
    """Written by a connector, whose backend may be Spark's own."""

    backend: str
    name: str = "connector"
    checkpoint: str = _CONNECTOR_CHECKPOINT

    def prepare(self, client: BlockingClient, directory: Path) -> None:
        client.create_topic("copied", 3)

    def job(self, bootstrap: str, source: str, directory: Path, rows_per_batch: int) -> list[str]:
        to = "topic: {name: copied, key: id}"
        return _connector_job(to, bootstrap, source, directory, rows_per_batch, self.backend)

    def written(self, client: BlockingClient, directory: Path) -> Counter[int]:
        return committed_keys(client, "copied")


@dataclass
class TableTarget:
    """An upsert would hide a duplicated row, so triggers on the table record every write."""

    url: str
    name: str = "table"
    checkpoint: str = _CONNECTOR_CHECKPOINT

    def prepare(self, client: BlockingClient, directory: Path) -> None:
        with self._connect() as connection:
            connection.execute("CREATE TABLE rows_in (id INTEGER PRIMARY KEY, name TEXT)")
            connection.execute("CREATE TABLE writes (id INTEGER)")
            for statement in _SQLITE_TRIGGERS if self.url.startswith("sqlite") else _POSTGRES_TRIGGERS:
                connection.execute(statement)

    def _connect(self) -> Any:
        if self.url.startswith("sqlite"):
            return sqlite3.connect(self.url.removeprefix("sqlite:///"))
        import psycopg

        return psycopg.connect(self.url)

    def job(self, bootstrap: str, source: str, directory: Path, rows_per_batch: int) -> list[str]:
        to = f"jdbc: {{url: '{self.url}', table: rows_in, keys: id}}"
        return _connector_job(to, bootstrap, source, directory, rows_per_batch)

    def written(self, client: BlockingClient, directory: Path) -> Counter[int]:
        with self._connect() as connection:
            rows = dict(connection.execute("SELECT id, name FROM rows_in").fetchall())
            writes = Counter(number for (number,) in connection.execute("SELECT id FROM writes").fetchall())
        assert all(name == f"row {number}" for number, name in rows.items())
        assert rows.keys() == writes.keys()
        return writes


_SQLITE_TRIGGERS = tuple(
    f"CREATE TRIGGER note_{kind} AFTER {kind} ON rows_in BEGIN INSERT INTO writes VALUES (NEW.id); END"
    for kind in ("INSERT", "UPDATE")
)
_POSTGRES_TRIGGERS = (
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO writes VALUES (NEW.id); RETURN NEW; END $$",
    "CREATE TRIGGER note AFTER INSERT OR UPDATE ON rows_in FOR EACH ROW EXECUTE FUNCTION note()",
)


@dataclass
class ParquetTarget:
    name: str = "parquet"
    checkpoint: str = _CONNECTOR_CHECKPOINT

    def prepare(self, client: BlockingClient, directory: Path) -> None:
        pass

    def job(self, bootstrap: str, source: str, directory: Path, rows_per_batch: int) -> list[str]:
        return _connector_job(f"parquet: {{path: {directory / 'lake'}}}", bootstrap, source, directory, rows_per_batch)

    def written(self, client: BlockingClient, directory: Path) -> Counter[int]:
        """As Spark reads them: by the file log, which omits files of failed attempts."""
        from headrace.pipelines.session import spark_session

        spark = spark_session("count", master="local[2]")
        try:
            return Counter(row.id for row in spark.read.parquet(str(directory / "lake")).select("id").collect())
        finally:
            spark.stop()


def copy_target(
    kind: str, format: str, directory: Path, stack: ExitStack, read_format: str | None = None
) -> CopyTarget:
    """`stack` stops what the target needs."""
    match kind:
        case "topic":
            return TopicTarget(format, read_format)
        case "connector":
            return ConnectorTopicTarget("jvm" if read_format == "kafka" else "python")
        case "sqlite":
            return TableTarget(f"sqlite:///{directory}/target.db")
        case "postgres":
            from tests.pipelines.postgres import running_postgres

            return TableTarget(stack.enter_context(running_postgres()))
        case "parquet":
            return ParquetTarget()
    raise ValueError(f"target {kind!r}: must be topic, connector, sqlite, postgres or parquet")
