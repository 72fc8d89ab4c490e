"""`headrace tables run` with every format and mode, while its driver or its executors are killed.

HEADRACE_ROUNDS is the number of kills (10 in the long form). SIGTERM is no kill: the run finishes its batches.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from headrace.tables.lake_table import UPSERT
from headrace.tables.table_logs import log_of
from tests.pipelines.spark_cluster import SparkCluster
from tests.support.clock import wait_for
from tests.support.effort import is_long, rounds
from tests.tables.conftest import Brokers, orders
from tests.tables.test_tables_on_spark import create, rows_of

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.skipif(not is_long(), reason="long: up to ten starts of Spark, or a cluster of Spark"),
]
_KILLS: Final = rounds(short=1, long=10)
_EACH: Final = (
    {"format": "delta"},
    {"format": "iceberg"},
    {"format": "parquet"},
    {"format": "delta", "mode": "upsert-by-key"},
    {"format": "iceberg", "mode": "upsert-by-key"},
)


def _partitions(settings: dict[str, str]) -> int:
    """A key is always in one partition."""
    return 1 if "mode" in settings else 2


class Lake:
    """A table of each format and mode, and the topics that are written while the tables run."""

    def __init__(self, brokers: Brokers, directory: Path, each: tuple[dict[str, str], ...] = _EACH) -> None:
        self._brokers, self.directory, self._written = brokers, directory / "tables", 0
        # Kafka's columns need no session of Spark.
        self.tables = [
            create(brokers, None, self.directory, brokers.topic(_partitions(settings)), **settings) for settings in each
        ]
        self._out = directory / "out.txt"

    @contextmanager
    def run(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """`headrace tables run` as a process group of its own, which is killed at the end."""
        command = [sys.executable, "-m", "headrace.cli", "tables", "run", "-d", str(self.directory), *arguments]
        with self._out.open("ab") as out:
            running = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        try:
            yield running
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()

    def write(self) -> None:
        """Committed, aborted and plain records, and tombstones, in both partitions of every topic."""
        for table in self.tables:
            for partition in range(1 if table.mode == UPSERT else 2):
                commit = self._written % 40 == 0
                more = orders(20, start=self._written, keys=7)
                self._brokers.write_transaction(table.topic, more, partition=partition, commit=commit)
                self._brokers.write(table.topic, orders(15, start=self._written), partition=partition)
            first = orders(1, start=self._written)[0]
            self._brokers.write(table.topic, [type(first)(first.key, None, (), timestamp_ms=first.timestamp_ms)])
        self._written += 20

    def said(self) -> str:
        return self._out.read_text()[-3000:]

    def versions(self) -> list[int]:
        return [log_of(table).open().version for table in self.tables]

    def wait_for_a_commit(self, before: list[int], running: subprocess.Popen[bytes]) -> None:
        def moved() -> bool:
            assert running.poll() is None, self.said()
            return self.versions() != before

        wait_for(moved, lambda: f"a commit\n{self.said()}", within=240)

    def finish(self, *arguments: str) -> None:
        with self.run("--once", *arguments) as running:
            assert running.wait(280) == 0, self.said()

    def check(self) -> None:
        for table in self.tables:
            found, expected = rows_of(table), self._brokers.independent_read(table.topic)
            if table.mode == UPSERT:
                latest = {row[2]: row for row in expected}
                expected = sorted(row for row in latest.values() if row[3] is not None)
            assert found == expected, f"{table.format}, {table.mode}"


@pytest.mark.timeout(1800)
def test_killed_drivers_lose_and_double_nothing(brokers: Brokers, tmp_path: Path) -> None:
    """kill -9 of the whole run. Every second time its checkpoints are lost too."""
    lake = Lake(brokers, tmp_path)
    for kill in range(_KILLS):
        with lake.run("--master", "local[2]") as running:
            for _ in range(1 + kill % 2):
                before = lake.versions()
                lake.write()
                lake.wait_for_a_commit(before, running)
        if kill % 2:
            shutil.rmtree(lake.directory / "storage")
    lake.finish()
    lake.check()


@pytest.mark.timeout(1800)
def test_killed_executors_lose_and_double_nothing(brokers: Brokers, tmp_path: Path) -> None:
    """kill -9 of an executor, or of a Python worker in it, while batches run. The driver goes on."""
    lake, chance = Lake(brokers, tmp_path), random.Random(19)
    with SparkCluster(tmp_path / "spark", workers=2) as spark, lake.run("--master", spark.url) as running:
        for kill in range(_KILLS):
            before = lake.versions()
            lake.write()
            if kill % 3:
                lake.wait_for_a_commit(before, running)
            wait_for(lambda: spark.kill_executor(chance), "an executor", within=240)
        before = lake.versions()
        lake.write()
        lake.wait_for_a_commit(before, running)
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(240) == 0, lake.said()
    lake.finish("--master", "local[2]")
    lake.check()


def test_sigterm_to_the_process_group_is_no_failure(brokers: Brokers, tmp_path: Path) -> None:
    """As a service manager stops a service: every process gets the signal, and the run ends with 0."""
    lake = Lake(brokers, tmp_path, each=({"format": "delta"},))
    with lake.run("--master", "local[1]") as running:
        before = lake.versions()
        lake.write()
        lake.wait_for_a_commit(before, running)
        os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(120) == 0, lake.said()
    lake.check()
