"""`headrace log skip`: replaces batches with unreadable records by empty batches, so that readers can continue."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from headrace.cli.support.connection import DryRun, Failed, Output, Yes, sure
from headrace.cli.support.output import Format, show
from headrace.kernel.plurals import counted
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.files import LOG_SUFFIX, partition_of_directory
from headrace.storage.recovery import inspection
from headrace.storage.recovery.batch_removal import remove_unreadable


def skip(
    directory: Annotated[
        Path, typer.Argument(help="Directory of one partition, or log directory of a broker.", exists=True)
    ],
    offset: Annotated[
        list[int] | None,
        typer.Option("--offset", min=0, help="Replace only the batch with this offset. You can repeat it."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Replace batches with unreadable records, so that readers can continue. The broker must be stopped.

    Such a batch has a correct checksum: its producer sent it this way, and every replica has it. The command replaces
    it by an empty batch with the same offsets. Its records are lost to readers. All other records and all offsets stay
    the same. The command keeps the bytes (headrace log strays ls). It never replaces a readable batch.

    Run it on every broker that has a replica, one after the other. Otherwise readers find the batch again when another
    broker leads the partition.

    $ headrace log skip data/orders-0 --dry-run

    $ headrace log skip data/orders-0 --yes
    """
    partitions = _partitions(directory)
    # Lock before reading, because a broker that starts meanwhile would change the files.
    locked = [] if dry_run else _lock({path.parent for path in partitions})
    try:
        found = {path: _unreadable(path, offset or []) for path in partitions}
        _refuse_other_offsets(offset or [], [place for places in found.values() for place in places], directory)
        rows = [_row(path, place) for path, places in found.items() for place in places]
        show(rows, output, empty=f"no unreadable batches under {directory}")
        if not rows or dry_run:
            return
        records = counted(sum(row["records"] for row in rows), "record")
        sure(f"Replace {counted(len(rows), 'batch', 'batches')} with {records} by empty ones?", yes)
        for path, places in found.items():
            if places:
                _replace(path, places)
    finally:
        for log_dir in locked:
            log_dir.unlock()


def _replace(path: Path, places: list[inspection.UnreadablePlace]) -> None:
    partition = partition_of_directory(path.name)
    assert partition is not None, "strays are left out"
    kept = remove_unreadable(path, partition, places, time.time_ns() // 1_000_000)
    what = counted(len(places), "batch", "batches")
    typer.echo(f"{path.name}: replaced {what}; the bytes are kept in {kept}", err=True)


def _partitions(directory: Path) -> list[Path]:
    found = [path for path in inspection.partition_directories(directory) if partition_of_directory(path.name)]
    if not found:
        raise Failed(f"{directory}: no partition directory (topic-0) there")
    return found


def _unreadable(path: Path, offsets: list[int]) -> list[inspection.UnreadablePlace]:
    verdict = inspection.verify(path)
    unreadable = {(place.path, place.position) for place in verdict.unreadable}
    for problem in verdict.problems:
        if problem.path.suffix == LOG_SUFFIX and (problem.path, problem.position) not in unreadable:
            raise Failed(f"{problem}: the log has other damage, run headrace log recover {path} first")
    return [place for place in verdict.unreadable if not offsets or any(_has(place, one) for one in offsets)]


def _has(place: inspection.UnreadablePlace, offset: int) -> bool:
    return place.fault.base_offset <= offset <= place.fault.last_offset


def _refuse_other_offsets(offsets: list[int], places: list[inspection.UnreadablePlace], directory: Path) -> None:
    for offset in offsets:
        if not any(_has(place, offset) for place in places):
            raise Failed(f"--offset {offset}: no unreadable batch under {directory} has this offset")


class UnreadableRow(TypedDict):
    partition: str
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    file: str
    position: int
    why: str


def _row(path: Path, place: inspection.UnreadablePlace) -> UnreadableRow:
    fault = place.fault
    return {
        "partition": path.name,
        "first_offset": fault.base_offset,
        "last_offset": fault.last_offset,
        "records": fault.record_count,
        "bytes": fault.size_bytes,
        "file": place.path.name,
        "position": place.position,
        "why": fault.why,
    }


def _lock(parents: set[Path]) -> list[LogDir]:
    """Locks the log directories. Raises a Fault if a running broker holds a lock."""
    locked: list[LogDir] = []
    try:
        for parent in sorted(parents):
            directory = LogDir(parent)
            directory.lock("headrace log skip")
            locked.append(directory)
    except BaseException:
        # For every exception, interrupts included: release the locks taken so far.
        for directory in locked:
            directory.unlock()
        raise
    return locked
