"""`headrace sql`: SQL over topics."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.lake.spark_sql import SparkSqlSettings, run_on_spark
from headrace.cli.support.client_settings import client_security
from headrace.cli.support.connection import Bootstrap, bootstrap_address
from headrace.cli.support.output import Format, show
from headrace.cli.support.pipeline_options import Master, one_sentence, say
from headrace.client.server_kind import require_broker

if TYPE_CHECKING:
    from headrace.tables.sql_results import ResultFormat
    from headrace.tables.sql_session import Answer, SqlSession

app = typer.Typer(help="SQL over topics.")


@app.command()
def sql(
    command: Annotated[str | None, typer.Option("--command", "-c", help="Statements to run.", metavar="SQL")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="File with statements to run.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output format: table, json, csv or parquet.")
    ] = "table",
    binary: Annotated[bool, typer.Option("--binary", help="Keys and values as bytes (BLOB) instead of text.")] = False,
    tables: Annotated[Path, typer.Option("--tables", help="Pipeline directory of the tables.", metavar="DIR")] = Path(
        "tables"
    ),
    registry: Annotated[
        str | None,
        typer.Option(help="Schema registry: topics with a schema have typed columns.", envvar="HEADRACE_REGISTRY"),
    ] = None,
    engine: Annotated[str, typer.Option(help="duckdb, or spark for statements that are too big for one machine.")] = (
        "duckdb"
    ),
    follow: Annotated[
        bool, typer.Option("--follow", help="Run the statement as a stream on Spark and print rows until Ctrl-C.")
    ] = False,
    start: Annotated[str, typer.Option("--from", help="Where --follow begins: earliest or latest.")] = "earliest",
    watermark: Annotated[
        str | None, typer.Option(help="How late records of a stream may be, as '10 minutes'.", metavar="DURATION")
    ] = None,
    master: Master = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Query topics with SQL. Without -c and -f, statements are read from a prompt or from standard input.

    $ headrace sql -c 'SELECT partition, count(*) AS records FROM orders GROUP BY ALL'
    """
    form = _format(output)
    if engine not in ("duckdb", "spark"):
        raise typer.BadParameter(f"--engine {engine!r}: must be duckdb or spark")
    if start not in ("earliest", "latest"):
        raise typer.BadParameter(f"--from {start!r}: must be earliest or latest")
    if watermark is not None and not follow:
        raise typer.BadParameter("--watermark is for streams: give --follow")
    if command is not None and file is not None:
        raise typer.BadParameter("give statements with -c or with -f, not with both")
    address, security = bootstrap_address(bootstrap), client_security(bootstrap)
    with one_sentence():
        from headrace.client.blocking.client import parse_addresses
        from headrace.client.security import ClientSecurity
        from headrace.pipelines.options import Cluster
        from headrace.tables.spark_sql.saved_pipeline import SavedPipeline
        from headrace.tables.sql_session import SqlSession

        chosen = security or ClientSecurity()
        require_broker(parse_addresses(address), encrypted=chosen.encrypted)
        cluster = Cluster(address, chosen, "headrace-sql")
        if engine == "spark" or follow:
            text = command if command is not None else file.read_text() if file is not None else sys.stdin.read()
            settings = SparkSqlSettings(address, bootstrap, tables, registry, form, follow, start, watermark, master)
            run_on_spark(text, settings)
            return

        def save(statement: str) -> None:
            saved = SavedPipeline.parse(statement).write(Path(), address, registry, watermark)
            say(f"saved in {saved}; run it with: headrace pipeline run {saved}")

        with SqlSession(cluster, binary=binary, tables=tables, registry=registry) as session:
            if command is not None:
                _run(session, command, form, save)
            elif file is not None:
                _run(session, file.read_text(), form, save)
            elif sys.stdin.isatty():
                _converse(session, form, save)
            else:
                _run(session, sys.stdin.read(), form, save)


def _format(text: str) -> ResultFormat:
    from headrace.tables.sql_results import ResultFormat

    try:
        form = ResultFormat(text)
    except ValueError as error:
        raise typer.BadParameter(f"--output {text!r}: must be {', '.join(ResultFormat)}") from error
    if form is ResultFormat.PARQUET and sys.stdout.isatty():
        raise typer.BadParameter("--output parquet writes bytes: send standard output to a file, as in > rows.parquet")
    return form


def _run(session: SqlSession, text: str, form: ResultFormat, save: Callable[[str], None]) -> None:
    from headrace.pipelines.sql_statements import statements_in
    from headrace.tables.spark_sql.saved_pipeline import is_create_pipeline, may_create_pipeline

    # DuckDB splits its own dialect best, so a text is split here only if one statement is not of DuckDB.
    for first_line, part in statements_in(text) if may_create_pipeline(text) else [(1, text)]:
        if is_create_pipeline(part):
            save(part)
            continue
        for statement, line in session.statements(part):
            _print(session.query(statement, first_line + line - 1), form)


def _print(answer: Answer | None, form: ResultFormat) -> None:
    from headrace.tables.sql_results import ResultFormat, plain_rows, write

    if answer is None:
        return
    schema, batches = answer.stream()
    if form is ResultFormat.TABLE:
        show(list(plain_rows(batches)), Format.TABLE, empty="no rows")
    else:
        sys.stdout.flush()
        write(form, schema, batches, sys.stdout.buffer)


def _converse(session: SqlSession, form: ResultFormat, save: Callable[[str], None]) -> None:
    from headrace.kernel.errors import Fault
    from headrace.pipelines.errors import PipelineError
    from headrace.tables.sql_prompt import prompt

    def run(text: str) -> None:
        try:
            _run(session, text, form, save)
        except (PipelineError, Fault) as error:
            say(str(error))
        except KeyboardInterrupt:
            say("stopped")

    prompt(session, run, say)
