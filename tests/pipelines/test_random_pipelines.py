"""Random connectors over random records, interrupted at random, equal a model in plain Python.

The records come in committed and aborted transactions, some late (with a smaller version than the row before), some
twice, some malformed, some without a field. In the middle the producers get a new field, and the connector its column.
HEADRACE_EFFORT=long runs many seeds, and kills a driver process with some of them; `HEADRACE_SEED=7` runs one seed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.client.blocking.produce import Transaction
from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.names import unique

pytestmark = pytest.mark.chaos
_SEEDS = [int(os.environ["HEADRACE_SEED"])] if "HEADRACE_SEED" in os.environ else list(range(12 if is_long() else 0))
# A start of Spark for each kill.
_KILLED_SEEDS = _SEEDS[:1] if "HEADRACE_SEED" in os.environ else [seed + 100 for seed in range(4 if is_long() else 0)]
TARGETS = ("topic", "delta", "parquet", "sqlite", "scd1")


@dataclass
class Case:
    seed: int
    headrace: Cluster
    folder: Path
    chance: random.Random = field(init=False)
    # Committed values in order, each with the columns that the connector had when it was written.
    committed: list[bytes] = field(default_factory=list)
    has_note: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.topic, self.out = unique("random"), unique("random-out")
        self.target = self.chance.choice(TARGETS)
        self.missing = self.chance.choice(["letter", "null"])
        self.action = self.chance.choice(["warn", "drop", "quarantine"])
        self.least = self.chance.randrange(20)
        for topic in (self.topic, self.out, f"{self.topic}.dlq"):
            self.headrace.client.create_topic(topic, 1)
        self.file = self.folder / f"case{self.seed}.yml"
        self.database = Database(f"sqlite:///{self.folder}/out{self.seed}.db")
        if self.target == "sqlite":
            with self.database.connect() as connection:
                connection.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, amount INTEGER, version INTEGER)")

    def connector(self) -> Path:
        columns = "id bigint, amount bigint, version bigint" + (", note string" if self.has_note else "")
        chosen = "id, amount, version" + (", note" if self.has_note else "")
        targets = {
            "topic": f"topic: {{name: {self.out}, key: id}}",
            "delta": f"delta: {{path: out{self.seed}, evolve: true}}",
            "parquet": f"parquet: out{self.seed}",
            "sqlite": f"jdbc: {{url: '{self.database.url}', table: kept, keys: [id], evolve: true}}",
            "scd1": f"delta: {{path: out{self.seed}, scd: 1, keys: [id], sequence: version, evolve: true}}",
        }
        # Read in small batches, so that there is something to interrupt.
        self.file.write_text(
            f"name: {self.file.stem}-{self.topic}\nbootstrap: {self.headrace.bootstrap}\nfrom:\n  topic:\n"
            f"    {{name: {self.topic}, schema: '{columns}', missing_field: {self.missing}, extra_field: null,\n"
            "     options: {maxOffsetsPerTrigger: 30}}\n"
            f"expect:\n  - {{name: positive, check: amount >= 0, else: {self.action}}}\n"
            f"select: SELECT {chosen} FROM source WHERE id >= {self.least} OR amount IS NULL\n"
            f"to:\n  {targets[self.target]}\n"
        )
        return self.file

    def write(self, count: int) -> None:
        """Some transactions, of which some are aborted."""
        written = 0
        while written < count:
            values = [self._value() for _ in range(self.chance.randint(1, 12))]
            written += len(values)
            if self.chance.random() < 0.2 and self.committed:
                values.append(self.chance.choice(self.committed))
            transaction = Transaction(self.headrace.client, unique("writer"), timeout_ms=60_000)
            transaction.begin()
            now = int(time.time() * 1000)
            records = [Record(None, value, timestamp_ms=now) for value in values]
            self.headrace.write(self.topic, records, transaction=transaction)
            if self.chance.random() < 0.25:
                transaction.abort()
            else:
                transaction.commit()
                self.committed += values

    def _value(self) -> bytes:
        if self.chance.random() < 0.1:
            return self.chance.choice([b"not json", b'{"id": "x"}', b'{"id": 1', b"[1]"])
        row: dict[str, Any] = {
            "id": self.chance.randrange(40),
            "amount": self.chance.choice([None, -1, 5, 7]),
            "version": self.chance.randrange(10_000),
        }
        if self.has_note:
            row["note"] = self.chance.choice([None, "n"])
        if self.chance.random() < 0.1:
            del row["amount"]
        return json.dumps(row).encode()

    def model(self, values: list[bytes], *, has_note: bool) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Rows of the target and dead letters of these values."""
        names = ["id", "amount", "version", *(["note"] if has_note else [])]
        rows, letters = [], []
        for value in values:
            row = _parsed(value, names)
            if row is None or (self.missing == "letter" and any(name not in row for name in names)):
                letters.append(value)
                continue
            row = {name: row.get(name) for name in names}
            if self.action != "warn" and not (row["amount"] is not None and row["amount"] >= 0):
                if self.action == "quarantine":
                    letters.append(value)
                continue
            if row["id"] >= self.least or row["amount"] is None:
                rows.append(row)
        return rows, letters

    def rows(self, spark: Any) -> list[dict[str, Any]]:
        path = str(self.folder / f"out{self.seed}")
        match self.target:
            case "topic":
                found = values_of(self.headrace, self.out)
                return [json.loads(value) for value, count in found.items() for _ in range(count)]
            case "parquet":
                return [row.asDict() for row in spark.read.option("mergeSchema", "true").parquet(path).collect()]
            case "sqlite":
                with self.database.connect() as connection:
                    cursor = connection.execute("SELECT * FROM kept")
                    names = [column[0] for column in cursor.description]
                    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        from deltalake import DeltaTable

        return list(DeltaTable(path).to_pyarrow_table().to_pylist())

    def kept(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the target has of the rows that were written to it."""
        if self.target == "sqlite":
            return list({row["id"]: row for row in rows}.values())
        if self.target == "scd1":
            last: dict[int, dict[str, Any]] = {}
            for row in rows:
                if row["id"] not in last or row["version"] >= last[row["id"]]["version"]:
                    last[row["id"]] = row
            return list(last.values())
        return rows


def _parsed(value: bytes, names: list[str]) -> dict[str, Any] | None:
    try:
        row = json.loads(value)
    except ValueError:
        return None
    if not isinstance(row, dict) or isinstance(row.get("id"), str):
        return None
    return row


def run(case: Case, spark: Any, after_s: float | None) -> None:
    started = connector_run(load_connector(case.connector()), spark, once=True, report=lambda _: None)
    started.start()

    def cancel() -> None:
        for flow in started.flows:
            if flow.query is not None:
                flow.query.stop()

    timer = threading.Timer(after_s or 0, cancel)
    if after_s is not None:
        timer.start()
    try:
        started.supervise()
    finally:
        timer.cancel()


def killed_run(case: Case) -> None:
    """Kills the process of a driver in one of its first batches."""
    file = case.connector()
    offsets = load_connector(file).checkpoint / "offsets"

    def begun() -> int:
        return sum(1 for one in offsets.glob("*") if one.name.isdigit())

    wanted = begun() + case.chance.randint(1, 3)
    command = [sys.executable, "-m", "headrace.cli", "pipeline", "run", str(file), "--once"]
    with (case.folder / "driver.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        # A start of Spark takes minutes on a busy machine.
        wait_for(lambda: begun() >= wanted or process.poll() is not None, "batches", poll=0.02, within=300)
        time.sleep(case.chance.uniform(0, 0.5))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode in (0, -signal.SIGKILL), (case.folder / "driver.log").read_text()[-3000:]


def as_multiset(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps({k: v for k, v in row.items() if v is not None}, sort_keys=True) for row in rows)


def check(case: Case, spark: Any, interrupt: Callable[[], None]) -> None:
    written: list[dict[str, Any]] = []
    letters: list[bytes] = []
    for has_note in (False, True):
        case.has_note = has_note
        before = len(case.committed)
        case.write(150)
        if case.chance.random() < 0.7:
            interrupt()
        run(case, spark, None)
        rows, dead = case.model(case.committed[before:], has_note=has_note)
        written += rows
        letters += dead
    assert as_multiset(case.rows(spark)) == as_multiset(case.kept(written)), case.target
    assert values_of(case.headrace, f"{case.topic}.dlq") == Counter(letters)


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not _SEEDS, reason="many pipelines (HEADRACE_EFFORT=long)")
@pytest.mark.parametrize("seed", _SEEDS)
def test_random_connector_equals_a_model(spark: Any, headrace: Cluster, tmp_path: Path, seed: int) -> None:
    case = Case(seed, headrace, tmp_path)
    check(case, spark, lambda: run(case, spark, case.chance.uniform(0.5, 4)))


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not _KILLED_SEEDS, reason="several starts of Spark (HEADRACE_EFFORT=long)")
@pytest.mark.parametrize("seed", _KILLED_SEEDS)
def test_random_connector_whose_driver_is_killed_equals_a_model(
    spark: Any, headrace: Cluster, tmp_path: Path, seed: int
) -> None:
    case = Case(seed, headrace, tmp_path)
    check(case, spark, lambda: killed_run(case))
