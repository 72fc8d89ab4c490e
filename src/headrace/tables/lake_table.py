"""The definition of a table: one Python file in the transformations of a pipeline directory.

    TABLE = LakeTable(topic="orders", topic_id="…", path="/lake/orders")

`headrace tables create` writes the file, a person may change it, and `headrace tables ls` reads its literals without
running it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from headrace.pipelines.errors import OptionError, nearest

APPEND: Final = "append"
UPSERT: Final = "upsert-by-key"
MODES: Final = (APPEND, UPSERT)
DAY: Final = "day(timestamp)"
PARTITIONINGS: Final = ("", DAY, "partition")
DAY_COLUMN: Final = "day"


@dataclass(frozen=True)
class LakeTable:
    topic: str
    topic_id: str
    path: str
    mode: str = APPEND
    partition_by: str = ""
    # SQL expressions over Kafka's columns, for example "key, CAST(value AS STRING) AS text". Empty: Kafka's columns.
    columns: str = ""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OptionError(f"mode {self.mode!r} is unknown{nearest(self.mode, MODES)}: choose {', '.join(MODES)}")
        if self.partition_by not in PARTITIONINGS:
            raise OptionError(f"partition-by {self.partition_by!r}: must be {DAY} or partition")
        if self.mode == UPSERT and (self.partition_by or self.columns):
            raise OptionError(f"mode {UPSERT} keeps Kafka's columns in one folder: leave out partition-by and columns")

    @property
    def has_kafka_columns(self) -> bool:
        """Whether the table holds every record with Kafka's columns, so that table and topic are one relation."""
        return self.mode == APPEND and not self.columns

    @property
    def partition_columns(self) -> list[str]:
        return [] if not self.partition_by else [DAY_COLUMN if self.partition_by == DAY else self.partition_by]


_FILE: Final = '''"""Topic {topic} as a Delta table. 'headrace tables create' wrote this file; you may change it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from headrace.tables.lake_table import LakeTable
from headrace.tables.table_sink import create_table_sink, topic_rows

spark = SparkSession.active()
TABLE = LakeTable(
{arguments}
)
create_table_sink({name!r}, TABLE)


@dp.append_flow(target={name!r}, name={name!r})
def rows() -> DataFrame:
    """The records that the table does not hold yet."""
    return topic_rows(spark, TABLE)
'''


def definition_text(table: LakeTable) -> str:
    values = [(field.name, getattr(table, field.name)) for field in fields(table)]
    arguments = "\n".join(f"    {name}={value!r}," for name, value in values if value != "")
    return _FILE.format(topic=table.topic, name=table.topic, arguments=arguments)


def read_definition(file: Path) -> LakeTable:
    """The table of a definition file. Raises OptionError if the file does not name its settings as literals."""
    try:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LakeTable":
                return LakeTable(**{str(word.arg): ast.literal_eval(word.value) for word in node.keywords})
    except (SyntaxError, ValueError, TypeError) as error:
        raise OptionError(f"{file}: {error}") from error
    raise OptionError(f"{file}: no TABLE = LakeTable(…) with literal settings")
