"""Metrics of hosts: downsampled to ten seconds, and an alert for every value above the limit."""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
REPORT = "host string, cpu double, at long"

for topic in ("host-averages", "host-alerts"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


@dp.append_flow(target="host_averages")
def averages() -> DataFrame:
    windows = json_stream("host-metrics", REPORT, required="cpu").groupBy(
        f.window("at", "10 seconds").alias("w"), "host"
    )
    figures = windows.agg(
        f.round(f.sum("cpu"), 1).alias("sum"), f.max("cpu").alias("max"), f.count("*").alias("reports")
    )
    start = millis("w.start")
    return keyed(figures, f.concat_ws("|", "host", start.cast("string")), "sum", "max", "reports")


@dp.append_flow(target="host_alerts")
def alerts() -> DataFrame:
    high = json_stream("host-metrics", REPORT, required="cpu").where("cpu > 95")
    return keyed(high, f.col("host"), "host", "cpu", millis("at").alias("at"))
