"""Runs a statement on Spark: once, or as a stream that prints rows until it is stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import PySparkException

from headrace.pipelines.failure_reasons import failure_reason
from headrace.pipelines.spark.plan_guard import plan_text
from headrace.tables.spark_sql.relations import SETTINGS, SparkRelations
from headrace.tables.sql_errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

_PLACES: Final = (
    re.compile(r"\(line (\d+), pos (\d+)\)"),
    re.compile(r"\bline (\d+) pos (\d+)"),
    re.compile(r"== SQL \(line (\d+), position (\d+)\) =="),
)
_AGGREGATE: Final = re.compile(r"^[\s:+|-]*~?Aggregate\b", re.MULTILINE)
# What DuckDB has and Spark has not, with Spark's way to say it.
_DIALECT: Final = {
    "->>": "Spark reads a field of JSON text with get_json_object(value, '$.name')",
    "->": "Spark reads a field of JSON text with get_json_object(value, '$.name')",
    " ILIKE ANY": "Spark has rlike",
    "read_parquet(": "Spark reads files as parquet.`path`",
    "epoch_ms(": "Spark has timestamp_millis(number)",
    "to_timestamp(": "Spark has timestamp_seconds(number)",
}


def sentence_of(error: Exception, statement: str) -> SqlError:
    """`line 2, column 8: …`, with a hint if the statement has words of DuckDB's dialect."""
    text = str(error)
    place = next((match for pattern in _PLACES if (match := pattern.search(text))), None)
    # The plan of an analysis error follows its place.
    first = " ".join(re.split(r"== SQL|\bline \d+ pos \d+", text)[0].split())
    first = re.sub(r" ?\(line \d+, pos \d+\)|SQLSTATE: \w+;?|^\[[\w.]+\] ", "", first).strip(" ;")
    # Spark counts columns of parse errors from 0 and positions of analysis errors from 1.
    where = ""
    if place is not None:
        column = int(place[2]) + (1 if "pos" in place.re.pattern and "position" not in place.re.pattern else 0)
        where = f"line {place[1]}, column {column}: "
    hint = next((f"; {way}" for word, way in _DIALECT.items() if word.lower() in statement.lower()), "")
    return SqlError(f"{where}{first}{hint}")


class SparkStatement:
    """One statement. Its first line in the text of the user is for errors."""

    def __init__(self, relations: SparkRelations, statement: str, first_line: int = 1) -> None:
        self._relations, self._statement = relations, "\n" * (first_line - 1) + statement

    def _frame(self) -> DataFrame:
        spark = self._relations.spark
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        text = self._relations.views(self._statement)
        try:
            return spark.sql(text)
        except PySparkException as error:
            raise sentence_of(error, self._statement) from error

    def rows(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        frame = self._frame()
        try:
            found = frame.toArrow()
        except Exception as error:
            # Boundary to Spark, which raises its own and py4j's errors.
            raise SqlError(failure_reason(error)) from error
        return found.schema, iter(found.to_batches())

    def follow(self, write: Callable[[pa.Table], None]) -> StreamingQuery:
        """Starts the stream. `write` gets the rows of every batch that has some: new ones, or groups that changed."""
        frame = self._frame()
        if not frame.isStreaming:
            raise SqlError("--follow needs a statement over a topic: this one reads none")
        # Groups are printed when they change, also with a watermark: a reader does not wait for the end of a window.
        mode = "update" if _AGGREGATE.search(plan_text(frame)) else "append"

        def show(batch: DataFrame, _number: int) -> None:
            rows = batch.toArrow()
            if rows.num_rows:
                write(rows)

        try:
            return frame.writeStream.foreachBatch(show).outputMode(mode).start()
        except PySparkException as error:
            raise sentence_of(error, self._statement) from error
