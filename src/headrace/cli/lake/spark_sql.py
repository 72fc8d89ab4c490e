"""`headrace sql --engine spark` and `--follow`: statements on Spark."""

from __future__ import annotations

import json
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from headrace.cli.support.client_settings import client_settings
from headrace.cli.support.output import Format, show
from headrace.cli.support.pipeline_options import say

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.tables.spark_sql.statements import SparkStatement
    from headrace.tables.sql_results import ResultFormat


@dataclass(frozen=True)
class SparkSqlSettings:
    address: str
    bootstrap: str | None
    tables: Path
    registry: str | None
    form: ResultFormat
    follow: bool
    start: str
    watermark: str | None
    master: str | None


def run_on_spark(text: str, settings: SparkSqlSettings) -> None:
    from headrace.pipelines.brokers import as_options
    from headrace.pipelines.session import spark_session
    from headrace.pipelines.sql_statements import statements_in
    from headrace.tables.spark_sql.relations import SparkRelations
    from headrace.tables.spark_sql.saved_pipeline import SavedPipeline, is_create_pipeline
    from headrace.tables.spark_sql.statements import SparkStatement

    statements = list(statements_in(text))
    if settings.follow and len(statements) != 1:
        from headrace.tables.sql_errors import SqlError

        raise SqlError(f"--follow runs one statement, and there are {len(statements)}")
    options = as_options(settings.address, client_settings(settings.bootstrap))
    spark = spark_session("headrace-sql", master=settings.master)
    try:
        relations = SparkRelations(
            spark,
            options,
            settings.tables,
            settings.registry,
            settings.start,
            settings.watermark,
            streaming=settings.follow,
        )
        for line, part in statements:
            if is_create_pipeline(part):
                saved = SavedPipeline.parse(part).write(Path(), settings.address, settings.registry, settings.watermark)
                say(f"saved in {saved}; run it with: headrace pipeline run {saved}")
                continue
            statement = SparkStatement(relations, part, line)
            if settings.follow:
                _follow(statement, settings.form)
            else:
                _print(*statement.rows(), settings.form)
    finally:
        spark.stop()


def _print(schema: pa.Schema, batches: object, form: ResultFormat) -> None:
    from headrace.tables.sql_results import ResultFormat, plain_rows, write

    if form is ResultFormat.TABLE:
        show(list(plain_rows(batches)), Format.TABLE, empty="no rows")  # type: ignore[arg-type]
    else:
        sys.stdout.flush()
        write(form, schema, batches, sys.stdout.buffer)  # type: ignore[arg-type]


def _follow(statement: SparkStatement, form: ResultFormat) -> None:
    """Prints the rows of every batch until Ctrl-C or SIGTERM."""
    from headrace.tables.sql_errors import SqlError
    from headrace.tables.sql_results import ResultFormat, plain_rows

    if form in (ResultFormat.PARQUET, ResultFormat.CSV):
        raise SqlError(f"--output {form} has one head for all rows: choose table or json with --follow")
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    def write(rows: pa.Table) -> None:
        plain = list(plain_rows(iter(rows.to_batches())))
        if form is ResultFormat.TABLE:
            show(plain, Format.TABLE)
        else:
            for row in plain:
                sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    query = statement.follow(write)
    say("following; stop with Ctrl-C")
    while query.isActive and not stopped.wait(0.25):
        pass
    if query.isActive:
        query.stop()
    elif (error := query.exception()) is not None:
        from headrace.pipelines.failure_reasons import failure_reason

        raise SqlError(failure_reason(error))
