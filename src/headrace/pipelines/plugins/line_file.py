"""One text file that grows: its new lines as rows, and rows as lines at its end.

    from:
      lines: {path: /var/log/app.log}
    to:
      lines: {path: out.txt, value: line}

Source: the offset is the position after the last whole line. A line without its end waits until it is whole. A file
that became shorter was replaced, and the connector stops: the lines between are not known.

Sink: a file beside the target, `.<name>.headrace`, has the length before the batch. A repeated batch cuts the target to
that length first, so every batch is there once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from headrace.kernel.plurals import counted
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import DataLossError, OptionError, PipelineError
from headrace.pipelines.plugins.api import Batch, Chunk, Ledger, Offset, Sink, Source
from headrace.pipelines.plugins.plain_json import to_text

_BYTES_AT_ONCE: Final = 1 << 20


class LineSource(Source):
    def __init__(self, settings: End) -> None:
        super().__init__(settings.only("path"))
        self._path = Path(settings.text("path"))

    def columns(self) -> str:
        return "value string"

    def read(self, offset: Offset | None) -> Chunk:
        position = int((offset or {}).get("position", 0))
        try:
            with self._path.open("rb") as file:
                length = os.fstat(file.fileno()).st_size
                if length < position:
                    raise DataLossError(
                        f"{self.settings.place}: {self._path} has {counted(length, 'byte')}, but {position} were read: "
                        "it was replaced. Reset the connector to read the new file"
                    )
                file.seek(position)
                data = file.read(_BYTES_AT_ONCE)
        except FileNotFoundError:
            # As with Kafka's connector, the file may appear later.
            return Chunk([], offset)
        except OSError as error:
            raise PipelineError(f"{self.settings.place}: {self._path}: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == _BYTES_AT_ONCE:
            raise PipelineError(
                f"{self.settings.place}: a line of {self._path} is longer than {counted(_BYTES_AT_ONCE, 'byte')}"
            )
        lines = whole.decode(errors="replace").split("\n")[:-1]
        return Chunk([{"value": line.removesuffix("\r")} for line in lines], {"position": position + len(whole)})


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
