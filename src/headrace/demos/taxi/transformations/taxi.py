"""Matches of riders and drivers, surge prices per zone, and the exact cost of every ride from its positions."""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
POSITION = "x double, y double, at long"
ZONE = f.concat_ws("-", (f.col("x") / 5).cast("int"), (f.col("y") / 5).cast("int"))

for topic in ("match-candidates", "matches", "zone-demand", "ride-costs"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


def free_drivers() -> DataFrame:
    reports = json_stream("driver-positions", f"driver string, state string, {POSITION}", required="at")
    return reports.where("state = 'free'")


@dp.append_flow(target="match_candidates")
def candidates() -> DataFrame:
    # Free drivers in the rider's zone that reported a position at most two seconds before the request, within three
    # kilometres. Spark joins streams by an equality; the zone is the one that spreads the work.
    drivers = free_drivers().withWatermark("at", "10 minutes")
    riders = json_stream("ride-requests", f"request string, {POSITION}", required="at").withWatermark(
        "at", "10 minutes"
    )
    seen = drivers.select(
        "driver", ZONE.alias("of"), f.col("x").alias("dx"), f.col("y").alias("dy"), f.col("at").alias("seen_at")
    )
    near = f.expr(
        "zone = of and seen_at <= at and seen_at >= at - interval 2 seconds and "
        "abs(x - dx) <= 3 and abs(y - dy) <= 3 and (x - dx) * (x - dx) + (y - dy) * (y - dy) <= 9"
    )
    far = f.round(f.sqrt(f.expr("(x - dx) * (x - dx) + (y - dy) * (y - dy)")), 6).alias("km")
    joined = riders.withColumn("zone", ZONE).join(seen, near)
    return keyed(joined, f.col("request"), "request", "driver", far, "x", "y", "dx", "dy")


@dp.append_flow(target="matches")
def nearest() -> DataFrame:
    places = "x double, y double, dx double, dy double"
    found = json_stream("match-candidates", f"request string, driver string, km double, {places}", required="driver")
    best = found.groupBy("request").agg(f.min(f.struct("km", "driver", "dx", "dy", "x", "y")).alias("best"))
    return keyed(best, f.col("request"), "best.driver", "best.km", "best.x", "best.y", "best.dx", "best.dy")


@dp.append_flow(target="zone_demand")
def demand() -> DataFrame:
    # Requests and reports of free drivers per zone of 5 x 5 km and ten seconds. A free driver reports about every two
    # seconds, so five reports are one driver. The price factor is 1 with a driver for each rider, and at most 3.
    both = json_stream("ride-requests,driver-positions", f"state string, {POSITION}", required="at")
    counts = both.groupBy(f.window("at", "10 seconds").alias("w"), ZONE.alias("zone")).agg(
        f.count_if(f.col("topic") == "ride-requests").alias("riders"),
        f.count_if(f.col("state") == "free").alias("drivers"),
    )
    counts = counts.where("riders + drivers > 0")
    start = millis("w.start")
    surge = f.expr("least(3D, greatest(1D, 5 * riders / greatest(drivers, 1)))")
    return keyed(
        counts,
        f.concat_ws("|", "zone", start.cast("string")),
        "zone", start.alias("start"), "riders", "drivers", surge.alias("surge"),
    )  # fmt: skip


@dp.append_flow(target="ride_costs")
def costs() -> DataFrame:
    positions = json_stream("ride-positions", f"ride string, {POSITION}", required="at")
    track = positions.groupBy("ride").agg(f.sort_array(f.collect_list(f.struct("at", "x", "y"))).alias("track"))
    km = f.expr(
        "aggregate(sequence(1, size(track) - 1), 0D, (sum, i) -> sum + if(size(track) < 2, 0D, "
        "sqrt(pow(track[i].x - track[i - 1].x, 2) + pow(track[i].y - track[i - 1].y, 2))))"
    )
    far = track.withColumn("km", km).withColumn("last", f.element_at("track", -1))
    cost = f.expr("3.0 + 1.8 * km").alias("cost")
    return keyed(far, f.col("ride"), f.size("track").alias("positions"), "km", cost, "last.x", "last.y")


@dp.table
def positions() -> DataFrame:
    # Every position before and during the rides, in the lake: the cost can be computed again at any time.
    return json_stream(
        "driver-positions,ride-positions", f"driver string, ride string, state string, {POSITION}", required="at"
    )
