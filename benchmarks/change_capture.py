"""Change capture of PostgreSQL and MariaDB: rows of a snapshot, and updates from the log, until a topic has them.

One `--once` run of a connector in a warm session on two cores. The database runs on the same two cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Row
from benchmarks.servers import Headrace
from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.session import spark_session
from tests.pipelines.mariadb import running_mariadb
from tests.pipelines.postgres import running_postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNT = 100_000
_DATABASES: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "PostgreSQL": running_postgres,
    "MariaDB": running_mariadb,
}
ROWS = {
    (name, part): Row(f"{name} → topic, {words}", "rows/s")
    for name in _DATABASES
    for part, words in (("snapshot", "existing rows"), ("log", "updates"))
}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    spark = spark_session("bench", master="local[2]", quick_start=False)
    try:
        with Headrace(directory / "headrace") as server:
            for name, running in _DATABASES.items():
                with running() as url:
                    for number in range(rounds + 1):
                        for part, seconds in _round(spark, server.bootstrap, url, directory, f"{name}{number}".lower()):
                            if number:
                                ROWS[name, part].add("headrace", _COUNT / seconds)
    finally:
        spark.stop()
    return list(ROWS.values())


def _round(spark: SparkSession, bootstrap: str, url: str, directory: Path, name: str) -> Iterator[tuple[str, float]]:
    database = Database(url)
    with database.connect() as connection:
        connection.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(10, 2))")
        rows = [(number, f"name {number}", "1.50") for number in range(_COUNT)]
        connection.cursor().executemany(f"INSERT INTO {name} VALUES (%s, %s, %s)", rows)
    file = directory / f"{name}.yml"
    file.write_text(
        f"name: {name}\nbootstrap: {bootstrap}\nstorage: {directory}/storage-{name}\n"
        f"from: {{cdc: {{url: '{url}', tables: [{name}]}}}}\nto: {{topic: {name}}}\n"
    )
    yield "snapshot", _seconds(spark, file)
    with database.connect() as connection:
        connection.execute(f"UPDATE {name} SET name = 'changed'")
    yield "log", _seconds(spark, file)


def _seconds(spark: SparkSession, file: Path) -> float:
    started = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
    began = time.perf_counter()
    started.start()
    started.supervise()
    (total,) = started.totals()
    assert total["written"] == _COUNT, total
    return time.perf_counter() - began
