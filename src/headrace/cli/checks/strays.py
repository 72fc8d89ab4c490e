"""Finds strays in the log directories of this machine. They use disk space, and no topic serves their records."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.checks.findings import Finding, State, well
from headrace.cli.cluster import DiskRow, disk_rows
from headrace.cli.support.output import size_text
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.plurals import counted
from headrace.storage.dirs.checkpoints import META_PROPERTIES_FILE, CorruptFile, read_properties
from headrace.storage.dirs.strays import strays_in

_NAME = "strays"


async def strays(client: ClusterClient) -> list[Finding]:
    rows = await disk_rows(client)
    here = [row for row in rows if _is_here(row)]
    findings = [finding for row in here if (finding := _in_directory(row)) is not None]
    elsewhere = len(rows) - len(here)
    unseen = f"; {elsewhere} on other machines are not visible from here" if elsewhere else ""
    return findings or well(
        _NAME, f"none in {counted(len(here), 'log directory', 'log directories')} on this machine{unseen}"
    )


def _is_here(row: DiskRow) -> bool:
    """Whether the broker's directory is on this machine. A directory with the same name may belong to another
    broker."""
    try:
        meta = read_properties(Path(row["directory"]) / META_PROPERTIES_FILE)
    except (OSError, CorruptFile):
        return False
    return meta.get("node.id", meta.get("broker.id")) == str(row["broker"])


def _in_directory(row: DiskRow) -> Finding | None:
    directory = Path(row["directory"])
    found = strays_in(directory)
    if not found:
        return None
    names = ", ".join(sorted({f"{stray.topic}-{stray.partition}" for stray in found})[:5])
    size = size_text(sum(stray.size_bytes() for stray in found))
    count = f"{len(found)} stray{'' if len(found) == 1 else 's'}"
    return Finding(
        _NAME,
        State.WARN,
        f"{directory} of broker {row['broker']} holds {count} ({size}) that no topic serves: {names}"
        + (", …" if len(found) > 5 else ""),
        f"see headrace log strays ls {directory}, then restore or rm each",
    )
