"""A pattern over events: one card is used in two countries within one second (minutes, for real cards)."""

# mypy: disable-error-code="untyped-decorator"

from collections.abc import Iterator

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
WITHIN_MS = 1000
PAYMENT = "payment string, card string, country string, amount double, at long"
ALERT = "card string, payment string, payment2 string, country string, country2 string, ms long"

dp.create_sink("card_alerts", "headrace", {**BROKERS, "topic": "card-alerts"})


class TwoCountries(StatefulProcessor):  # type: ignore[misc]
    """The state of a card is its payments of the last second. Older ones can be part of no pattern."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.recent = handle.getListState("recent", "payment string, country string, ms long")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802,N803
        recent = [tuple(each) for each in self.recent.get()]
        for row in sorted(rows, key=lambda each: each.ms):
            recent = [each for each in recent if row.ms - each[2] <= WITHIN_MS]
            for payment, country, ms in recent:
                if country != row.country and ms < row.ms:
                    yield Row(
                        card=key[0], payment=payment, payment2=row.payment, country=country, country2=row.country,
                        ms=row.ms,
                    )  # fmt: skip
            recent.append((row.payment, row.country, row.ms))
        self.recent.put(recent)

    def close(self) -> None:
        pass


@dp.append_flow(target="card_alerts")
def two_countries() -> DataFrame:
    payments = json_stream("card-payments", PAYMENT, required="at")
    found = (
        payments.select("card", "payment", "country", millis("at").alias("ms"))
        .groupBy("card")
        .transformWithState(
            statefulProcessor=TwoCountries(), outputStructType=ALERT, outputMode="Append", timeMode="None"
        )
    )
    return keyed(found, f.col("card"), "card", "payment", "payment2", "country", "country2", f.col("ms").alias("at"))
