"""Changes applied to tables: current rows and their history, in any order, with repeated batches."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.pipelines.auto_cdc.applying import END, KIND, SEQUENCE, START, CdcTarget, apply
from headrace.pipelines.auto_cdc.change_rows import changes_of
from headrace.pipelines.auto_cdc.delta_store import DeltaStore
from headrace.pipelines.auto_cdc.history import DELETE, TRUNCATE, UPSERT
from headrace.pipelines.auto_cdc.table_store import TableStore
from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.errors import FlowStopped, OptionError
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.spec import BOOTSTRAP, load_spec
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.followed_changes import ACCOUNTS, Accounts
from tests.support.effort import rounds

_tables = itertools.count()
_SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("name", pa.string()), (SEQUENCE, pa.int64())])
_TYPES = {"id": "bigint", "place": "string", "name": "string", SEQUENCE: "bigint"}
Rows = list[dict[str, Any]]


class DeltaTarget:
    def __init__(self, path: Path, target: CdcTarget) -> None:
        self.path, self.target = str(path), target

    def apply(self, rows: Rows, batch: int) -> None:
        store = DeltaStore(self.path, self.target, _SCHEMA, "test", batch)
        if not store.is_written():
            apply(store, self.target, changes_of(rows, self.target))

    def rows(self) -> Rows:
        return list(DeltaTable(self.path).to_pyarrow_table().to_pylist())


class TableTarget:
    def __init__(self, database: Database, target: CdcTarget) -> None:
        self.database, self.target, self.table = database, target, f"kept{next(_tables)}"

    def apply(self, rows: Rows, batch: int) -> None:
        with self.database.connect() as connection:
            if self.database.claim_batch(connection, self.table, batch):
                store = TableStore(self.database, connection, self.table, self.target, _TYPES)
                apply(store, self.target, changes_of(rows, self.target))

    def rows(self) -> Rows:
        with self.database.connect() as connection:
            cursor = connection.execute(f"SELECT * FROM {self.table}")
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


Make = Callable[[CdcTarget], Any]


@pytest.fixture(params=["delta", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "delta":
        return lambda target: DeltaTarget(tmp_path / "kept", target)
    url = f"sqlite:///{tmp_path}/kept.db" if request.param == "sqlite" else request.getfixturevalue("postgres")
    return lambda target: TableTarget(Database(url), target)


def change(number: int, kind: str, id: int, name: str | None = None) -> dict[str, Any]:
    is_truncate = kind == TRUNCATE
    return {"id": None if is_truncate else id, "place": None if is_truncate else "p", "name": name,
            SEQUENCE: number, KIND: kind}  # fmt: skip


def expected(changes: Rows, *, history: bool) -> Rows:
    """The table after the changes in the order of their sequence, one by one."""
    current: dict[int, dict[str, Any]] = {}
    ended: Rows = []

    def end(id: int, at: int) -> None:
        if id in current:
            ended.append({**current.pop(id), END: at})

    for one in sorted(changes, key=lambda one: one[SEQUENCE]):
        if one[KIND] == TRUNCATE:
            for id in list(current):
                end(id, one[SEQUENCE])
        elif one[KIND] == DELETE:
            end(one["id"], one[SEQUENCE])
        elif one["id"] not in current or current[one["id"]]["name"] != one["name"]:
            end(one["id"], one[SEQUENCE])
            row = {"id": one["id"], "place": "p", "name": one["name"]}
            current[one["id"]] = {**row, START: one[SEQUENCE], END: None}
    if history:
        return [*ended, *current.values()]
    return [{name: value for name, value in row.items() if name not in (START, END)} for row in current.values()]


def same(one: Rows, other: Rows) -> None:
    assert sorted(map(repr, map(_sorted, one))) == sorted(map(repr, map(_sorted, other)))


def _sorted(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(row.items())


@pytest.mark.parametrize("history", [False, True], ids=["scd1", "scd2"])
@pytest.mark.parametrize("seed", range(rounds(short=2, long=40)))
def test_any_order_of_changes_gives_the_same_table(make: Make, history: bool, seed: int) -> None:
    chance = random.Random(seed)
    kept = make(CdcTarget(("id", "place"), ("id", "place", "name"), history))
    changes = []
    for number in range(rounds(short=40, long=200)):
        kind = chance.choices([UPSERT, DELETE, TRUNCATE], [12, 4, 1])[0]
        name = chance.choice(["a", "b", None]) if kind == UPSERT else None
        changes.append(change(number, kind, chance.randrange(6), name))
    late = changes[:]
    chance.shuffle(late)
    batches = [late[at : at + 7] for at in range(0, len(late), 7)]
    for number, batch in enumerate(batches):
        kept.apply(batch, number)
        if chance.random() < 0.3:
            # Spark repeats the batch after a crash, and a producer may send a change again.
            kept.apply(batch, number)
            kept.apply(batches[chance.randrange(number + 1)], number)
    same(kept.rows(), expected(changes, history=history))


def test_crash_between_the_two_commits_of_a_batch_is_repaired(tmp_path: Path, monkeypatch: Any) -> None:
    for history in (False, True):
        kept = DeltaTarget(tmp_path / f"kept{history}", CdcTarget(("id",), ("id", "place", "name"), history))
        kept.apply([change(1, UPSERT, 1, "a"), change(2, UPSERT, 2, "b")], 0)
        batch = [change(5, UPSERT, 1, "c"), change(4, DELETE, 2), change(3, UPSERT, 3, "d")]
        step = "_write_history" if history else "_write_current"
        with monkeypatch.context() as broken:
            broken.setattr(DeltaStore, step, lambda *_: (_ for _ in ()).throw(OSError("killed")))
            with pytest.raises(OSError, match="killed"):
                kept.apply(batch, 1)
        kept.apply(batch, 1)
        every = [change(1, UPSERT, 1, "a"), change(2, UPSERT, 2, "b"), *batch]
        same(kept.rows(), expected(every, history=history))


def test_change_without_key_or_sequence_stops_the_flow(tmp_path: Path) -> None:
    kept = DeltaTarget(tmp_path / "kept", CdcTarget(("id",), ("id", "place", "name"), False))
    with pytest.raises(FlowStopped, match="has no sequence"):
        kept.apply([{**change(1, UPSERT, 1), SEQUENCE: None}], 0)
    with pytest.raises(FlowStopped, match="has no 'id'"):
        kept.apply([{**change(1, UPSERT, 1), "id": None}], 0)


_FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from headrace.pipelines.decode import decode
spark = SparkSession.active()
B = spark.conf.get("headrace.bootstrap.servers")
@dp.temporary_view
def changes():
    topic = (spark.readStream.format("headrace").option("kafka.bootstrap.servers", B).option("subscribe", "{topic}")
        .option("startingOffsets", "earliest").load())
    return decode(topic, "id bigint, name string, version bigint, op string").where("_error IS NULL").drop("_source")
dp.create_streaming_table("current")
dp.create_auto_cdc_flow(target="current", source="changes", keys=["id"], sequence_by="version",
    apply_as_deletes="op = 'delete'", column_list=["id", "name"], stored_as_scd_type=1)
dp.create_sink("history", "jdbc", {{"url": "{url}", "table": "history"}})
dp.create_auto_cdc_flow(target="history", source="changes", keys=["id"], sequence_by="version",
    apply_as_deletes="op = 'delete'", except_column_list=["op", "version", "_error", "_deleted"],
    stored_as_scd_type=2, name="versions")
"""


