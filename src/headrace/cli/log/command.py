"""`headrace log dump|verify|recover DIR`: prints, checks and repairs the files of a log directory."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypedDict

import typer

from headrace.cli.log.copies import copies
from headrace.cli.log.skip import skip
from headrace.cli.log.standalone import standalone
from headrace.cli.log.strays import app as strays_app
from headrace.cli.support.connection import Failed, sure
from headrace.cli.support.output import Format, show, show_one, size_text
from headrace.kernel.errors import Fault
from headrace.kernel.ids import uuid_to_text
from headrace.kernel.plurals import counted
from headrace.records.batch import BatchView
from headrace.records.reader import fault_in_records, read_records
from headrace.storage.dirs.checkpoints import LEADER_EPOCH_FILE, CorruptFile, read_topic_id
from headrace.storage.files import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from headrace.storage.recovery import inspection

if TYPE_CHECKING:
    from headrace.storage.recovery.recovery import Damage

app = typer.Typer(help="Show, check and repair log directories.", no_args_is_help=True)
app.command()(standalone)
app.add_typer(strays_app, name="strays")
app.command()(skip)

Directory = Annotated[
    Path, typer.Argument(help="Directory of one partition, or log directory of a broker.", exists=True)
]
Output = Annotated[Format, typer.Option("--output", "-o", help="Output format: table, json or yaml.")]


Rows: TypeAlias = list[dict[str, object]]


class _ProblemRow(TypedDict):
    file: str
    byte: int
    what: str


@dataclass(frozen=True, slots=True)
class _Dump:
    """Output of `dump` for one partition."""

    topic_id: str | None
    sections: dict[str, Rows]
    problems: list[_ProblemRow]

    def document(self) -> dict[str, object]:
        return {"topic_id": self.topic_id, **self.sections, "problems": self.problems}


@app.command()
def dump(
    directory: Directory,
    records: Annotated[bool, typer.Option("--records", "-r", help="Print records, too.")] = False,
    what: Annotated[
        str,
        typer.Option(
            "--what", "-w", help="What to print: batches, index, timeindex, aborted, epochs, producers or all."
        ),
    ] = "batches",
    output: Output = Format.TABLE,
) -> None:
    """Print batches, records, index entries, epochs and producer state.

    $ headrace log dump data/orders-0 --records

    $ headrace log dump data/orders-0 --what all -o json
    """
    sections = _SECTIONS if what == "all" else {name: make for name, make in _SECTIONS.items() if name == what}
    if not sections:
        raise typer.BadParameter(f"--what {what!r}: must be one of {', '.join(_SECTIONS)} or all")
    document: dict[str, _Dump] = {}
    damaged = False
    for partition in _partitions(directory):
        dumped: dict[str, Rows] = {}
        for name, make in sections.items():
            rows: Rows = []
            # The findings below name unreadable batches with their position.
            with contextlib.suppress(Fault, CorruptFile, OSError):
                make(partition, rows, records)
            dumped[name] = rows
        shown = tuple(_FILES[name] for name in sections)
        problems = [p for p in inspection.verify(partition).problems if p.path.name.endswith(shown)]
        damaged = damaged or bool(problems)
        document[partition.name] = _Dump(_topic_id(partition), dumped, [_problem_row(problem) for problem in problems])
    if output is not Format.TABLE:
        show_one({name: found.document() for name, found in document.items()}, output)
    else:
        for name, found in document.items():
            typer.echo(f"{name}  (topic id {found.topic_id or 'none'})")
            for section, rows in found.sections.items():
                typer.echo(f"\n{section}")
                show(rows, output, empty="  none")
            for problem in found.problems:
                place = f" at byte {problem['byte']}" if problem["byte"] >= 0 else ""
                typer.echo(f"\nPROBLEM {problem['file']}{place}: {problem['what']}")
            typer.echo("")
    raise typer.Exit(1 if damaged else 0)


@app.command()
def verify(directory: Directory, output: Output = Format.TABLE) -> None:
    """Check every batch, record and index entry; name the first bad byte of a damaged file. Changes nothing.

    $ headrace log verify data
    """
    rows = []
    problems = []
    for partition in _partitions(directory):
        found = inspection.verify(partition)
        problems += found.problems
        rows.append(
            {
                "partition": partition.name,
                "segments": found.segments,
                "batches": found.batches,
                "records": found.records,
                "size": size_text(found.size_bytes) if output is Format.TABLE else found.size_bytes,
                "first_offset": found.first_offset,
                "end_offset": found.end_offset,
                "problems": [_problem_row(problem) for problem in found.problems]
                if output is not Format.TABLE
                else len(found.problems),
            }
        )
    show(rows, output)
    if output is Format.TABLE:
        for problem in problems:
            typer.echo(f"PROBLEM {problem}")
        typer.echo(f"{counted(len(rows), 'partition')}, {counted(len(problems), 'problem')}")
    raise typer.Exit(1 if problems else 0)


@app.command()
def recover(
    directory: Directory,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Recover a copy and show what would be cut; change nothing. Each partition is copied to the temporary "
            "directory (TMPDIR), one at a time.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Do what a broker does after a crash: cut at the first bad byte, rebuild the rest. The broker must be stopped.

    The command keeps the bytes that it cuts off (headrace log strays ls), except an incomplete last batch. It keeps a
    batch with a correct checksum and unreadable records, because the batches after it are good: headrace log skip
    replaces it.

    $ headrace log recover data --dry-run

    $ headrace log recover data/orders-0 --yes
    """
    from headrace.storage.files import partition_of_directory
    from headrace.storage.log_config import LogConfig
    from headrace.storage.recovery.recovery import open_log

    partitions = _partitions(directory)
    if not dry_run:
        _refuse_if_in_use({partition.parent for partition in partitions})
        sure(f"Cut and rebuild {counted(len(partitions), 'partition')} under {directory}?", yes)
    rows = []
    for path in copies(partitions) if dry_run else partitions:
        name = partition_of_directory(path.name)
        if name is None:
            raise Failed(f"{path.name} is a stray, which is not recovered: headrace log strays restore brings it back")
        found = inspection.verify(path).problems
        damages: list[Damage] = []
        log = open_log(path, name, LogConfig(), clean=False, now_ms=_now_ms(), on_damage=damages.append)
        log.close()
        cut = "; ".join(_cut_text(damage, dry_run=dry_run) for damage in damages)
        row = {"partition": path.name, "first_offset": log.log_start_offset, "end_offset": log.log_end_offset}
        hints = [problem for problem in found if problem.path.suffix != LOG_SUFFIX]
        made_anew = "; ".join(f"{p.path.name} at byte {p.position}: {p.what}" for p in hints)
        unreadable = inspection.verify(path).unreadable
        left = "; ".join(f"{place.path.name} at byte {place.position}: {place.fault.message}" for place in unreadable)
        rows.append(
            {**row, "cut": cut or "nothing", "made_anew": made_anew or "nothing", "unreadable": left or "nothing"}
        )
    show(rows, output)
    if any(row["unreadable"] != "nothing" for row in rows):
        typer.echo(
            f"unreadable batches stay in the log: headrace log skip {directory} gets readers past them", err=True
        )
        raise typer.Exit(1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _cut_text(damage: Damage, *, dry_run: bool) -> str:
    if damage.kept is None:
        kept = "a torn last batch"
    else:
        kept = "would be kept as a stray" if dry_run else f"kept in {damage.kept.name}"
    size = counted(damage.size_bytes, "byte")
    return f"{damage.path.name} from byte {damage.position}: {damage.reason} ({size}, {kept})"


def _refuse_if_in_use(parents: set[Path]) -> None:
    from headrace.storage.dirs.log_dir import DirectoryInUse, LogDir

    for parent in parents:
        directory = LogDir(parent)
        try:
            directory.lock("headrace log recover")
        except DirectoryInUse as fault:
            typer.echo(f"{fault.message}: stop the broker first", err=True)
            raise typer.Exit(1) from fault


def _partitions(directory: Path) -> list[Path]:
    found = inspection.partition_directories(directory)
    if not found:
        typer.echo(f"{directory}: no partition directory (topic-0) there", err=True)
        raise typer.Exit(1)
    return found


def _problem_row(problem: inspection.Problem) -> _ProblemRow:
    return {"file": str(problem.path), "byte": problem.position, "what": problem.what}


def _topic_id(partition: Path) -> str | None:
    try:
        found = read_topic_id(partition)
    except (CorruptFile, OSError) as error:
        return f"unreadable: {error}"
    return None if found is None else uuid_to_text(found)


def _batch_row(position: int, batch: BatchView) -> dict[str, object]:
    return {
        "position": position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.record_count,
        "size": batch.size_bytes,
        "codec": batch.codec.name.lower(),
        "max_timestamp": batch.max_timestamp_ms,
        "epoch": batch.partition_leader_epoch,
        "producer": None if batch.producer_id < 0 else f"{batch.producer_id}/{batch.producer_epoch}",
        "sequence": None if batch.base_sequence < 0 else batch.base_sequence,
        "kind": "control" if batch.is_control else "transactional" if batch.is_transactional else "plain",
        "crc_ok": batch.computed_crc() == batch.crc,
    }


def _batches(partition: Path, rows: Rows, records: bool) -> None:
    for segment in inspection.segments_in(partition):
        for position, batch in inspection.batches_in(segment.path):
            if not records:
                rows.append({"segment": segment.base_offset, **_batch_row(position, batch)})
                continue
            if fault_in_records(batch) is not None:
                continue  # the findings below name it with its position
            for record in read_records(batch):
                rows.append(
                    {
                        "segment": segment.base_offset,
                        "offset": record.offset,
                        "timestamp": record.timestamp_ms,
                        "key": _text(record.key),
                        "value": _text(record.value),
                        "headers": {name: _text(value) for name, value in record.headers} or None,
                    }
                )


def _index(partition: Path, rows: Rows, records: bool) -> None:
    for segment in inspection.segments_in(partition):
        segment.offset_index.file.open_sealed()
        # The index of an active segment ends with preallocated zeros.
        rows += [
            {"segment": segment.base_offset, "offset": o, "position": p}
            for o, p in segment.offset_index.entries()
            if p > 0
        ]


def _time_index(partition: Path, rows: Rows, records: bool) -> None:
    for segment in inspection.segments_in(partition):
        segment.time_index.file.open_sealed()
        rows += [
            {"segment": segment.base_offset, "timestamp": t, "offset": o}
            for t, o in segment.time_index.entries()
            if t > 0
        ]


def _aborted(partition: Path, rows: Rows, records: bool) -> None:
    for segment in inspection.segments_in(partition):
        for entry in segment.txn_index.entries:
            where = {"segment": segment.base_offset, "producer": entry.producer_id}
            span = {"first_offset": entry.first_offset, "last_offset": entry.last_offset}
            rows.append({**where, **span, "last_stable_offset": entry.last_stable_offset})


def _epochs(partition: Path, rows: Rows, records: bool) -> None:
    rows += [{"epoch": epoch, "start_offset": start} for epoch, start in inspection.epochs_in(partition)]


def _producers(partition: Path, rows: Rows, records: bool) -> None:
    for snapshot in sorted(partition.glob("*" + SNAPSHOT_SUFFIX)):
        for entry in inspection.producers_in(snapshot) or []:
            last = entry.batches[-1] if entry.batches else None
            rows.append(
                {
                    "snapshot": snapshot.stem,
                    "producer": entry.producer_id,
                    "epoch": entry.epoch,
                    "last_sequence": entry.last_sequence,
                    "last_offset": None if last is None else last.last_offset,
                    "coordinator_epoch": entry.coordinator_epoch,
                    "transaction_from": entry.txn_first_offset,
                }
            )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


# Files of each section, by suffix.
_FILES = {
    "batches": LOG_SUFFIX,
    "index": INDEX_SUFFIX,
    "timeindex": TIME_INDEX_SUFFIX,
    "aborted": TXN_INDEX_SUFFIX,
    "epochs": LEADER_EPOCH_FILE,
    "producers": SNAPSHOT_SUFFIX,
}
_SECTIONS = {
    "batches": _batches,
    "index": _index,
    "timeindex": _time_index,
    "aborted": _aborted,
    "epochs": _epochs,
    "producers": _producers,
}
