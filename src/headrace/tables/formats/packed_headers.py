"""Headers of records as JSON on their way from Spark to the tasks that write files.

Spark limits the bytes of the Arrow batches that it sends to Python. It measures a batch after each row, and for a list
of structs that takes longer than everything else a table does with a record. A text column is measured at once. The
task makes Kafka's headers of it again: same order, same names twice, null and empty as they were.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.serialization.arrow_records import HEADERS_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS: Final = "headers"
_SPARK_TYPE: Final = "array<struct<key:string,value:binary>>"


def has_headers(frame: DataFrame) -> bool:
    """Whether a column has Kafka's headers: a table with columns by SQL may give the name to something else."""
    return any(field.name == HEADERS and field.dataType.simpleString() == _SPARK_TYPE for field in frame.schema)


def packed(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.withColumn(HEADERS, f.to_json(HEADERS))


def unpacked(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index(HEADERS)
    texts = batch.column(at)
    if texts.null_count == len(texts):
        headers = pa.nulls(len(texts), HEADERS_TYPE)
    else:
        headers = pa.array([None if text is None else _pairs(text) for text in texts.to_pylist()], HEADERS_TYPE)
    return batch.set_column(at, pa.field(HEADERS, HEADERS_TYPE), headers)


def _pairs(text: str) -> list[dict[str, str | bytes | None]]:
    # Spark writes bytes as Base64, and leaves out a value that is null.
    return [
        {"key": one["key"], "value": b64decode(one["value"]) if "value" in one else None} for one in json.loads(text)
    ]
