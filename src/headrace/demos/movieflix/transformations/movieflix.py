"""Positions to resume from, live profiles of users, and titles that are watched together."""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
WATCHED = "user string, title string, genre string, device string, second int, at long"

for topic in ("watch-positions", "user-profiles", "watched-together", "recommendations"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


@dp.append_flow(target="watch_positions")
def positions() -> DataFrame:
    # The latest report of every user and title by event time. A second device resumes from it.
    latest = (
        json_stream("watch-events", WATCHED, required="at")
        .groupBy("user", "title")
        .agg(f.max(f.struct("at", "second", "device")).alias("last"))
    )
    return keyed(latest, f.concat_ws("|", "user", "title"), "last.second", "last.device", millis("last.at").alias("at"))


@dp.append_flow(target="user_profiles")
def profiles() -> DataFrame:
    watched = (
        json_stream("watch-events", WATCHED, required="at")
        .groupBy("user")
        .agg(
            f.count("*").alias("reports"),
            f.expr("count_if(genre = 'drama')").alias("drama"),
            f.expr("count_if(genre = 'comedy')").alias("comedy"),
            f.expr("count_if(genre = 'crime')").alias("crime"),
        )
    )
    return keyed(watched, f.col("user"), "reports", "drama", "comedy", "crime")


@dp.append_flow(target="watched_together")
def pairs() -> DataFrame:
    # Two titles that one user started within ten seconds (an evening, in a real service).
    one = json_stream("viewings", "user string, title string, at long", required="at").withWatermark("at", "1 hour")
    two = one.select(f.col("user").alias("user2"), f.col("title").alias("title2"), f.col("at").alias("at2"))
    near = f.expr(
        "user = user2 and title <> title2 and at2 between at - interval 10 seconds and at + interval 10 seconds"
    )
    return keyed(one.join(two, near), f.col("title"), "title", f.col("title2").alias("next"))


@dp.append_flow(target="recommendations")
def recommendations() -> DataFrame:
    together = json_stream("watched-together", "title string, next string", required="next")
    counts = together.groupBy("title", "next").count()
    return keyed(counts, f.concat_ws("|", "title", "next"), "count")


@dp.table
def watched() -> DataFrame:
    # Everything, as a Parquet table for analytics.
    return json_stream("watch-events", WATCHED, required="at")
