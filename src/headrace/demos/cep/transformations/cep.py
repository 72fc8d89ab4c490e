"""A pattern over events: one card is used in two countries within one second (minutes, for real cards)."""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)

dp.create_sink("card_alerts", "headrace", {**BROKERS, "topic": "card-alerts"})


@dp.append_flow(target="card_alerts")
def two_countries() -> DataFrame:
    schema = "payment string, card string, country string, amount double, at long"
    first = json_stream("card-payments", schema, required="at").withWatermark("at", "10 minutes")
    second = first.select(
        f.col("payment").alias("payment2"),
        f.col("card").alias("card2"),
        f.col("country").alias("country2"),
        f.col("at").alias("at2"),
    )
    pattern = f.expr("card = card2 and country <> country2 and at2 > at and at2 <= at + interval 1 second")
    pairs = first.join(second, pattern)
    return keyed(pairs, f.col("card"), "card", "payment", "payment2", "country", "country2", millis("at2").alias("at"))