def test_create_auto_cdc_flow_of_sparks_api(spark: Any, headrace: Cluster, tmp_path: Path) -> None:
    topic, url = headrace.topic(), f"sqlite:///{tmp_path}/h.db"
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flows.py").write_text(_FLOWS.format(topic=topic, url=url))
    (tmp_path / "spark-pipeline.yml").write_text(
        f'name: kept\nstorage: storage\nconfiguration:\n  {BOOTSTRAP}: "{headrace.bootstrap}"\n'
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )
    spec = load_spec(tmp_path)
    now = int(time.time() * 1000)

    def run(*rows: tuple[int, str | None, int, str]) -> None:
        values = [json.dumps(dict(zip(("id", "name", "version", "op"), row, strict=True))).encode() for row in rows]
        headrace.write(topic, [Record(None, value, timestamp_ms=now) for value in values])
        started = PipelineRun(spec, spark, report=lambda _: None, once=True)
        started.start()
        started.supervise()

    run((1, "a", 10, "put"), (2, "x", 11, "put"), (3, "y", 12, "put"))
    # Late: the name between, a row that comes back too late, and a delete.
    run((1, "c", 30, "put"), (1, "b", 20, "put"), (2, None, 40, "delete"), (2, "old", 15, "put"))
    current = DeltaTable(spec.storage_uri("tables", "current")).to_pyarrow_table().to_pylist()
    same(current, [{"id": 1, "name": "c"}, {"id": 3, "name": "y"}])
    with Database(url).connect() as connection:
        history = connection.execute("SELECT * FROM history ORDER BY 1, 3").fetchall()
    assert history == [
        (1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, None),
        (2, "x", 11, 15), (2, "old", 15, 40), (3, "y", 12, None),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_changes_of_a_database_keep_a_delta_table(
    request: pytest.FixtureRequest, spark: Any, headrace: Cluster, tmp_path: Path, kind: str
) -> None:
    source = Database(request.getfixturevalue(kind))
    name = f"accounts{next(_tables)}"
    with source.connect() as connection:
        connection.execute(ACCOUNTS.replace("accounts", name))
    accounts = Accounts(source, table=name)
    accounts.change(30)
    file = tmp_path / f"{name}.yml"
    file.write_text(
        f"bootstrap: {headrace.bootstrap}\nfrom:\n  cdc: {{url: '{source.url}', tables: [{name}], chunkRows: 10}}\n"
        "to:\n  delta: {path: kept, scd: 2}\n"
    )
    for _ in range(2):
        accounts.change(30)
        run = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
        run.start()
        run.supervise()
    with source.connect() as connection:
        rows = connection.execute(f"SELECT id, name, amount FROM {name}").fetchall()
    found = DeltaTable(str(tmp_path / "kept")).to_pyarrow_table().to_pylist()
    assert {(row["id"], row["name"], row["amount"]) for row in found if row[END] is None} == set(rows)
    ended = [row for row in found if row[END] is not None]
    assert ended and all(row[START] < row[END] for row in ended)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("delta: {path: x, scd: 3, keys: [id], sequence: v}", "scd '3' must be 1"),
        ("delta: {path: x, scd: 1, sequence: v}", '"keys" is missing'),
        ("delta: {path: x, scd: 1, keys: [id]}", '"sequence" is missing'),
        ("jdbc: {url: 'sqlite:///x', table: t, scd: 1, keys: id, seqence: v}", "'seqence' is unknown"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, target: str, words: str) -> None:
    from headrace.pipelines.connectors.targets import target_output

    file = tmp_path / "c.yml"
    file.write_text(f"from: {{topic: {{name: x, schema: 'id bigint, v bigint'}}}}\nto:\n  {target}\n")
    with pytest.raises(OptionError) as refusal:
        target_output(load_connector(file, "localhost:1"))
    assert words in str(refusal.value)
