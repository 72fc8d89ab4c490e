"""`headrace pipeline snapshot`: change capture reads the rows of a table again."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Output
from headrace.cli.support.output import Format
from headrace.cli.support.pipeline_options import Directory, one_sentence


def snapshot(
    file: Directory,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Table to read again; all tables of the connector without it.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Make a connector with change capture read the rows of its tables again, beside the changes.

    The connector may run or be stopped. It reads the tables in chunks before it reads further changes.

    $ headrace pipeline snapshot orders.yml --table orders
    """
    with one_sentence():
        from headrace.pipelines.connectors.cdc.snapshots import SnapshotFolder
        from headrace.pipelines.connectors.connector import is_connector, load_connector
        from headrace.pipelines.connectors.sources import snapshot_folder
        from headrace.pipelines.errors import OptionError, nearest

        if not is_connector(file):
            raise OptionError(f"{file} is not the YAML file of a connector, which is what has a snapshot")
        spec = load_connector(file)
        if spec.source.kind != "cdc":
            raise OptionError(f"{file}: only a connector from cdc has snapshots, this one is from {spec.source.kind}")
        known = spec.source.names("tables")
        if unknown := next((name for name in table or () if name not in known), None):
            raise OptionError(f"{file}: table {unknown!r} is not one of {', '.join(known)}{nearest(unknown, known)}")
        folder = snapshot_folder(spec)
        if folder is None:
            raise OptionError(f"storage {spec.storage!r} is not on this machine: this verb needs a file path")
        tables = table or known
        SnapshotFolder(folder).ask(uuid.uuid4().hex, tables)
    row = {"connector": spec.name, "tables": tables, "done": True}
    report_one(row, output, f"{spec.name} reads {', '.join(tables)} again with its next batch")
