"""`headrace log strays ls|restore|rm`: logs that a broker set aside, and bytes that recovery cut from a log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import DryRun, Failed, Output, Yes, sure, typed
from headrace.cli.support.output import Format, show, show_one, size_text
from headrace.kernel.ids import uuid_to_text
from headrace.kernel.plurals import counted
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.restoration import destination
from headrace.storage.dirs.restoration import restore as restore_stray
from headrace.storage.dirs.strays import CUTS_KEPT_MS, Stray, StrayKind, remove_stray, strays_in

app = typer.Typer(
    no_args_is_help=True,
    help="Logs that no topic of the cluster claims, and what recovery cut from a log. The broker keeps both on disk.",
)

LogDirectory = Annotated[Path, typer.Argument(help="A broker's log directory.", exists=True, file_okay=False)]
_BEFORE_RESTORING: Final = (
    "If the topic has replicas on other brokers, restore their logs too before any of them starts: a follower cuts its "
    "log to what the leader has."
)
Name = Annotated[str, typer.Argument(help="Name of the stray, or a unique prefix of it.")]


@app.command("ls")
def ls(directory: LogDirectory, output: Output = Format.TABLE) -> None:
    """List strays: topic, partition, size, records, since when and why. Changes nothing; the broker may run.

    $ headrace log strays ls data

    $ headrace log strays ls data -o json
    """
    rows = [_row(stray, for_people=output is Format.TABLE) for stray in strays_in(directory)]
    show(rows, output, empty=f"no strays in {directory}")


@app.command()
def restore(
    directory: LogDirectory,
    name: Name,
    to: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="Restore into this topic.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Restore a stray. The broker must be stopped.

    The log goes back to its place, which must be free or hold no record. With --to it goes to the same partition of
    another topic: create that topic first, then stop the broker. If recovery cut the bytes from a log,
    --to is required: the command copies the complete batches and keeps the stray.

    $ headrace log strays restore data payments-0 --dry-run
    """
    stray = _named(directory, name)
    log_dir = LogDir(directory)
    log_dir.lock("headrace log strays restore")
    try:
        place = destination(stray, to)
        first, end = stray.offsets()
        what = (
            f"{counted(stray.count_records(), 'record')} (offsets {first} to {end - 1}) of {stray.path.name} to {place}"
        )
        typer.echo(f"{'would restore' if dry_run else 'restoring'} {what}", err=True)
        if dry_run:
            return
        sure(f"{_BEFORE_RESTORING} Go on?", yes)
        done = restore_stray(stray, to)
    finally:
        log_dir.unlock()
    offsets = {"first_offset": done.first_offset, "last_offset": done.end_offset - 1}
    row = {"topic": place.topic, "partition": place.partition, **offsets, "directory": str(done.directory)}
    show_one(row, output)
    if output is Format.TABLE and not done.adopted:
        topic_id = "unknown" if stray.topic_id is None else uuid_to_text(stray.topic_id)
        typer.echo(
            f"The broker serves it when the cluster has topic {place.topic} with the id {topic_id}, and sets it aside "
            "again otherwise: then create the topic, stop the broker, and restore once more."
        )


@app.command()
def rm(directory: LogDirectory, name: Name, yes: Yes = False, output: Output = Format.TABLE) -> None:
    """Delete a stray and its records. Asks for its name. The broker may run.

    $ headrace log strays rm data payments-0 --yes
    """
    stray = _named(directory, name)
    full = stray.path.name
    records, size_bytes = stray.count_records(), stray.size_bytes()
    what = f"{full}: {counted(records, 'record')} of {stray.topic}-{stray.partition}, {size_text(size_bytes)}"
    if not yes:
        typer.echo(f"This deletes {what} for good.", err=True)
        if typed("Type the full name of the stray to delete it: ") != full:
            raise Failed(f"{full} is kept: the name that was typed is another")
    remove_stray(stray)
    row = {"name": full, "topic": stray.topic, "partition": stray.partition, "records": records, "size": size_bytes}
    report_one({**row, "done": True}, output, f"deleted {what}")


def _named(directory: Path, name: str) -> Stray:
    found = [stray for stray in strays_in(directory) if stray.path.name.startswith(name)]
    exact = [stray for stray in found if stray.path.name == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise Failed(f"{directory} has no stray {name!r}: headrace log strays ls {directory} lists them")
    names = ", ".join(stray.path.name for stray in found)
    raise Failed(f"{name!r} is the beginning of {counted(len(found), 'stray')}: {names}")


def _row(stray: Stray, *, for_people: bool) -> dict[str, object]:
    first, end = stray.offsets()
    set_aside_ms = None if stray.note is None else stray.note.set_aside_ms
    topic_id = None if stray.topic_id is None else uuid_to_text(stray.topic_id)
    row: dict[str, object] = {
        "name": stray.path.name,
        "kind": stray.kind.value,
        "topic": stray.topic,
        "partition": stray.partition,
        "records": stray.count_records(),
        "size": size_text(stray.size_bytes()) if for_people else stray.size_bytes(),
        "first_offset": first,
        "last_offset": end - 1,
        "when": None if set_aside_ms is None else _time_text(set_aside_ms),
        "why": stray.reason,
    }
    if for_people:
        return row
    cluster_id = None if stray.note is None else stray.note.cluster_id
    more = {"topic_id": topic_id, "cluster_id": cluster_id, "set_aside_ms": set_aside_ms, "path": str(stray.path)}
    return {**row, **more, "kept_until_ms": _kept_until_ms(stray)}


def _kept_until_ms(stray: Stray) -> int | None:
    """A clean start of the broker after this time deletes the stray; None if only a user deletes it."""
    if stray.kind is StrayKind.LOG or stray.note is None:
        return None
    return stray.note.set_aside_ms + CUTS_KEPT_MS


def _time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
