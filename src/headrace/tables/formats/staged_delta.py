"""Commits to Delta tables in HDFS. `deltalake` commits to a local copy of the table's log, and Hadoop's client
(`hadoop_client`, which says why) copies what is new into HDFS: first data files, then the commit, then checkpoints.

The commit gets its name by a rename that fails if the name exists, so of two writers one succeeds, as the protocol of
Delta asks. A crash before the rename leaves data files that no version names.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from pyarrow.fs import FileSelector, FileSystem

from headrace.tables.formats.hadoop_client import HadoopFiles
from headrace.tables.formats.hadoop_uris import split_uri
from headrace.tables.formats.table_files import file_system
from headrace.tables.formats.table_log import CommitTaken

_LOG: Final = "_delta_log"
_LAST: Final = "_last_checkpoint"
# Log files are small: a copy waits for the network, not for the disk.
_COPIES_AT_ONCE: Final = 8


@contextlib.contextmanager
def staged_table(
    path: str, version: int, data: Collection[str] = (), placeholders: Collection[str] = ()
) -> Iterator[DeltaTable]:
    """The table with the log up to `version`, and with the data files that the caller's change reads. Everything that
    the caller adds goes to HDFS at the end. `placeholders` are files that only have to exist."""
    with tempfile.TemporaryDirectory(prefix="headrace-delta-") as directory:
        place = Path(directory)
        system, root = file_system(path)
        _copy(system, root, [f"{_LOG}/{name}" for name in _log_files(system, root)], place)
        _copy(system, root, data, place)
        for name in placeholders:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).touch()
        before, last = _names(place), _bytes(place / _LOG / _LAST)
        table = DeltaTable(place)
        if table.version() != version:
            raise CommitTaken
        yield table
        moved = {f"{_LOG}/{_LAST}"} if _bytes(place / _LOG / _LAST) != last else set[str]()
        _publish(place, path, (_names(place) - before) | moved)


@contextlib.contextmanager
def staged_creation(path: str) -> Iterator[Path]:
    """An empty directory for a new table, which goes to HDFS at the end."""
    with tempfile.TemporaryDirectory(prefix="headrace-delta-") as directory:
        yield Path(directory)
        _publish(Path(directory), path, _names(Path(directory)))


def _log_files(system: FileSystem, root: str) -> list[str]:
    """The newest checkpoint and the commits after it."""
    found = [info.base_name for info in system.get_file_info(FileSelector(f"{root}/{_LOG}"))]
    names = [name for name in found if name[:20].isdigit() and name.endswith((".json", ".parquet"))]
    if _LAST not in found:
        return names
    with system.open_input_stream(f"{root}/{_LOG}/{_LAST}") as last:
        first = int(json.loads(last.readall())["version"])
    return [_LAST, *(name for name in names if int(name[:20]) >= first)]


def _copy(system: FileSystem, root: str, names: Collection[str], place: Path) -> None:
    def copy(name: str) -> None:
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with system.open_input_stream(f"{root}/{name}") as source, target.open("wb") as out:
            while block := source.read(1 << 22):
                out.write(block)

    with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
        list(copies.map(copy, names))


def _names(place: Path) -> set[str]:
    return {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _publish(place: Path, path: str, names: Collection[str]) -> None:
    server, root = split_uri(path)
    files = HadoopFiles(server)
    logged = {name for name in names if name.startswith(f"{_LOG}/")}
    commits = sorted(name for name in logged if name.endswith(".json"))
    for name in sorted(set(names) - logged):
        files.put(place / name, f"{root}/{name}")
    for name in commits:
        if not files.put_new(place / name, f"{root}/{name}"):
            raise CommitTaken
    # The pointer to the newest checkpoint follows the checkpoint.
    for name in sorted(logged - set(commits), key=lambda name: name.endswith(_LAST)):
        files.put(place / name, f"{root}/{name}")
