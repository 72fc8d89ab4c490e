"""A data directory as one file: topics, groups, schemas and users, ready for many tests.

    save_snapshot(directory, "orders.snapshot")          # a stopped broker's directory
    with broker(snapshot="orders.snapshot") as running:  # each test gets a copy of its own

The file is a compressed tar archive. A process unpacks it once. Each further copy links the files that a broker never
writes again, which are the segments before the newest one of each partition, and copies the others.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.storage.dirs.log_dir import CLEAN_SHUTDOWN_FILE, LOCK_FILE, LogDir

_ABOUT: Final = "headrace-snapshot.json"
_FORMAT: Final = 1
_DATA: Final = "data"
_OMITTED: Final = (LOCK_FILE, "lock")
_PARTITION: Final = re.compile(r"(.+)-(\d+)")
_SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)")
_COMPRESSION_LEVEL: Final = 1


class SnapshotError(ValueError):
    """The directory cannot be saved, or the file is no snapshot."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot holds."""

    topics: tuple[str, ...]
    files: int
    size_bytes: int


def save_snapshot(directory: Path | str, file: Path | str) -> Snapshot:
    """Writes the data directory of a stopped broker to a file. Raises SnapshotError and DirectoryInUse."""
    source, target = Path(directory), Path(file)
    if not (source / "meta.properties").is_file():
        raise SnapshotError(f"{source} is no data directory of a broker: it has no meta.properties")
    log_dir = LogDir(source)
    log_dir.lock("headrace snapshot save")
    try:
        if not (source / CLEAN_SHUTDOWN_FILE).exists():
            raise SnapshotError(f"{source}: its broker was not shut down cleanly; start it and stop it once")
        return _write(source, target)
    finally:
        log_dir.unlock()


def _write(source: Path, target: Path) -> Snapshot:
    paths = sorted(_saved_files(source))
    size = sum(path.stat().st_size for path in paths)
    saved = Snapshot(_topics(source), len(paths), size)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(fresh, "w:gz", compresslevel=_COMPRESSION_LEVEL) as archive:
            about = json.dumps(
                {"format": _FORMAT, "topics": saved.topics, "files": saved.files, "bytes": size}
            ).encode()
            entry = tarfile.TarInfo(_ABOUT)
            entry.size = len(about)
            archive.addfile(entry, io.BytesIO(about))
            for path in paths:
                archive.add(path, f"{_DATA}/{path.relative_to(source)}", recursive=False, filter=_without_owner)
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise SnapshotError(f"{target} cannot be written: {error.strerror or error}") from error
    return saved


def _saved_files(source: Path) -> list[Path]:
    return [
        path
        for path in source.rglob("*")
        if path.is_file() and path.name not in _OMITTED and not path.parent.name.endswith("-delete")
    ]


def _topics(source: Path) -> tuple[str, ...]:
    found = (_PARTITION.fullmatch(path.parent.name) for path in source.glob("*/partition.metadata"))
    return tuple(sorted({one[1] for one in found if one is not None}))


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same directory gives the same archive, whose files belong to the user that unpacks it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def load_snapshot(file: Path | str, directory: Path | str) -> Snapshot:
    """Unpacks a snapshot into a new or empty directory. Raises SnapshotError."""
    source, target = Path(file), Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise SnapshotError(f"{target} is not empty: name a new directory")
    try:
        with tarfile.open(source, "r:gz") as archive:
            loaded = _about(archive, source)
            target.mkdir(parents=True, exist_ok=True)
            for entry in archive:
                _unpack(archive, entry, source, target)
    except FileNotFoundError:
        raise SnapshotError(f"{source}: there is no such file") from None
    except (OSError, EOFError, tarfile.TarError) as error:
        raise SnapshotError(f"{source} cannot be read as a snapshot: {error}") from error
    return loaded


def _about(archive: tarfile.TarFile, source: Path) -> Snapshot:
    first = archive.next()
    about = archive.extractfile(first) if first is not None and first.name == _ABOUT else None
    if about is None:
        raise SnapshotError(f"{source} is no snapshot of Headrace")
    try:
        found = json.loads(about.read())
        made_by, topics, files, size = found["format"], tuple(found["topics"]), int(found["files"]), int(found["bytes"])
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"{source} is no snapshot of Headrace: {error}") from None
    if made_by != _FORMAT:
        raise SnapshotError(f"{source} has format {made_by}: this version of Headrace reads format {_FORMAT}")
    return Snapshot(topics, files, size)


def _unpack(archive: tarfile.TarFile, entry: tarfile.TarInfo, source: Path, target: Path) -> None:
    """Only plain files below the directory."""
    if entry.name == _ABOUT:
        return
    folder, _, name = entry.name.partition("/")
    content = archive.extractfile(entry) if entry.isreg() else None
    path = (target / name).resolve()
    if folder != _DATA or content is None or not path.is_relative_to(target.resolve()):
        raise SnapshotError(f"{source} holds {entry.name!r}, which belongs to no snapshot")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as out:
        shutil.copyfileobj(content, out)


# Copies for tests


class SnapshotCopies:
    """The unpacked snapshots of this process, by file and time of its last change."""

    def __init__(self, make_directory: Callable[[], Path]) -> None:
        self._make_directory = make_directory
        self._unpacked: dict[tuple[Path, int, int], Path] = {}

    def copy_to(self, file: Path, directory: Path) -> None:
        """Fills a new or empty directory. Raises SnapshotError."""
        try:
            facts = file.stat()
        except OSError as error:
            raise SnapshotError(f"snapshot {str(file)!r}: {error.strerror}") from error
        key = file.resolve(), facts.st_mtime_ns, facts.st_size
        if key not in self._unpacked:
            if not self._unpacked:
                atexit.register(self.remove)
            unpacked = self._make_directory()
            load_snapshot(file, unpacked)
            self._unpacked[key] = unpacked
        _copy(self._unpacked[key], directory)

    def remove(self) -> None:
        for directory in self._unpacked.values():
            shutil.rmtree(directory, ignore_errors=True)
        self._unpacked.clear()


def _copy(source: Path, target: Path) -> None:
    for folder, _, names in os.walk(source):
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        segments = [found[1] for name in names if (found := _SEGMENT_FILE.fullmatch(name)) and found[2] == "log"]
        newest = max(segments, default="")
        for name in names:
            found = _SEGMENT_FILE.fullmatch(name)
            is_final = found is not None and found[1] < newest
            _copy_file(f"{folder}/{name}", f"{place}/{name}", is_final=is_final)


def _copy_file(source: str, target: str, *, is_final: bool) -> None:
    if is_final:
        try:
            os.link(source, target)
            return
        except OSError:
            pass  # another file system, or one without links
    shutil.copyfile(source, target)
