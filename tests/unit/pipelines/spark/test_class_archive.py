"""The first session on Java 17 writes the archive of Spark's classes, and the sessions after it use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.pipelines.spark.class_archive import archive_flags
from headrace.pipelines.spark.java import Java


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "my cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path / "my cache"


def java_of(home: Path, version: int = 17) -> Java:
    (home / "lib").mkdir(parents=True, exist_ok=True)
    (home / "lib" / "modules").touch()
    return Java(home, version, "JAVA_HOME")


def written(flags: str) -> Path:
    """The file that these flags let the JVM write."""
    option, _, path = flags.split('"')[1].partition("=")
    assert option == "-XX:ArchiveClassesAtExit"
    return Path(path)


def test_an_archive_is_used_when_it_is_complete(tmp_path: Path) -> None:
    java = java_of(tmp_path / "java")
    archive = written(archive_flags(java))
    archive.write_bytes(bytes(4) + b"classes")
    assert written(archive_flags(java)) == archive, "a JVM that was killed left it without its first bytes"
    archive.write_bytes(b"\xa8\xab\x0b\xf0classes")
    assert f'"-XX:SharedArchiveFile={archive}"' in archive_flags(java)
    assert f'"-XX:SharedArchiveFile={archive}"' in archive_flags(Java(java.home, 17, "java on the PATH"))


def test_another_java_writes_its_own_and_removes_the_old_one(tmp_path: Path) -> None:
    java = java_of(tmp_path / "java")
    old = written(archive_flags(java))
    old.write_bytes(b"\xa8\xab\x0b\xf0classes")
    os.utime(java.home / "lib" / "modules", (1, 1))
    assert written(archive_flags(java)) != old
    assert not old.exists()


def test_newer_java_writes_and_replaces_it_by_itself(tmp_path: Path) -> None:
    flags = archive_flags(java_of(tmp_path / "java", 21))
    assert flags.startswith('-XX:+AutoCreateSharedArchive "-XX:SharedArchiveFile=')


def test_a_cache_that_cannot_be_written_means_no_archive(cache: Path, tmp_path: Path) -> None:
    cache.write_text("a file")
    assert archive_flags(java_of(tmp_path / "java")) == ""
