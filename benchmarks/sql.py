"""SQL over a topic of ten million small records with DuckDB on two cores.

Goals: a million records a second for a count and an average over JSON values, the last thousand rows in under a second.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.report import Row
from benchmarks.servers import Headrace
from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import BatchProducer, Section
from headrace.client.security import ClientSecurity
from headrace.pipelines.options import Cluster
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch
from headrace.tables.sql_session import SqlSession

RECORDS, IN_A_BATCH, PARTITIONS = 10_000_000, 10_000, 4
T0_MS = 1_700_000_000_000
ROWS = {
    "average": Row("count and average of a JSON field, 10 M records", "records/s"),
    "count": Row("count, 10 M records", "records/s"),
    "last": Row("last 1,000 rows", "ms", higher_is_better=False),
    "first": Row("first row of SELECT *", "ms", higher_is_better=False),
}
STATEMENTS = {
    "average": "SELECT count(*), avg((value->>'amount')::DOUBLE) FROM orders",
    "count": "SELECT count(*) FROM orders",
    "last": 'SELECT * FROM orders ORDER BY "offset" DESC LIMIT 1000',
    "first": "SELECT * FROM orders LIMIT 1",
}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    with Headrace(directory / "headrace") as server:
        fill(server.bootstrap)
        with SqlSession(Cluster(server.bootstrap, ClientSecurity(), "bench"), tables=directory) as session:
            for _ in range(rounds):
                for name, statement in STATEMENTS.items():
                    began = time.perf_counter()
                    answer = session.query(statement)
                    assert answer is not None
                    answer.read()
                    seconds = time.perf_counter() - began
                    ROWS[name].add("headrace", seconds * 1000 if ROWS[name].unit == "ms" else RECORDS / seconds)
    return list(ROWS.values())


def fill(bootstrap: str) -> None:
    records = [
        Record(b"k%d" % (i % 100), b'{"id":%d,"amount":%d}' % (i, i % 1000), (), timestamp_ms=T0_MS + i)
        for i in range(IN_A_BATCH)
    ]
    section = Section(build_batch(records)[HEADER_BYTES:], len(records), T0_MS, T0_MS + IN_A_BATCH - 1)
    with BlockingClient(bootstrap) as client:
        client.create_topic("orders", PARTITIONS, configs={"retention.ms": "-1"})
        producer = BatchProducer(client)
        for number in range(RECORDS // IN_A_BATCH):
            producer.send(("orders", number % PARTITIONS), section)
        producer.flush()
