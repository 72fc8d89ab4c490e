"""One text file that grows: its new lines as rows, and rows as lines at its end.

    from:
      lines: {path: /var/log/app.log}
    to:
      lines: {path: out.txt, value: line}

Source: the offset is the position after the last whole line, the inode of its file and a hash of the bytes before the
position. A line without its end waits until it is whole. The inode and the hash say whether the path still names the
same file. If not, it was rotated (app.log is now app.log.1): the source finds the old file in the directory by its
inode, reads its rest, then files that were rotated after it, then the new one from its start. A writer may write to
the old file until it opens the new one, so the source leaves the old file when the new one has a line. If the old file
is gone, or became shorter, the connector stops: the lines between are not known. Offsets of earlier versions, and those
that a person has set, have the position only, so only the length is checked.

Sink: a file beside the target, `.<name>.headrace`, has the length before the batch. A repeated batch cuts the target to
that length first, so every batch is there once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final

from headrace.kernel.plurals import counted
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import DataLossError, OptionError, PipelineError
from headrace.pipelines.plugins.api import Batch, Chunk, Ledger, Offset, Sink, Source
from headrace.pipelines.plugins.plain_json import to_text

_BYTES_AT_ONCE: Final = 1 << 20
# Bytes before the position that identify the file: some lines, of which one has a time.
_TAIL_BYTES: Final = 1024
_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")


class LineSource(Source):
    def __init__(self, settings: End) -> None:
        super().__init__(settings.only("path"))
        self._path = Path(settings.text("path"))

    def columns(self) -> str:
        return "value string"

    def read(self, offset: Offset | None) -> Chunk:
        mark = _Mark.of_offset(offset)
        try:
            with ExitStack() as files:
                try:
                    current = files.enter_context(self._path.open("rb"))
                except FileNotFoundError:
                    # As with Kafka's connector, the file may appear later.
                    current = None
                if current is not None and mark.inode in (None, os.fstat(current.fileno()).st_ino):
                    self._check_same(current, mark)
                    return self._lines(current, mark.position)
                return self._after_rotation(files, current, mark) or Chunk([], offset)
        except OSError as error:
            raise PipelineError(f"{self.settings.place}: {self._path}: {error.strerror}") from error

    def _check_same(self, file: BinaryIO, mark: _Mark) -> None:
        if (length := os.fstat(file.fileno()).st_size) < mark.position:
            raise DataLossError(
                f"{self.settings.place}: {self._path} has {counted(length, 'byte')}, but {mark.position} were read: "
                "it was replaced. Reset the connector to read the new file"
            )
        if not mark.is_in(file):
            raise DataLossError(
                f"{self.settings.place}: {self._path} does not have the line that was read last, before position "
                f"{mark.position}: it was replaced. Reset the connector to read the new file"
            )

    def _after_rotation(self, files: ExitStack, current: BinaryIO | None, mark: _Mark) -> Chunk | None:
        """The path has no file, or not the one that was read last."""
        # First this, then the rest of the old file: the writer of a line in the new file has left the old one.
        has_line = current is not None and b"\n" in current.read(_BYTES_AT_ONCE)
        found = self._rotated(files, mark)
        if found is None:
            if current is None:
                return None
            if mark.is_in(current):
                # The same lines in another file: a copy, or a file system that gives new inodes.
                return self._lines(current, mark.position)
            raise DataLossError(
                f"{self.settings.place}: {self._path} is a new file, and the one that was read up to position "
                f"{mark.position} is not in its directory any more: lines may be lost. Reset the connector to read the "
                "new file; let the rotation keep the last file under another name there (delaycompress in logrotate)"
            )
        name, old = found
        between = self._rotated_after(name)
        chunk = self._lines(old, mark.position, is_complete=has_line or between is not None)
        if chunk.rows or not (has_line or between is not None):
            return chunk
        if between is not None:
            return self._lines(files.enter_context(between.open("rb")), 0, is_complete=True)
        assert current is not None
        return self._lines(current, 0)

    def _rotated(self, files: ExitStack, mark: _Mark) -> tuple[Path, BinaryIO] | None:
        """The file that was read last, under its new name."""
        if mark.inode is None or not self._path.parent.is_dir():
            return None
        with os.scandir(self._path.parent) as entries:
            same = [Path(entry.path) for entry in entries if entry.inode() == mark.inode and entry.is_file()]
        for path in same:
            file = files.enter_context(path.open("rb"))
            if mark.is_in(file):
                return path, file
        return None

    def _rotated_after(self, old: Path) -> Path | None:
        """The next file in time whose name differs from that of `old` by numbers only: log.1 after log.2."""
        pattern = self._pattern_of(old.name)
        written = old.stat().st_mtime_ns
        later = [
            (found.st_mtime_ns, file)
            for file in self._path.parent.iterdir()
            if file not in (self._path, old)
            and pattern is not None
            and self._pattern_of(file.name) == pattern
            and (found := file.stat()).st_size
            and found.st_mtime_ns > written
        ]
        _, first = min(later, default=(0, None))
        if first is not None and first.suffix in _COMPRESSED:
            raise DataLossError(
                f"{self.settings.place}: {self._path} was rotated more than once, and the lines of {first.name} were "
                "not read, because it is compressed. Decompress it under the same name without "
                f"{first.suffix}, with its time (gunzip does), or reset the connector to read the new file"
            )
        return first

    def _pattern_of(self, name: str) -> str | None:
        """The part of a rotated file's name after that of the path, without its numbers and compression."""
        for suffix in _COMPRESSED:
            name = name.removesuffix(suffix)
        rest = name.removeprefix(self._path.stem)
        # app-10.log is not a file of app-1.log.
        return None if rest == name or rest[:1].isdigit() else re.sub(r"\d+", "0", rest)

    def _lines(self, file: BinaryIO, position: int, *, is_complete: bool = False) -> Chunk:
        """Whole lines after the position. The last line of a complete file may lack its end."""
        file.seek(position)
        data = file.read(_BYTES_AT_ONCE)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == _BYTES_AT_ONCE:
            raise PipelineError(
                f"{self.settings.place}: a line of {file.name} is longer than {counted(_BYTES_AT_ONCE, 'byte')}"
            )
        if is_complete and len(data) < _BYTES_AT_ONCE:
            whole = data
        lines = whole.decode(errors="replace").removesuffix("\n").split("\n") if whole else []
        mark = _Mark.before(position + len(whole), file)
        return Chunk([{"value": line.removesuffix("\r")} for line in lines], asdict(mark))


