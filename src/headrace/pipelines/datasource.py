"""The data source class behind `format("headrace")`: batch and stream, reading and writing.

Spark finds this class through the top-level module `pyspark_headrace`. The class checks options on the driver before a
query starts. Readers and writers send only plain dataclasses to the executors.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

# For its effect in the processes that look up and create sources.
from headrace.pipelines.spark import closed_session as closed_session

_ROW = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class HeadraceDataSource(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "headrace"

    def _given(self) -> Mapping[str, str]:
        return dict(self.options)

    def schema(self) -> str | StructType:
        if any(name.lower() == "decode" for name in self._given()):
            from headrace.pipelines.options import decoding_of

            decoding = decoding_of(self._given())
            assert decoding is not None
            return decoding.spark_schema()
        text = next((value for name, value in self._given().items() if name.lower() == "includeheaders"), "false")
        return _ROW + (", headers array<struct<key: string, value: binary>>" if text.strip().lower() == "true" else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        from headrace.pipelines.options import SourceOptions
        from headrace.pipelines.source.reader import HeadraceReader

        options = SourceOptions.parse(self._given(), streaming=False).checked(schema)
        if options.history is None:
            return HeadraceReader(options)
        # Tables are a layer above pipelines, so the module is imported by name.
        found = importlib.import_module("headrace.tables.spark_history")
        reader: DataSourceReader = found.HistoryReader(options, options.history)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from headrace.pipelines.options import SourceOptions
        from headrace.pipelines.source.reader import HeadraceStreamReader

        options = SourceOptions.parse(self._given(), streaming=True).checked(schema)
        if options.history is None:
            return HeadraceStreamReader(options)
        found = importlib.import_module("headrace.tables.spark_history")
        reader: DataSourceStreamReader = found.HistoryStreamReader(options, options.history)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headrace.pipelines.sink.writer import HeadraceWriter

        return HeadraceWriter(self._given(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from headrace.pipelines.sink.writer import HeadraceStreamWriter

        return HeadraceStreamWriter(self._given(), schema)
