"""Counts words: every line of the input topic, every count to the output topic whenever it changes.

Keys are the words as text; values are counts as eight bytes, most significant first, which is how Kafka's
LongSerializer writes a long. The output topic is compacted, so that it always holds the latest count of each word.
"""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)


@dp.temporary_view
def words() -> DataFrame:
    lines = (
        spark.readStream.format(spark.conf.get("headrace.format", "headrace"))
        .options(**BROKERS)
        .option("subscribe", "streams-plaintext-input")
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    word = f.explode(f.split(f.lower(f.col("value").cast("string")), r"(?U)\W+"))
    return lines.select(word.alias("word")).where("word <> ''")


dp.create_sink("wordcount_output", "headrace", {**BROKERS, "topic": "streams-wordcount-output"})


@dp.append_flow(target="wordcount_output")
def counts() -> DataFrame:
    counted = spark.readStream.table("words").groupBy("word").count()
    as_long = f.unhex(f.lpad(f.hex("count"), 16, "0"))
    return counted.select(f.col("word").alias("key"), as_long.alias("value"))
