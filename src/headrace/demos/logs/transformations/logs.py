"""Log lines of three formats in one standard format, and counts per service and level."""

# mypy: disable-error-code="untyped-decorator"

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.demos.streams import keyed
from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
SHOP = "host string, level string, code int, text string, at string"
# 2026-01-31T10:00:00.000Z WARN payment-1 [402] card declined
PAYMENT = r"^(\S+) ([A-Z]+) (\S+) \[(\d+)\] (.+)$"
# <20>1 2026-01-31T10:00:00.000Z mail-1 smtpd - 450 - mailbox busy
MAIL = r"^<(\d+)>1 (\S+) (\S+) \S+ - (\d+) - (.+)$"

for topic in ("logs", "log-counts"):
    dp.create_sink(topic.replace("-", "_"), "headrace", {**BROKERS, "topic": topic})


def standard_line(level: Column, host: Column, code: Column, message: Column, at: Column) -> Column:
    """The standard format. All branches of `parsed` have these fields in this order."""
    return f.struct(
        level.alias("level"),
        host.alias("host"),
        code.try_cast("int").alias("code"),
        message.alias("message"),
        at.alias("at"),
    )


def shop(line: Column) -> Column:
    found = f.from_json(line, SHOP)
    row = standard_line(found["level"], found["host"], found["code"], found["text"], found["at"])
    return f.when(found["text"].isNotNull() & found["at"].isNotNull(), row)


def payment(line: Column) -> Column:
    at, level, host, code, message = (f.regexp_extract(line, PAYMENT, group) for group in range(1, 6))
    return f.when(line.rlike(PAYMENT), standard_line(level, host, code, message, at))


def mail(line: Column) -> Column:
    priority, at, host, code, message = (f.regexp_extract(line, MAIL, group) for group in range(1, 6))
    severity = priority.try_cast("int") % 8
    level = f.when(severity <= 3, "ERROR").when(severity == 4, "WARN").otherwise("INFO")
    return f.when(line.rlike(MAIL), standard_line(level, host, code, message, at))


def parsed() -> DataFrame:
    """Every line becomes a record of the standard format. A line that cannot be read has the level UNREADABLE."""
    rows = (
        spark.readStream.format("headrace")
        .options(**BROKERS)
        .option("subscribe", "shop-log,payment-log,mail-log")
        .option("startingOffsets", "earliest")
        .load()
    )
    service, line = f.regexp_replace("topic", "-log$", ""), f.col("value").cast("string")
    unreadable = standard_line(
        f.lit("UNREADABLE"), f.col("key").cast("string"), f.lit(None), line, f.lit(None).cast("string")
    )
    formats = {"shop": shop(line), "payment": payment(line), "mail": mail(line)}
    known = [f.when(service == name, row) for name, row in formats.items()]
    return rows.select(service.alias("service"), f.coalesce(*known, unreadable).alias("v")).select("service", "v.*")


@dp.append_flow(target="logs")
def standard() -> DataFrame:
    return keyed(parsed(), f.col("service"), "service", "host", "level", "code", "message", "at")


@dp.append_flow(target="log_counts")
def counts() -> DataFrame:
    return keyed(parsed().groupBy("service", "level").count(), f.concat_ws("|", "service", "level"), "count")
