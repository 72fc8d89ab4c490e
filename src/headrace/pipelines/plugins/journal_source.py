"""`format("headrace_plugin")`: a `Source` as a stream in Spark, through its journal.

Offsets are numbers of journal entries. The Python process that Spark keeps for a query on the driver reads the source
and writes the journal. The rows of a batch travel to the task inside its partition, so executors on other machines need
neither the journal nor a connection to the source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.plugins.api import Source
from headrace.pipelines.plugins.catalogue import open_source
from headrace.pipelines.plugins.columns import Column, Value, parse_columns, row_from_json
from headrace.pipelines.plugins.journal import Journal
from headrace.pipelines.plugins.journaled_reads import read_chunk
from headrace.pipelines.spark.closed_session import leave_closed_session


class PluginSource(DataSource):  # type: ignore[misc]
    """Options: kind, settings (JSON), place (for messages), journal (a directory)."""

    @classmethod
    def name(cls) -> str:
        return "headrace_plugin"

    def _end(self) -> End:
        return End(self.options["kind"], json.loads(self.options["settings"]), self.options["place"])

    def schema(self) -> str:
        source = open_source(self._end())
        try:
            return ", ".join(f"`{column.name}` {column.kind}" for column in parse_columns(source.columns()))
        finally:
            source.close()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        columns = tuple(Column(field.name, field.dataType.simpleString()) for field in schema.fields)
        return JournalReader(self._end(), columns, Path(self.options["journal"]))


class JournalReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, end: End, columns: tuple[Column, ...], journal: Path) -> None:
        self.end, self.columns, self.journal = end, columns, Journal(journal)
        # Opened in the process that reads. Spark sends this object to executors, which never need it.
        self._source: Source | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_source": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"entry": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """A run over the existing rows ends at the first read without rows."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        last = self.journal.last()
        if last <= start["entry"]:
            if self._source is None:
                self._source = open_source(self.end)
            last = read_chunk(self._source, self.columns, self.journal)
        return {"entry": max(last, start["entry"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        # One task: a source has one order, and a repeated batch has the same task.
        if start == end:
            return []
        return [InputPartition([json.dumps(row) for row in self.journal.rows(start["entry"], end["entry"])])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Value, ...]]:
        for line in partition.value:
            yield row_from_json(self.columns, json.loads(line))

    def commit(self, end: dict[str, int]) -> None:
        self.journal.forget(end["entry"])

    def stop(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
        leave_closed_session()
