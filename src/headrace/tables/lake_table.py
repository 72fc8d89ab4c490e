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

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
PARQUET: Final = "parquet"
FORMATS: Final = (DELTA, ICEBERG, PARQUET)
APPEND: Final = "append"
UPSERT: Final = "upsert-by-key"
MODES: Final = (APPEND, UPSERT)
DAY: Final = "day(timestamp)"
PARTITIONINGS: Final = ("", DAY, "partition")
DAY_COLUMN: Final = "day"
REGISTRY: Final = "registry"
STOP: Final = "stop"
DEAD_LETTERS: Final = "dead-letters"


@dataclass(frozen=True)
class LakeTable:
    topic: str
    topic_id: str
    path: str
    mode: str = APPEND
    partition_by: str = ""
    # SQL expressions over Kafka's columns, for example "key, CAST(value AS STRING) AS text". Empty: Kafka's columns.
    # "registry": the fields of the value's schema.
    columns: str = ""
    format: str = DELTA
    # Iceberg: address of the catalog, a database (sqlite:///…, postgresql://…) or a REST catalog (https://…).
    catalog: str = ""
    # Address of the schema registry, for the columns "registry".
    registry: str = ""
    # What happens if a newer schema does not fit the table: "stop" the table, or send the records to "dead-letters".
    incompatible: str = STOP
    # A batch has at most this many records, so a backfill is many commits and goes on where it was stopped.
    records_per_commit: int = 1_000_000
    # Small files are joined and old versions removed after this many commits of a run. 0: never.
    compact_every: int = 500
    target_size_mib: int = 128
    # Files that a version of these last hours needs are kept.
    keep_hours: int = 168
    # The first offset of partition 0, 1 …, if the table does not begin at the first record of its topic.
    begins_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OptionError(f"mode {self.mode!r} is unknown{nearest(self.mode, MODES)}: choose {', '.join(MODES)}")
        if self.format not in FORMATS:
            raise OptionError(
                f"format {self.format!r} is unknown{nearest(self.format, FORMATS)}: choose {', '.join(FORMATS)}"
            )
        if self.format == ICEBERG and not self.catalog:
            raise OptionError("format iceberg needs a catalog: give catalog, for example sqlite:////lake/catalog.db")
        if self.mode == UPSERT and self.format == PARQUET:
            raise OptionError(f"mode {UPSERT} changes rows, which format parquet cannot: choose delta or iceberg")
        if self.columns == REGISTRY and not self.registry:
            raise OptionError("columns registry needs the address of the schema registry: give registry")
        if self.partition_by not in PARTITIONINGS:
            raise OptionError(f"partition-by {self.partition_by!r}: must be {DAY} or partition")
        if self.mode == UPSERT and (self.partition_by or self.columns not in ("", REGISTRY)):
            raise OptionError(
                f"mode {UPSERT} has Kafka's columns or those of the registry, in one folder: leave out partition-by, "
                "and choose columns kafka or registry"
            )
        if self.incompatible not in (STOP, DEAD_LETTERS):
            raise OptionError(f"incompatible {self.incompatible!r}: must be {STOP} or {DEAD_LETTERS}")

    @property
    def has_kafka_columns(self) -> bool:
        """Whether the table holds every record with Kafka's columns, so that table and topic are one relation."""
        return self.mode == APPEND and not self.columns

    @property
    def has_registry_columns(self) -> bool:
        return self.columns == REGISTRY

    @property
    def partition_columns(self) -> list[str]:
        """The columns whose values are folders. Iceberg computes the day itself, from the time of the record."""
        return [] if not self.partition_by else [DAY_COLUMN if self.partition_by == DAY else self._partition_column]

    @property
    def _partition_column(self) -> str:
        return "_partition" if self.has_registry_columns else "partition"


_FILE: Final = '''"""Topic {topic} as a table. 'headrace tables create' wrote this file; you may change it."""

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
    values = [(item.name, getattr(table, item.name)) for item in fields(table)]
    defaults = {item.name: item.default for item in fields(table)}
    arguments = "\n".join(f"    {name}={value!r}," for name, value in values if value != defaults[name])
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
