"""Templates of `headrace pipeline init`: small pipelines that run without changes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.pipelines.errors import OptionError, PipelineError, nearest

WORDCOUNT: Final = Path(__file__).parent / "wordcount"
_SPEC: Final = """# Run with: headrace pipeline run . [--once]
name: {name}
storage: storage
configuration:
  headrace.bootstrap.servers: "localhost:9092"
libraries:
  - glob:
      include: transformations/**
"""
_HEAD: Final = '''"""{about}"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)  # headrace.bootstrap.servers and headrace.kafka.* of spark-pipeline.yml


def topic(name: str) -> DataFrame:
    return (
        spark.readStream.format(spark.conf.get("headrace.format", "headrace"))
        .options(**BROKERS)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .load()
    )
'''
_COPY: Final = '''

dp.create_sink("output", "headrace", {**BROKERS, "topic": "output"})


@dp.append_flow(target="output")
def shouted() -> DataFrame:
    """Every record of topic input, in capitals, to topic output."""
    return topic("input").select("key", f.upper(f.col("value").cast("string")).alias("value"))
'''
_JSON: Final = '''
from headrace.pipelines.decode import dead_letters, decode  # noqa: E402

dp.create_sink("good", "headrace", {**BROKERS, "topic": "orders-checked"})
dp.create_sink("bad", "headrace", BROKERS)


@dp.temporary_view
def orders() -> DataFrame:
    return decode(topic("orders"), "id string, amount double")


@dp.append_flow(target="good")
def checked() -> DataFrame:
    return spark.readStream.table("orders").where("_error is null").select(
        f.col("id").alias("key"), f.to_json(f.struct("id", "amount")).alias("value")
    )


@dp.append_flow(target="bad")
def letters() -> DataFrame:
    """Rows that are not what they should be go to orders.dlq, with the reason in a header."""
    return dead_letters(spark.readStream.table("orders"))
'''
_LAKE: Final = '''

@dp.table
def events() -> DataFrame:
    """Topic events as a table of Parquet files below the pipeline's storage."""
    return topic("events").select(
        f.col("key").cast("string"), f.col("value").cast("string"), "partition", "offset", "timestamp"
    )
'''
TEMPLATES: Final = {
    "copy": ("A topic to a topic, changed on the way", _COPY),
    "json": ("JSON checked on the way; bad rows to a dead-letter topic", _JSON),
    "lake": ("A topic to a table of Parquet files", _LAKE),
}


def init(directory: Path, template: str) -> list[Path]:
    """Writes a new pipeline. Never overwrites an existing one."""
    if template not in (*TEMPLATES, "wordcount"):
        names = sorted([*TEMPLATES, "wordcount"])
        raise OptionError(f"template {template!r} is unknown{nearest(template, names)}: choose {', '.join(names)}")
    if directory.exists() and any(directory.iterdir()):
        raise PipelineError(f"{directory} is not empty: choose another directory")
    if template == "wordcount":
        files = {"wordcount.py": (WORDCOUNT / "transformations" / "wordcount.py").read_text()}
    else:
        about, body = TEMPLATES[template]
        files = {f"{template}.py": _HEAD.format(about=about) + body}
    written = [directory / "spark-pipeline.yml"]
    (directory / "transformations").mkdir(parents=True)
    written[0].write_text(_SPEC.format(name=directory.resolve().name))
    for name, text in files.items():
        written.append(directory / "transformations" / name)
        written[-1].write_text(text)
    return written
