"""The source `lines` reads each line of a log once, also if the log is rotated while the connector is away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import DataLossError
from headrace.pipelines.plugins.api import Offset
from headrace.pipelines.plugins.line_file import LineSource


class Reader:
    """Reads as the journal does: an offset is kept only with rows."""

    def __init__(self, path: Path) -> None:
        self.source = LineSource(End("lines", {"path": str(path)}, "from.lines"))
        self.offset: Offset | None = None

    def rest(self) -> list[object]:
        found: list[object] = []
        while (chunk := self.source.read(self.offset)).rows:
            self.offset = chunk.offset
            found += [row["value"] for row in chunk.rows]
        return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_text("old 0\nold 1\n")
    return path


@pytest.fixture
def reader(log: Path) -> Reader:
    reader = Reader(log)
    assert reader.rest() == ["old 0", "old 1"]
    return reader


def rotate(log: Path, name: str, at_s: int) -> None:
    os.utime(log, (at_s, at_s))
    log.rename(log.with_name(name))


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("name", ["app.log.1", "app.log-20260101", "app.2026-01-01.log", "before"])
def test_a_rotated_log_is_read_to_its_end_before_the_new_one(log: Path, reader: Reader, name: str) -> None:
    append(log, "old 2\n")
    rotate(log, name, 1000)
    new = [f"new line {number}" for number in range(6)]
    append(log, "".join(f"{line}\n" for line in new))
    assert reader.rest() == ["old 2", *new]
    append(log, "more\n")
    assert reader.rest() == ["more"]


def test_the_writer_may_finish_in_the_rotated_log(log: Path, reader: Reader) -> None:
    old = log.with_name("app.log.1")
    rotate(log, old.name, 1000)
    append(old, "late 1\n")
    assert reader.rest() == ["late 1"]
    log.touch()
    append(old, "late 2\n")
    assert reader.rest() == ["late 2"]
    # Its last line never gets an end: the writer has died, and the next one writes to the new file.
    append(old, "cut")
    assert reader.rest() == []
    append(log, "new\n")
    assert reader.rest() == ["cut", "new"]


def test_logs_rotated_while_the_connector_was_away_come_in_their_order(log: Path, reader: Reader) -> None:
    append(log, "old 2\n")
    rotate(log, "app.log.4", 1000)
    for name, text, at_s in (("app.log.3", "second\n", 2000), ("app.log.2", "", 3000), ("app.log.1", "third\n", 4000)):
        append(log, text)
        rotate(log, name, at_s)
    for other in ("app.log.5", "app.log.lock", "app.log10.1", "app2.log.1"):
        log.with_name(other).write_text("not of this log, or older\n")
    os.utime(log.with_name("app.log.5"), (500, 500))
    append(log, "fourth\n")
    assert reader.rest() == ["old 2", "second", "third", "fourth"]


def test_a_compressed_log_between_stops_the_connector(log: Path, reader: Reader) -> None:
    rotate(log, "app.log.2", 1000)
    log.with_name("app.log.1.gz").write_bytes(b"compressed")
    append(log, "new\n")
    with pytest.raises(DataLossError, match=r"lines of app.log.1.gz were not read.*[Dd]ecompress it"):
        reader.rest()


def test_a_log_whose_old_file_is_gone_stops_the_connector(log: Path, reader: Reader) -> None:
    # The new file exists first: the file system would give it the same inode.
    fresh = log.with_name("fresh")
    fresh.write_text("another and longer line\n")
    fresh.replace(log)
    with pytest.raises(DataLossError, match="is a new file, and the one that was read up to position 12 is not"):
        reader.rest()


def test_a_log_written_again_in_its_place_stops_the_connector(log: Path, reader: Reader) -> None:
    log.write_text("cut\n")
    with pytest.raises(DataLossError, match="has 4 bytes, but 12 were read"):
        reader.rest()
    log.write_text("as copytruncate does, and grown again\n")
    with pytest.raises(DataLossError, match="does not have the line that was read last, before position 12"):
        reader.rest()


def test_a_copy_with_the_same_lines_is_continued(log: Path, reader: Reader) -> None:
    copy = log.with_name("copy")
    copy.write_text(log.read_text() + "more\n")
    copy.replace(log)
    assert reader.rest() == ["more"]


def test_offsets_of_earlier_versions_continue(log: Path) -> None:
    reader = Reader(log)
    reader.offset = {"position": 6}
    assert reader.rest() == ["old 1"]
    log.with_name("other").touch()
    rotate(log, "app.log.1", 1000)
    append(log, "new\n")
    assert reader.rest() == ["new"]
    reader.offset = {"position": 100}
    with pytest.raises(DataLossError, match="has 4 bytes, but 100 were read"):
        reader.rest()


def test_a_log_that_does_not_exist_yet_has_no_lines(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "folder" / "app.log")
    assert reader.rest() == []
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "app.log").write_text("\nhalf")
    assert reader.rest() == [""]
