"""Totals of likes and comments per post, and the activity of every post in windows of ten seconds.

The trending list is made from the windows: a window counts half as much as a window one minute later.
"""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)


def events(topic: str) -> DataFrame:
    rows = (
        spark.readStream.format("headrace")
        .options(**BROKERS)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    value = f.from_json(f.col("value").cast("string"), "post string, at long")
    # A malformed record gives null. It is counted nowhere.
    event = rows.select(value.alias("v"), f.lit(topic).alias("kind")).where("v.post is not null and v.at is not null")
    return event.select("kind", "v.post", f.timestamp_millis("v.at").alias("at"))


@dp.temporary_view
def reactions() -> DataFrame:
    return events("likes").unionAll(events("comments"))


dp.create_sink("post_totals", "headrace", {**BROKERS, "topic": "post-totals"})
dp.create_sink("post_activity", "headrace", {**BROKERS, "topic": "post-activity"})


@dp.append_flow(target="post_totals")
def totals() -> DataFrame:
    per_post = (
        spark.readStream.table("reactions")
        .groupBy("post")
        .agg(
            f.count_if(f.col("kind") == "likes").alias("likes"),
            f.count_if(f.col("kind") == "comments").alias("comments"),
        )
    )
    return per_post.select(f.col("post").alias("key"), f.to_json(f.struct("likes", "comments")).alias("value"))


@dp.append_flow(target="post_activity")
def activity() -> DataFrame:
    # Without a watermark Spark writes a window again whenever it changes. With one it would write each window once,
    # when no late reaction can change it any more: right for a report, too late for a trending list.
    counts = spark.readStream.table("reactions").groupBy(f.window("at", "10 seconds").alias("w"), "post").count()
    start = f.unix_millis(f.col("w.start"))
    return counts.select(
        f.concat_ws("|", "post", start.cast("string")).alias("key"),
        f.to_json(f.struct("post", start.alias("start"), f.col("count").alias("reactions"))).alias("value"),
    )
