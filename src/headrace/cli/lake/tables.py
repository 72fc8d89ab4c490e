"""`headrace tables …`: topics as tables in a lake."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.support.change_report import Row, report_one, verb
from headrace.cli.support.connection import Bootstrap, DryRun, Output, Topic, Yes, bootstrap_address, sure
from headrace.cli.support.output import Format, show, show_one
from headrace.cli.support.pipeline_options import (
    CommandConfig,
    Master,
    cluster_client,
    one_sentence,
    pipeline_spec,
    say,
)
from headrace.client.places import Kind, parse_place
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer(no_args_is_help=True, help="Topics as tables.")
Directory = Annotated[Path, typer.Option("--directory", "-d", help="Pipeline directory of the tables.", metavar="DIR")]
_TABLES = Path("tables")


@app.command()
def create(
    topic: Topic,
    path: Annotated[str | None, typer.Option(help="Path or URI of the table. Default: lake/TOPIC.")] = None,
    form: Annotated[str, typer.Option("--format", help="Table format: delta, iceberg or parquet.")] = "delta",
    backfill: Annotated[
        str, typer.Option(help="First records: all, none (only new ones), or a time, as '2 hours ago'.")
    ] = "all",
    partition_by: Annotated[str, typer.Option(help="Folders: day(timestamp) or partition.")] = "",
    columns: Annotated[
        str,
        typer.Option(
            help="Columns: kafka, registry (fields of the value's schema), or SQL expressions over Kafka's columns.",
            metavar="kafka|registry|SQL",
        ),
    ] = "kafka",
    mode: Annotated[str, typer.Option(help="append, or upsert-by-key: the latest value of each key.")] = "append",
    catalog: Annotated[
        str | None,
        typer.Option(help="Catalog of Iceberg: a database, or http(s)://… of a REST catalog. Default: a SQLite file."),
    ] = None,
    registry: Annotated[
        str | None, typer.Option(help="Schema registry, for --columns registry.", envvar="HEADRACE_REGISTRY")
    ] = None,
    directory: Directory = _TABLES,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Make a table of a topic. 'headrace tables run' keeps it up to date.

    $ headrace tables create orders
    """
    with one_sentence():
        from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
        from headrace.tables.first_columns import first_columns
        from headrace.tables.lake_table import ICEBERG, REGISTRY, LakeTable
        from headrace.tables.table_logs import log_of

        chosen = path or f"lake/{topic}"
        place = chosen if "://" in chosen else str(Path(chosen).resolve())
        if columns == REGISTRY and registry is None:
            raise typer.BadParameter("--columns registry needs --registry http://HOST:PORT, or HEADRACE_REGISTRY")
        if form == ICEBERG and catalog is None:
            directory.mkdir(parents=True, exist_ok=True)
            catalog = f"sqlite:///{directory.resolve()}/catalog.db"
        with cluster_client(bootstrap, command_config) as client:
            found = topic_metadata(client, topic)
            table = LakeTable(
                topic,
                str(found.topic_id),
                place,
                mode,
                partition_by,
                "" if columns == "kafka" else columns,
                form,
                catalog if form == ICEBERG and catalog else "",
                registry if columns == REGISTRY and registry else "",
            )
            starts = first_offsets(client, found, backfill, _time_ms(backfill))
        definitions = Definitions(directory)
        definitions.refuse_known(topic)
        begins = log_of(table).create(first_columns(table, _small_spark), table.partition_columns, starts)
        if begins and backfill != "all":
            table = replace(table, begins_at=tuple(starts[index] for index in sorted(starts)))
        file = definitions.add(table, bootstrap_address(bootstrap))
    row = {"table": topic, "format": form, "path": place, "definition": str(file), "done": True}
    report_one(row, output, f"created {place}; defined in {file}\nBring it up to date with: headrace tables run --once")


def _time_ms(backfill: str) -> int | None:
    if backfill in ("all", "none"):
        return None
    try:
        place = parse_place(backfill, int(time.time() * 1000))
    except ValueError as error:
        raise typer.BadParameter(f"--backfill {error}") from error
    if place.kind is not Kind.TIME:
        raise typer.BadParameter(f"--backfill {backfill!r}: must be all, none or a time, as 2026-01-31 or '2 days ago'")
    return place.value


def _small_spark() -> SparkSession:
    """Spark knows the types of SQL expressions. The process ends after the command, and Spark with it."""
    from headrace.pipelines.session import spark_session

    return spark_session("headrace-tables", master="local[1]")


