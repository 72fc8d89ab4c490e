"""Changes of the bank's database become records; large transactions become alerts, exactly once."""

# mypy: disable-error-code="untyped-decorator"

from collections.abc import Iterator

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from headrace.demos.streams import json_stream, keyed
from headrace.pipelines.brokers import broker_options
from headrace.pipelines.connectors.cdc.source import ChangeSource

spark = SparkSession.active()
BROKERS = broker_options(spark)
spark.dataSource.register(ChangeSource)
CHANGE = "kind string, account string, id long, cents long, at_ms long, position long, number int"

for topic in ("bank-changes", "bank-thresholds", "bank-alerts"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


@dp.append_flow(target="bank_changes")
def captured() -> DataFrame:
    # Both tables in one topic with the account as key: a transaction and the threshold before it keep their order.
    changes = (
        spark.readStream.format("headrace_cdc")
        .option("url", spark.conf.get("headrace.demo.database"))
        .option("tables", "transactions,thresholds")
        .option("slot", "headrace_bank")
        .load()
    )
    row = f.from_json("after", "account string, id long, cents long, at_ms long")
    rows = changes.where("after is not null").select("table", row.alias("v"), "position", "number")
    kind = f.regexp_extract("table", r"(\w+)$", 1).alias("kind")
    rows = rows.select(kind, "v.account", "v.id", "v.cents", "v.at_ms", "position", "number")
    return keyed(rows, f.col("account"), "kind", "account", "id", "cents", "at_ms", "position", "number")


# The table of thresholds is for people and may be some seconds old. Between its batches the alerts have all cores.
@dp.append_flow(target="bank_thresholds", spark_conf={"headrace.trigger.interval": "5 seconds"})
def thresholds() -> DataFrame:
    chosen = json_stream("bank-changes", CHANGE, required="account").where("kind = 'thresholds'")
    latest = chosen.groupBy("account").agg(f.max(f.struct("position", "number", "cents")).alias("last"))
    return keyed(latest, f.col("account"), "last.cents")


class LargeTransactions(StatefulProcessor):  # type: ignore[misc]
    """The state of an account is its threshold. Changes are taken in the order of the database's own log."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.threshold = handle.getValueState("threshold", "cents long")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802,N803
        known = self.threshold.get()
        limit = None if known is None else known[0]
        for row in sorted(rows, key=lambda each: (each.position, each.number)):
            if row.kind == "thresholds":
                limit = row.cents
            elif limit is not None and row.cents > limit:
                yield Row(id=row.id, account=row.account, cents=row.cents, threshold=limit, at_ms=row.at_ms)
        if limit is not None:
            self.threshold.update((limit,))

    def close(self) -> None:
        pass


@dp.append_flow(target="bank_alerts")
def alerts() -> DataFrame:
    changes = json_stream("bank-changes", CHANGE, required="account")
    large = changes.groupBy("account").transformWithState(
        statefulProcessor=LargeTransactions(),
        outputStructType="id long, account string, cents long, threshold long, at_ms long",
        outputMode="Append",
        timeMode="None",
    )
    return keyed(large, f.col("account"), "id", "account", "cents", "threshold", "at_ms")
