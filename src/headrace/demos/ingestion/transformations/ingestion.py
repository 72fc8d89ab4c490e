"""A lake with three layers, and a speed layer that answers the same question at once."""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
READING = "reading string, sensor string, watts int, at long"

for topic in ("readings", "sensor-totals"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


@dp.table
def bronze() -> DataFrame:
    # Everything as it came, broken lines too, with the place in the topic: the lake can be built again from it.
    raw = (
        spark.readStream.format("headrace")
        .options(**BROKERS)
        .option("subscribe", "readings-raw")
        .option("startingOffsets", "earliest")
        .load()
    )
    return raw.select("partition", "offset", "timestamp", f.col("value").cast("string").alias("line"))


@dp.append_flow(target="readings")
def typed() -> DataFrame:
    rows = json_stream("readings-raw", READING, required="at").where("reading is not null and watts is not null")
    once = rows.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["reading"])
    return keyed(once, f.col("sensor"), "reading", "sensor", "watts", millis("at").alias("at"))


@dp.table
def silver() -> DataFrame:
    return json_stream("readings", READING, required="at")


@dp.materialized_view
def gold() -> DataFrame:
    # The batch layer: computed from all of silver, again and again.
    return totals(spark.read.table("silver"))


@dp.append_flow(target="sensor_totals")
def speed() -> DataFrame:
    # The speed layer: the same totals, kept up to date by every batch.
    return keyed(totals(json_stream("readings", READING, required="at")), f.col("sensor"), "readings", "watts", "peak")


def totals(readings: DataFrame) -> DataFrame:
    return readings.groupBy("sensor").agg(
        f.count("*").alias("readings"), f.sum("watts").alias("watts"), f.max("watts").alias("peak")
    )
