"""Lines of new files in a directory, with the log of Spark's file source.

`sources/0/N` in the checkpoint lists the files of batch N. Every tenth one (`9.compact`, `19.compact` …) lists all
files up to it. The offset of a batch is the number of its log entry. Spark divides files into tasks by their sizes and
by the machine, so a batch that Spark began and did not finish is left to Spark.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TextIO, cast
from urllib.parse import unquote, urlsplit

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError
from headrace.pipelines.lite.rows import JsonOffset, LiteRow, SlotReader, not_in_lite
from headrace.pipelines.plugins.columns import Column, Value
from headrace.pipelines.spark.running_batch import RunningBatch

_COMPACT_EVERY: Final = 10
_OPENERS: Final[Mapping[str, Callable[[Path, str], object]]] = {".gz": gzip.open, ".bz2": bz2.open}
# Codecs of Hadoop that Python lacks, or frames in another way.
_ONLY_IN_SPARK: Final = (".zst", ".lz4", ".snappy", ".deflate")
_HIDDEN: Final = ("_", ".")


class FileRows:
    columns: tuple[Column, ...] = (Column("value", "string"),)

    def __init__(self, end: End, directory: Path, checkpoint: Path) -> None:
        end.only("path", "format", "schema", "options")
        if (kind := end.text("format", "lines")) != "lines" or end.options():
            raise not_in_lite(end.place, f"its format is {kind}" if kind != "lines" else "it has options")
        path = Path(end.text("path"))
        self._path = path if path.is_absolute() else directory / path
        if not self._path.exists():
            raise OptionError(f"{end.place}: {self._path} does not exist")
        self._log = checkpoint / "sources" / "0"

    def initial(self) -> JsonOffset:
        return {"logOffset": -1}

    def _files(self) -> list[Path]:
        if self._path.is_file():
            return [self._path]
        found = [file for file in self._path.iterdir() if file.is_file() and not file.name.startswith(_HIDDEN)]
        return sorted(found, key=lambda file: (file.stat().st_mtime_ns, file.name))

    def latest(self, start: JsonOffset, until: JsonOffset | None) -> JsonOffset:
        number = self._last()
        if number > start["logOffset"]:
            # The process died after it had listed the files and before it began the batch.
            return {"logOffset": number}
        seen = {entry["path"] for entry in self._entries(0, number)}
        new = [file for file in self._files() if _uri(file) not in seen]
        if not new:
            return start
        # Before the batch begins, so that Spark can take it.
        if other := next((file for file in new if file.suffix in _ONLY_IN_SPARK), None):
            raise not_in_lite(str(other), f"it is compressed ({other.suffix})")
        number += 1
        stat = [{"path": _uri(file), "timestamp": int(file.stat().st_mtime * 1000), "batchId": number} for file in new]
        is_compact = (number + 1) % _COMPACT_EVERY == 0
        entries = [*self._entries(0, number - 1), *stat] if is_compact else stat
        self._write(f"{number}.compact" if is_compact else str(number), entries)
        return {"logOffset": number}

    def end(self) -> JsonOffset | None:
        return None

    def _last(self) -> int:
        names = [file.name.split(".")[0] for file in self._log.glob("*") if file.name[0].isdigit()]
        return max(map(int, names), default=-1)

    def _entries(self, first: int, last: int) -> list[dict[str, Value]]:
        """Log entries of the batches `first` to `last`."""
        found: dict[str, dict[str, Value]] = {}
        for number in range(last + 1):
            for name in (f"{number}.compact", str(number)):
                file = self._log / name
                if file.exists():
                    for line in file.read_text().splitlines()[1:]:
                        entry = json.loads(line)
                        found.setdefault(entry["path"], entry)
        return [entry for entry in found.values() if first <= entry["batchId"] <= last]

    def _write(self, name: str, entries: list[dict[str, Value]]) -> None:
        self._log.mkdir(parents=True, exist_ok=True)
        (self._log / f".{name}.crc").unlink(missing_ok=True)
        fresh = self._log / f".{name}.new"
        fresh.write_text("\n".join(["v1", *[json.dumps(entry, separators=(",", ":")) for entry in entries]]))
        fresh.replace(self._log / name)

    def slots(self, start: JsonOffset, end: JsonOffset, batch: RunningBatch) -> Sequence[SlotReader]:
        def read() -> Iterator[LiteRow]:
            for entry in self._entries(start["logOffset"] + 1, end["logOffset"]):
                with _opened(Path(unquote(urlsplit(entry["path"]).path))) as file:
                    for line in file:
                        yield {"value": line.rstrip("\n")}

        return [read]

    def committed(self, end: JsonOffset) -> None:
        pass

    def close(self) -> None:
        pass


def _opened(file: Path) -> TextIO:
    """The text of a file as Spark reads it: decompressed by the ending of its name, without a byte order mark."""
    data = _OPENERS.get(file.suffix, open)(file, "rb")
    return io.TextIOWrapper(cast("BinaryIO", data), encoding="utf-8-sig", errors="replace", newline=None)


def _uri(file: Path) -> str:
    return f"file://{file.resolve().as_uri().removeprefix('file://')}"
