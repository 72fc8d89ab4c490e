"""Five stateful flows over random events, and the same results computed in plain Python.

The events come in phases. Within a phase they are out of order by less than the watermark's delay, so no row of it is
late, however Spark cuts it into batches. The third phase also has events from long before, which are always late: Spark
drops rows that are behind the watermark of the batch before, and the second phase, one event, makes a batch with the
watermark of the first, also if the flows were stopped before a batch without rows. The last phase is one event in the
far future, which closes every window and session before it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NOON_MS: Final = 1_700_000_000_000 // 60_000 * 60_000
_USERS: Final = ("ann", "bob", "eve")
NAMES: Final = ("windows", "joined", "named", "unique", "sessions")
FLOWS: Final = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.active()
B = {"kafka.bootstrap.servers": spark.conf.get("headrace.bootstrap.servers")}
def topic(name, schema):
    rows = (spark.readStream.format("headrace").options(**B).option("subscribe", name)
        .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "@batch@").load())
    data = rows.select(f.from_json(f.col("value").cast("string"), schema).alias("d")).select("d.*")
    return data.withColumn("at", f.timestamp_millis("ms")).withWatermark("at", "30 seconds")
def events():
    return topic("@name@-events", "id long, user string, amount long, ms long")
def written(frame, *columns):
    return frame.select(f.to_json(f.struct(*columns)).alias("value"))
for name in ("windows", "joined", "named", "unique", "sessions"):
    dp.create_sink(name, "headrace", {**B, "topic": "@name@-" + name})
@dp.append_flow(target="windows")
def windows():
    groups = events().groupBy(f.window("at", "60 seconds"), "user")
    found = groups.agg(f.count("*").alias("n"), f.sum("amount").alias("sum"))
    return written(found, f.unix_millis("window.start").alias("start"), "user", "n", "sum")
@dp.append_flow(target="joined")
def joined():
    clicks = topic("@name@-clicks", "event long, page string, ms long").withColumnRenamed("at", "clicked")
    sides = f.expr("id = event AND clicked BETWEEN at AND at + INTERVAL 20 SECONDS")
    return written(events().join(clicks.drop("ms"), sides), "id", "page")
@dp.append_flow(target="named")
def named():
    users = spark.createDataFrame([("ann", "Ann A."), ("bob", "Bob B.")], "user string, name string")
    return written(events().join(users, "user", "left"), "id", "name")
@dp.append_flow(target="unique")
def unique():
    return written(events().dropDuplicatesWithinWatermark(["id"]), "id", "user")
@dp.append_flow(target="sessions")
def sessions():
    found = events().groupBy(f.session_window("at", "5 seconds"), "user").agg(f.count("*").alias("n"))
    return written(found, f.unix_millis("session_window.start").alias("start"), "user", "n")
"""


@dataclass(frozen=True)
class Event:
    id: int
    user: str
    amount: int
    ms: int
    is_late: bool = False

    def value(self) -> bytes:
        return json.dumps({"id": self.id, "user": self.user, "amount": self.amount, "ms": self.ms}).encode()


@dataclass(frozen=True)
class Click:
    event: int
    page: str
    ms: int

    def value(self) -> bytes:
        return json.dumps({"event": self.event, "page": self.page, "ms": self.ms}).encode()


@dataclass
class Phase:
    events: list[Event] = field(default_factory=list)
    clicks: list[Click] = field(default_factory=list)


def phases(seed: int, count: int) -> list[Phase]:
    chance = random.Random(seed)
    made, now, number = [], NOON_MS, 0
    for part in range(2):
        phase = Phase()
        for _ in range(count):
            now += chance.randrange(4_000)
            event = Event(number, chance.choice(_USERS), chance.randrange(100), now - chance.randrange(5_000))
            number += 1
            phase.events.append(event)
            if chance.random() < 0.3:
                # A producer sent it twice.
                phase.events.append(event)
            if chance.random() < 0.5:
                phase.clicks.append(Click(event.id, f"p{number}", event.ms + chance.randrange(24_000)))
            if part == 1 and chance.random() < 0.1:
                phase.events.append(Event(number + 1_000_000, "eve", 1, NOON_MS - 3_600_000, is_late=True))
        made.append(phase)
        if part == 0:
            made.append(Phase([Event(number, "ann", 1, now)]))
            number += 1
    end = now + 86_400_000
    return [*made, Phase([Event(9_000_000, "end", 0, end)], [Click(9_000_001, "end", end)])]


def expected(every: list[Phase]) -> dict[str, Counter[str]]:
    """Rows of each flow, as the texts of their JSON."""
    events = [event for phase in every for event in phase.events]
    on_time = [event for event in events if not event.is_late]
    closed = [event for event in on_time if event.user != "end"]
    clicks = [click for phase in every for click in phase.clicks]
    sums: dict[tuple[int, str], list[int]] = {}
    for event in closed:
        sums.setdefault((event.ms // 60_000 * 60_000, event.user), []).append(event.amount)
    windows = [{"start": at, "user": user, "n": len(got), "sum": sum(got)} for (at, user), got in sums.items()]
    joined = [
        {"id": event.id, "page": click.page}
        for event in on_time
        for click in clicks
        if click.event == event.id and 0 <= click.ms - event.ms <= 20_000
    ]
    full = {"ann": "Ann A.", "bob": "Bob B."}
    named = [{"id": event.id, **({"name": full[event.user]} if event.user in full else {})} for event in events]
    unique = [{"id": id, "user": user} for id, user in {(event.id, event.user) for event in on_time}]
    found = {"windows": windows, "joined": joined, "named": named, "unique": unique, "sessions": _sessions(closed)}
    return {name: Counter(map(canonical, rows)) for name, rows in found.items()}


def _sessions(events: list[Event]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for user in _USERS:
        times = sorted(event.ms for event in events if event.user == user)
        begin = 0
        for at in range(1, len(times) + 1):
            if at == len(times) or times[at] >= times[at - 1] + 5_000:
                rows.append({"start": times[begin], "user": user, "n": at - begin})
                begin = at
    return rows


def canonical(row: dict[str, object]) -> str:
    return json.dumps(row, sort_keys=True)


def write_pipeline(folder: Path, name: str, bootstrap: str, rows_per_batch: int) -> None:
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(
        f'name: {name}\nstorage: storage\nconfiguration:\n  headrace.bootstrap.servers: "{bootstrap}"\n'
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )
    text = FLOWS.replace("@name@", name).replace("@batch@", str(rows_per_batch))
    (folder / "transformations" / "flows.py").write_text(text)
