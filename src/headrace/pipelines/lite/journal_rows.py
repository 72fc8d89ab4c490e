"""Rows of a plugin, through the journal that Spark's reader has, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.lite.rows import JsonOffset, LiteRow, SlotReader
from headrace.pipelines.plugins.catalogue import open_source
from headrace.pipelines.plugins.columns import parse_columns, row_from_json
from headrace.pipelines.plugins.journal import Journal
from headrace.pipelines.plugins.journaled_reads import read_chunk
from headrace.pipelines.spark.running_batch import RunningBatch


class JournalRows:
    def __init__(self, end: End, journal: Path) -> None:
        self._source = open_source(end)
        self.columns = parse_columns(self._source.columns())
        self._journal = Journal(journal)

    def initial(self) -> JsonOffset:
        return {"entry": 0}

    def latest(self, start: JsonOffset, until: JsonOffset | None) -> JsonOffset:
        last = self._journal.last()
        if last <= start["entry"]:
            last = read_chunk(self._source, self.columns, self._journal)
        return {"entry": max(last, start["entry"])}

    def end(self) -> JsonOffset | None:
        return None

    def slots(self, start: JsonOffset, end: JsonOffset, batch: RunningBatch) -> Sequence[SlotReader]:
        names = [column.name for column in self.columns]

        def read() -> Iterator[LiteRow]:
            for values in self._journal.rows(start["entry"], end["entry"]):
                yield dict(zip(names, row_from_json(self.columns, values), strict=True))

        return [read]

    def committed(self, end: JsonOffset) -> None:
        self._journal.forget(end["entry"])

    def close(self) -> None:
        self._source.close()
