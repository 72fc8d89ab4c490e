"""Two campaigns compared. A conversion belongs to the campaign of the impression that was clicked.

The click is joined to its impression, and the conversion to its click, in event time and with late data.
"""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
# The joins keep state for so long. Later clicks and conversions are not counted.
LATENESS = "1 hour"


def events(topic: str, schema: str, time: str) -> DataFrame:
    rows = (
        spark.readStream.format("headrace")
        .options(**BROKERS)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    value = f.from_json(f.col("value").cast("string"), schema)
    return (
        rows.select(value.alias("v"))
        .where("v.at is not null")
        .select("v.*", f.timestamp_millis("v.at").alias(time))
        .drop("at")
        .withWatermark(time, LATENESS)
    )


def json(*columns: str) -> f.Column:
    return f.to_json(f.struct(*columns))


dp.create_sink("attributed", "headrace", {**BROKERS, "topic": "campaign-events"})
dp.create_sink("figures", "headrace", {**BROKERS, "topic": "campaign-figures"})


@dp.append_flow(target="attributed")
def shown() -> DataFrame:
    impressions = events("impressions", "impression string, campaign string, at long", "shown_at")
    kind = f.lit("impression").alias("kind")
    return impressions.select(kind, "campaign", f.col("impression").alias("id"), f.lit(0.0).alias("amount")).select(
        f.col("campaign").alias("key"), json("kind", "campaign", "id", "amount").alias("value")
    )


@dp.append_flow(target="attributed")
def clicked() -> DataFrame:
    impressions = events("impressions", "impression string, campaign string, at long", "shown_at")
    clicks = events("clicks", "click string, impression string, at long", "clicked_at")
    joined = clicks.join(
        impressions.withColumnRenamed("impression", "of"),
        f.expr("impression = of and clicked_at >= shown_at and clicked_at <= shown_at + interval 30 minutes"),
    )
    kind = f.lit("click").alias("kind")
    return joined.select(kind, "campaign", f.col("click").alias("id"), f.lit(0.0).alias("amount")).select(
        f.col("campaign").alias("key"), json("kind", "campaign", "id", "amount").alias("value")
    )


@dp.append_flow(target="attributed")
def converted() -> DataFrame:
    clicks = events("clicks", "click string, campaign string, at long", "clicked_at").dropDuplicates(
        ["click", "clicked_at"]
    )
    conversions = events("conversions", "click string, amount double, at long", "converted_at")
    joined = conversions.withColumnRenamed("click", "of").join(
        clicks, f.expr("of = click and converted_at >= clicked_at and converted_at <= clicked_at + interval 30 minutes")
    )
    kind = f.lit("conversion").alias("kind")
    return joined.select(kind, "campaign", f.col("click").alias("id"), "amount").select(
        f.col("campaign").alias("key"), json("kind", "campaign", "id", "amount").alias("value")
    )


@dp.append_flow(target="figures")
def compared() -> DataFrame:
    rows = (
        spark.readStream.format("headrace")
        .options(**BROKERS)
        .option("subscribe", "campaign-events")
        .option("startingOffsets", "earliest")
        .load()
    )
    value = f.from_json(f.col("value").cast("string"), "kind string, campaign string, id string, amount double")
    rows = rows.select(value.alias("v")).select("v.*")
    figures = rows.groupBy("campaign").agg(
        f.count_if(f.col("kind") == "impression").alias("impressions"),
        f.count_if(f.col("kind") == "click").alias("clicks"),
        f.count_if(f.col("kind") == "conversion").alias("conversions"),
        f.round(f.sum("amount"), 2).alias("amount"),
    )
    return figures.select(
        f.col("campaign").alias("key"), json("impressions", "clicks", "conversions", "amount").alias("value")
    )
