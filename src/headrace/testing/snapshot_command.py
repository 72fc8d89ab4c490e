"""`headrace snapshot save|load`: a data directory as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Failed, Output
from headrace.cli.support.output import Format, size_text
from headrace.kernel.plurals import counted
from headrace.testing.snapshots import Snapshot, SnapshotError, load_snapshot, save_snapshot

app = typer.Typer(
    no_args_is_help=True,
    help="A data directory as one file: topics, groups, schemas and users, for tests and demonstrations.",
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="The snapshot.")]


@app.command()
def save(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data directory of a stopped broker.", exists=True, file_okay=False)
    ],
    file: File,
    output: Output = Format.TABLE,
) -> None:
    """Write the data directory of a stopped broker to a file.

    The file also holds the users of the broker and their hashed passwords.

    $ headrace snapshot save data orders.snapshot
    """
    try:
        saved = save_snapshot(directory, file)
    except SnapshotError as error:
        raise Failed(str(error)) from error
    report_one(_row(saved, file, directory), output, f"saved {_text(saved)} of {directory} to {file}")


@app.command()
def load(
    file: File,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New data directory.")],
    output: Output = Format.TABLE,
) -> None:
    """Unpack a snapshot into a new data directory. `headrace start --data DIR` serves it.

    $ headrace snapshot load orders.snapshot copy
    """
    try:
        loaded = load_snapshot(file, directory)
    except SnapshotError as error:
        raise Failed(str(error)) from error
    report_one(_row(loaded, file, directory), output, f"loaded {_text(loaded)} of {file} into {directory}")


def _text(snapshot: Snapshot) -> str:
    topics, files = counted(len(snapshot.topics), "topic"), counted(snapshot.files, "file")
    return f"{topics} in {files} ({size_text(snapshot.size_bytes)})"


def _row(snapshot: Snapshot, file: Path, directory: Path) -> dict[str, object]:
    facts = {"topics": list(snapshot.topics), "files": snapshot.files, "bytes": snapshot.size_bytes}
    return {"file": str(file), "directory": str(directory), **facts, "done": True}
