"""Topics and tables as views of Spark: `orders`, `orders.live`, `orders.history`, as in `headrace sql`.

Spark has no view with a dot in its name, so `orders.live` in a statement becomes the view `orders live`. Names in
strings and comments stay. Names are quoted with double quotes, as in DuckDB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.brokers import kafka_settings, security_of
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.spec import BOOTSTRAP
from headrace.tables.definitions import Definition, Definitions
from headrace.tables.formats.table_log import Snapshot
from headrace.tables.lake_table import APPEND, REGISTRY
from headrace.tables.table_logs import record_columns
from headrace.tables.typed_rows import POSITIONS, has_subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Strings and comments, which have no names of relations.
_NO_NAMES: Final = r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/"
SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    # A quoted name is the same in both engines: "offset", "orders-eu".
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
}


def topics_in(statement: str, topics: list[str]) -> list[str]:
    """The topics whose names are in the statement, outside of strings and comments."""
    bare = re.sub(_NO_NAMES, " ", statement, flags=re.DOTALL).lower()
    return [name for name in topics if re.search(rf"(?<![\w.-]){re.escape(name.lower())}(?![\w-])", bare)]


def with_view_names(statement: str, topics: list[str]) -> tuple[str, set[tuple[str, str]]]:
    """(the statement with the names of views, the (topic, part) pairs that it uses)."""
    used: set[tuple[str, str]] = set()
    for name in topics:
        pattern = re.compile(
            rf'{_NO_NAMES}|(?<![\w.-])(?P<q>"?){re.escape(name)}(?P=q)(?:\."?(?P<part>live|history)\b"?)?(?![\w-])',
            re.DOTALL | re.IGNORECASE,
        )

        def view(match: re.Match[str], name: str = name) -> str:
            if match["q"] is None:
                return match[0]
            part = (match["part"] or "").lower()
            used.add((name, part))
            return f'"{name} {part}"' if part else f'"{name}"'

        statement = pattern.sub(view, statement)
    return statement, used


@dataclass(frozen=True)
class SparkRelations:
    """Makes the views. `options` are those of `format("headrace")` for the cluster."""

    spark: SparkSession
    options: Mapping[str, str]
    tables: Path = Path("tables")
    registry: str | None = None
    # "earliest": streams begin with all rows of the relation. "latest": with the next record.
    start: str = "earliest"
    watermark: str | None = None
    streaming: bool = False
    _known: dict[str, Definition] = field(default_factory=dict)

    def views(self, statement: str) -> str:
        """Creates the views of a statement. Returns the statement with their names."""
        names = topics_in(statement, self.topic_names())
        text, used = with_view_names(statement, names)
        tables = {item.table.topic: item for item in Definitions(self.tables)}
        for name, part in used:
            frame = self._frame(name, part, tables.get(name))
            if self.watermark is not None and self.streaming:
                column = "_timestamp" if "_timestamp" in frame.columns else "timestamp"
                frame = frame.withWatermark(column, self.watermark)
            view = f"{name} {part}" if part else name
            frame.createOrReplaceTempView(f"`{view}`")
        return text

    def topic_names(self) -> list[str]:
        settings = {name.removeprefix("kafka."): value for name, value in self.options.items()}
        address = settings.pop("bootstrap.servers")
        with BlockingClient(address, security=security_of(settings)) as client:
            return sorted(client.topics(None))

    def _frame(self, name: str, part: str, definition: Definition | None) -> DataFrame:
        if part == "history":
            if definition is None:
                raise PipelineError(
                    f"topic {name!r} has no table in {self.tables}: create it with 'headrace tables create'"
                )
            if self.streaming:
                raise PipelineError(
                    f"{name}.history does not grow by itself: follow {name!r}, or query without --follow"
                )
            return self._files(definition, definition.log.check())
        is_whole = (
            part == "" and definition is not None and definition.table.mode == APPEND and self.start == "earliest"
        )
        if definition is not None and is_whole and definition.table.has_kafka_columns:
            return _kafka_columns(self._topic(name, {"history": "table", "historyDirectory": str(self.tables)}))
        if definition is not None and is_whole and definition.table.columns == REGISTRY and not self.streaming:
            return self._typed_whole(name, definition)
        address = definition.table.registry if definition is not None else None
        return self._live(name, address or self.registry, {"startingOffsets": self.start} if self.streaming else {})

    def _topic(self, name: str, more: Mapping[str, str]) -> DataFrame:
        reader = self.spark.readStream if self.streaming else self.spark.read
        options = {**self.options, "subscribe": name, "includeHeaders": "true", **more}
        return reader.format("headrace").options(**options).load()

    def _live(self, name: str, registry: str | None, more: Mapping[str, str]) -> DataFrame:
        if registry is None or not has_subject(name, registry):
            return _kafka_columns(self._topic(name, more))
        decoded = self._topic(name, {"decode": "registry", "registry": registry, **more})
        fields = [f.col(f"`{column}`") for column in decoded.columns if column not in ("_error", "_source")]
        places = [f.col(f"_source.{of}").alias(to) for to, of in POSITIONS.items() if to != "_key"]
        key = f.col("_source.key").cast("string").alias("_key")
        return decoded.select(*fields, key, *places, "_error")

    def _files(self, definition: Definition, found: Snapshot) -> DataFrame:
        """The files of one version. They are Parquet in every format, so Spark needs no jar for them."""
        schema = from_arrow_schema(found.columns)
        if not (files := found.files()):
            return self.spark.createDataFrame([], schema)
        # Folders hold the values of a column only in Delta and Parquet; in Iceberg the column is in the files too.
        base = str(Path(files[0]).parents[1]) if found.partition_columns and "://" not in files[0] else None
        reader = self.spark.read.schema(schema)
        reader = reader.option("basePath", base) if base else reader
        frame = reader.parquet(*files)
        return _kafka_columns(frame) if definition.table.has_kafka_columns else _text_key(frame)

    def _typed_whole(self, name: str, definition: Definition) -> DataFrame:
        found = definition.log.check()
        starts = json.dumps({name: found.offsets})
        live = self._live(name, definition.table.registry, {"startingOffsets": starts})
        rows = live.where("_error IS NULL").drop("_error")
        names = record_columns(definition.table, found.columns).names
        history = self._files(definition, found).select(*[f"`{column}`" for column in names])
        return history.unionByName(rows, allowMissingColumns=True)


def _kafka_columns(frame: DataFrame) -> DataFrame:
    text = [f.col(name).cast("string").alias(name) for name in ("key", "value")]
    return frame.select(*text, "headers", "topic", "partition", "offset", "timestamp")


def _text_key(frame: DataFrame) -> DataFrame:
    return frame.withColumn("_key", f.col("_key").cast("string")) if "_key" in frame.columns else frame


def streamed(spark: SparkSession, statement: str, **settings: str) -> DataFrame:
    """The rows of a statement as a stream, for files of pipelines. `settings`: registry, start, watermark."""
    configuration = spark.conf.getAll
    options = {
        "kafka.bootstrap.servers": configuration.get(BOOTSTRAP, "localhost:9092"),
        **{f"kafka.{name}": value for name, value in kafka_settings(configuration).items()},
    }
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    relations = SparkRelations(spark, options, streaming=True, **settings)  # type: ignore[arg-type]
    return spark.sql(relations.views(statement))


def as_records(rows: DataFrame) -> DataFrame:
    """Rows as records: the value is the row as JSON, and the column `key` or `_key` is the key."""
    body = f.to_json(f.struct(*[f.col(f"`{name}`") for name in rows.columns])).alias("value")
    key = next((name for name in ("key", "_key") if name in rows.columns), None)
    return rows.select(*([f.col(key).cast("string").alias("key")] if key else []), body)
