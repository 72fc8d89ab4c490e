"""Sessions of visitors, and views per page."""

# mypy: disable-error-code="untyped-decorator"

from collections.abc import Iterator
from typing import TypeAlias

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from headrace.demos.streams import json_stream, keyed, millis
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
VIEW = "visitor string, page string, action string, at long"
# Half an hour on a real website.
GAP_MS = 1000
Session: TypeAlias = tuple[int, int, int, str, str]
SESSION = "visitor string, start long, last long, views int, landing string, exit string"

for topic in ("sessions", "page-counts"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


@dp.append_flow(target="page_counts")
def counts() -> DataFrame:
    views = (
        json_stream("page-views", VIEW, required="at")
        .groupBy("page")
        .agg(f.count("*").alias("views"), f.expr("count_if(action = 'share')").alias("shares"))
    )
    return keyed(views, f.col("page"), "views", "shares")


def session_row(visitor: str, session: Session) -> Row:
    start, last, views, landing, exit_ = session
    return Row(visitor=visitor, start=start, last=last, views=views, landing=landing, exit=exit_)


class Sessions(StatefulProcessor):  # type: ignore[misc]
    """The state of a visitor is the current session. A batch writes every session that it has changed."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.current = handle.getValueState("session", "start long, last long, views int, landing string, exit string")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802,N803
        known = self.current.get()
        session = None if known is None else tuple(known)
        for row in sorted(rows, key=lambda each: (each.ms, each.page)):
            if session is not None and row.ms - session[1] <= GAP_MS:
                session = (session[0], row.ms, session[2] + 1, session[3], row.page)
                continue
            if session is not None:
                yield session_row(key[0], session)
            session = (row.ms, row.ms, 1, row.page, row.page)
        if session is not None:
            self.current.update(session)
            yield session_row(key[0], session)

    def close(self) -> None:
        pass


@dp.append_flow(target="sessions")
def sessions() -> DataFrame:
    views = json_stream("page-views", VIEW, required="at").select("visitor", "page", millis("at").alias("ms"))
    found = views.groupBy("visitor").transformWithState(
        statefulProcessor=Sessions(), outputStructType=SESSION, outputMode="Append", timeMode="None"
    )
    # Compacted by visitor and start: the last record of a session is the whole session.
    key = f.concat_ws("|", "visitor", f.col("start").cast("string"))
    return keyed(found, key, "start", "last", "views", "landing", "exit")