@app.command("ls")
def ls(
    directory: Directory = _TABLES,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """List the tables, and how far each is behind its topic.

    $ headrace tables ls
    """
    with one_sentence():
        from headrace.tables.definitions import Definitions
        from headrace.tables.table_state import state_of

        with cluster_client(bootstrap, command_config) as client:
            rows = [state_of(item, client) for item in Definitions(directory)]
    show(rows, output, empty=f"no tables in {directory}")


@app.command("show")
def show_table(
    topic: Topic,
    directory: Directory = _TABLES,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a table: its path, columns, rows and the offsets that it holds.

    $ headrace tables show orders
    """
    with one_sentence():
        from headrace.tables.definitions import Definitions
        from headrace.tables.table_state import facts_of, state_of

        definition = Definitions(directory).of(topic)
        with cluster_client(bootstrap, command_config) as client:
            row = state_of(definition, client)
        offsets, _, _ = facts_of(definition)
        found = definition.log.open()
        columns = {field.name: str(field.type) for field in found.columns}
        row |= {
            "topic_id": definition.table.topic_id,
            "offsets": {str(index): offset for index, offset in offsets.items()},
            "columns": columns,
            "partitioned_by": found.partition_columns,
            "files": len(found.files()),
            "definition": str(definition.file),
        }
    show_one(row, output)


@app.command()
def pause(topic: Topic, directory: Directory = _TABLES, output: Output = Format.TABLE) -> None:
    """Leave a table out of the next runs.

    $ headrace tables pause orders
    """
    _move(topic, directory, "paused", "paused", output)


@app.command()
def resume(topic: Topic, directory: Directory = _TABLES, output: Output = Format.TABLE) -> None:
    """Take a paused table into the next runs again. It continues at the offsets in the table.

    $ headrace tables resume orders
    """
    _move(topic, directory, "transformations", "resumed", output)


def _move(topic: str, directory: Path, folder: str, word: str, output: Format) -> None:
    with one_sentence():
        from headrace.tables.definitions import Definitions

        changed = Definitions(directory).move(topic, folder)
    sentence = f"{word} {topic}" if changed else f"{topic} is {word} already"
    report_one({"table": topic, "done": changed}, output, sentence)


@app.command()
def compact(
    topic: Topic,
    target_size: Annotated[int, typer.Option(help="Size of the joined files in MiB.", min=1)] = 128,
    keep_hours: Annotated[
        int, typer.Option(help="Keep every file that a version of these last hours needs.", min=1)
    ] = 168,
    directory: Directory = _TABLES,
    output: Output = Format.TABLE,
) -> None:
    """Join small files of a table, and remove files that no recent version needs.

    $ headrace tables compact orders
    """
    with one_sentence():
        from headrace.tables.definitions import Definitions

        definition = Definitions(directory).of(topic)
        definition.log.check()
        done = definition.log.compact(target_size << 20, keep_hours)
    row = {"table": topic, **done, "done": True}
    before = counted(done["files_joined"], "file")
    joined = f"joined {before} into {done['files_written']}, removed {done['files_removed']}"
    report_one(row, output, f"{topic}: {joined}")


@app.command()
def repair(
    topic: Topic,
    dry_run: DryRun = False,
    directory: Directory = _TABLES,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Find files of a table that are lost or damaged, and read their records from the topic again.

    $ headrace tables repair orders
    """
    with one_sentence():
        from headrace.tables.definitions import Definitions
        from headrace.tables.table_repair import repair_table

        definition = Definitions(directory).of(topic)
        with cluster_client(bootstrap, command_config) as client:
            done = repair_table(definition.table, client, dry_run=dry_run)
    row: Row = {"table": topic, **done.row(), "done": not dry_run}
    report_one(row, output, f"{topic}: {done.sentence(dry_run=dry_run)}")


@app.command()
def drop(
    topic: Topic,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the rows too. Default: keep the table.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    directory: Directory = _TABLES,
    output: Output = Format.TABLE,
) -> None:
    """Remove the definition of a table. The rows stay where they are unless --purge is given.

    $ headrace tables drop orders --yes
    """
    with one_sentence():
        from headrace.pipelines.errors import PipelineError
        from headrace.tables.definitions import Definitions

        definition = Definitions(directory).of(topic)
        path = definition.table.path
        if purge:
            definition.log.check()
            if "://" in path:
                raise PipelineError(f"--purge deletes local tables only: delete {path} with the tools of its store")
        row: Row = {"table": topic, "path": path, "purged": purge, "done": not dry_run}
        if not dry_run:
            sure(f"Drop the table of {topic}?", yes, [f"{path}: {'rows are deleted' if purge else 'rows are kept'}"])
            definition.file.unlink()
            if purge:
                definition.log.unregister()
                shutil.rmtree(path)
    report_one(row, output, f"{verb(row, 'dropped', 'drop')} {topic}; rows {'deleted' if purge else 'kept'} in {path}")


@app.command()
def run(
    once: Annotated[bool, typer.Option("--once", help="Bring the tables up to the present, then end.")] = False,
    directory: Directory = _TABLES,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    master: Master = None,
) -> None:
    """Keep all tables up to date, in one Spark session, until Ctrl-C or SIGTERM.

    $ headrace tables run --once
    """
    with one_sentence():
        from headrace.cli.pipeline.command import stop_on_signals
        from headrace.pipelines.connectors.connector import pipeline_run
        from headrace.pipelines.flows.session import pipeline_session, refuse_while_running
        from headrace.tables.table_run import prepare

        spec = pipeline_spec(directory, None, bootstrap, command_config)
        refuse_while_running(spec)
        prepare(spec)
        spec, spark = pipeline_session(spec, "python", master, say)
        try:
            running = pipeline_run(directory, spec, spark, once=once, report=say)
            running.isolated = True
            stop_on_signals(running)
            running.start()
            say(f"tables: {', '.join(flow.name for flow in running.flows)}")
            running.supervise()
        finally:
            spark.stop()
