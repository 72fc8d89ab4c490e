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
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
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
    """Good rows as JSON. A tombstone stays a tombstone, under the key of its record."""
    body = f.when(~f.col("_deleted"), f.to_json(f.struct("id", "amount")))
    return spark.readStream.table("orders").where("_error is null").select(
        f.coalesce("id", f.col("_source.key").cast("string")).alias("key"), body.alias("value")
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
# A test of each template, for 'headrace pipeline test'.
_TESTS: Final = {
    "copy": """name: records arrive in capitals
input:
  input: [{key: a, value: hello}, {value: world}]
output:
  output: [{key: a, value: HELLO}, {value: WORLD}]
""",
    "json": """name: good rows are checked, bad rows become dead letters
input:
  orders:
    - {value: {id: a, amount: 2.5}}
    - {value: not json}
    - {key: b}
output:
  orders-checked: [{key: a, value: {id: a, amount: 2.5}}, {key: b}]
  orders.dlq: [{value: not json}]
""",
    "lake": """name: events become rows of the table
input:
  events: [{key: a, value: x, timestamp: 2026-01-31T12:00:00Z}]
output:
  events: [{value: {key: a, value: x, partition: 0, offset: 0, timestamp: "2026-01-31T12:00:00.000Z"}}]
""",
    "wordcount": """name: words are counted
input:
  streams-plaintext-input: [{value: all streams lead to kafka}, {value: hello kafka}]
output:
  streams-wordcount-output:
    - {key: all, value: "0x0000000000000001"}
    - {key: streams, value: "0x0000000000000001"}
    - {key: lead, value: "0x0000000000000001"}
    - {key: to, value: "0x0000000000000001"}
    - {key: hello, value: "0x0000000000000001"}
    - {key: kafka, value: "0x0000000000000002"}
""",
}
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
    (directory / "tests").mkdir()
    written.append(directory / "tests" / "example.yml")
    written[-1].write_text(_TESTS[template])
    return written
