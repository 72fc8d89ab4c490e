"""Log lines in one standard format, and counts per service and level."""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import keyed
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)

for topic in ("logs", "log-counts"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


def parsed() -> DataFrame:
    """Every line becomes a record of the standard format. A line that cannot be read has the level UNREADABLE."""
    rows = (
        spark.readStream.format("headrace")
        .options(**BROKERS)
        .option("subscribe", "log-lines")
        .option("startingOffsets", "earliest")
        .load()
    )
    line = f.col("value").cast("string")
    value = f.from_json(line, "service string, level string, code int, text string, at string")
    good = f.col("v.text").isNotNull() & f.col("v.at").isNotNull()
    return rows.select(value.alias("v"), f.col("key").cast("string").alias("service"), line.alias("line")).select(
        "service",
        f.when(good, f.col("v.level")).otherwise(f.lit("UNREADABLE")).alias("level"),
        f.when(good, f.concat_ws(" ", "v.code", "v.text")).otherwise(f.col("line")).alias("message"),
    )


@dp.append_flow(target="logs")
def standard() -> DataFrame:
    return keyed(parsed(), f.col("service"), "service", "level", "message")


@dp.append_flow(target="log_counts")
def counts() -> DataFrame:
    return keyed(parsed().groupBy("service", "level").count(), f.concat_ws("|", "service", "level"), "count")
