"""Totals of likes and comments per post, and the activity of every post in windows of ten seconds.

The trending list is made from the windows: a window counts half as much as a window one minute later.
"""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)


@dp.temporary_view
def reactions() -> DataFrame:
    # A malformed record has no time. It is counted nowhere.
    return json_stream("likes,comments", "post string, at long", required="at").where("post is not null")


dp.create_sink("post_totals", "headrace", {**BROKERS, "topic": "post-totals"})
dp.create_sink("post_activity", "headrace", {**BROKERS, "topic": "post-activity"})


@dp.append_flow(target="post_totals")
def totals() -> DataFrame:
    per_post = (
        spark.readStream.table("reactions")
        .groupBy("post")
        .agg(
            f.count_if(f.col("topic") == "likes").alias("likes"),
            f.count_if(f.col("topic") == "comments").alias("comments"),
        )
    )
    return keyed(per_post, f.col("post"), "likes", "comments")


@dp.append_flow(target="post_activity")
def activity() -> DataFrame:
    # Without a watermark Spark writes a window again whenever it changes. With one it would write each window once,
    # when no late reaction can change it any more: right for a report, too late for a trending list.
    counts = spark.readStream.table("reactions").groupBy(f.window("at", "10 seconds").alias("w"), "post").count()
    start = millis("w.start")
    key = f.concat_ws("|", "post", start.cast("string"))
    return keyed(counts, key, "post", start.alias("start"), f.col("count").alias("reactions"))