@dataclass(frozen=True)
class _Mark:
    """The end of the last line that was read. Without an inode only the position is known."""

    position: int = 0
    inode: int | None = None
    # Hash of the bytes before the position.
    tail: str | None = None

    @classmethod
    def of_offset(cls, offset: Offset | None) -> _Mark:
        given = offset or {}
        return cls(int(given.get("position", 0)), given.get("inode"), given.get("tail"))

    @classmethod
    def before(cls, position: int, file: BinaryIO) -> _Mark:
        return cls(position, os.fstat(file.fileno()).st_ino, _tail(file, position))

    def is_in(self, file: BinaryIO) -> bool:
        return self.tail is None or self.tail == _tail(file, self.position)


def _tail(file: BinaryIO, position: int) -> str:
    """Hash of the bytes before a position; of fewer bytes if the file is shorter."""
    start = max(0, position - _TAIL_BYTES)
    file.seek(start)
    return hashlib.blake2b(file.read(position - start), digest_size=16).hexdigest()


class LineSink(Sink):
    def __init__(self, settings: End) -> None:
        super().__init__(settings.only("path", "value"))
        self._path = Path(settings.text("path"))
        self._note = self._path.with_name(f".{self._path.name}.headrace")

    def write(self, batch: Batch, ledger: Ledger) -> None:
        column = self.settings.text("value", "value" if "value" in batch.columns else "")
        if column and column not in batch.columns:
            raise OptionError(f"{self.settings.place}: value {column!r} is not a column of {', '.join(batch.columns)}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.truncate(self._length_before(ledger, file.tell()))
                for row in batch:
                    text = row[column] if column else to_text(row)
                    file.write(f"{'' if text is None else text}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise PipelineError(f"{self.settings.place}: {self._path}: {error.strerror}") from error

    def _length_before(self, ledger: Ledger, now: int) -> int:
        known = json.loads(self._note.read_text()) if self._note.exists() else {}
        if known.get("key") == ledger.key:
            return int(known["length"])
        fresh = self._note.with_name(f"{self._note.name}.new")
        with fresh.open("w") as file:
            json.dump({"key": ledger.key, "length": now}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._note)
        return now
