"""A connector gives the same rows with and without Spark, and changes between the two without losing one."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.decode import decode
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.lite.json_values import JsonValues
from headrace.pipelines.lite.run import idle_seconds
from headrace.pipelines.lite.selection import selection
from headrace.pipelines.lite.spark_text import cast_text, double_text, json_text
from headrace.pipelines.lite.topic_target import TopicTarget
from headrace.pipelines.plugins.columns import parse_columns
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.connectors.conftest import Connect
from tests.pipelines.connectors.servers import running_http_server
from tests.pipelines.test_sink import values_of

Run = Callable[..., None]


@pytest.fixture
def on_spark(spark: Any, headrace: Cluster, tmp_path: Path) -> Run:
    def run(text: str, name: str = "c") -> None:
        file = tmp_path / f"{name}.yml"
        file.write_text(f"name: {name}\nbootstrap: {headrace.bootstrap}\n{text}")
        started = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
        started.start()
        started.supervise()

    return run


def crash(checkpoint: Path) -> None:
    """As if the process had died after its last batch was written and before the checkpoint knew it."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


VALUES = [
    '{"i": 1, "l": 2, "d": 1.5, "s": "x", "b": true}',
    '{"i": 1, "l": 2, "d": 3, "s": "x", "b": false}',
    '{"i": null, "l": null, "d": null, "s": null, "b": null}',
    '{"i": 2147483648, "l": 2, "d": 1.5, "s": "x", "b": true}',
    '{"i": 1.0, "l": 2, "d": 1.5, "s": "x", "b": true}',
    '{"i": "1", "l": 2, "d": 1.5, "s": "x", "b": true}',
    '{"i": 1, "l": 9223372036854775808, "d": 1.5, "s": "x", "b": true}',
    '{"i": 1, "l": 2, "d": "NaN", "s": "x", "b": true}',
    '{"i": 1, "l": 2, "d": "1.5", "s": "x", "b": true}',
    '{"i": 1, "l": 2, "d": 1e3, "s": 1.50, "b": true}',
    '{"i": 1, "l": 2, "d": 1.5, "s": {"a": [1, "ü", null]}, "b": true}',
    '{"i": 1, "l": 2, "d": 1.5, "s": "x", "b": "true"}',
    '{"i": 1, "l": 2, "d": 1.5, "s": "x"}',
    '{"i": 1, "l": 2, "d": 1.5, "s": "x", "b": true, "more": 1}',
    '{"i": 1, "l": 2, "d": 1.5, "s": "x", "b": true} tail',
    '{"i": 1, "l": 2, "d": 1.5, "s": "x", "b": true}  ',
    '  {"i": 1, "l": 2, "d": 1.5, "s": "x", "b": true}',
    "",
    "   ",
    "broken",
    "[1, 2]",
    "7",
    '"text"',
    "null",
    '{"i": 1',
    '{"i": -5, "l": -9223372036854775808, "d": -0.0, "s": "\\u00e9\\n", "b": true}',
]


def test_json_values_are_decoded_as_by_spark(spark: Any) -> None:
    schema = "i int, l bigint, d double, s string, b boolean"
    records = spark.createDataFrame([(n, text.encode()) for n, text in enumerate(VALUES)], "n int, value binary")
    decoded = decode(records.selectExpr("value", "CAST(n AS BIGINT) AS offset"), schema)
    expected = {
        row["_source"]["offset"]: ({name: row[name] for name in "ildsb"}, row["_error"]) for row in decoded.collect()
    }
    values = JsonValues.of(End("topic", {"schema": schema}, "c.yml: from.topic"))
    for n, text in enumerate(VALUES):
        found, problem = values.decode(text)
        good, reason = expected[n]
        # Columns of a bad value are of no use and not compared.
        assert (problem, None if problem else str(found)) == (reason, None if reason else str(good)), text


SELECTS = [
    "SELECT i, s AS name FROM source",
    "SELECT i + 1 AS j, l * 2 AS l2, d * 2.0E0 AS d2, -i AS minus FROM source WHERE i > 1 AND NOT b",
    "SELECT upper(s) AS u, lower(s) AS v, trim(s) AS t, s || '-' || s AS ss FROM source",
    "SELECT CASE WHEN i > 2 THEN 'many' WHEN i IS NULL THEN 'none' ELSE 'few' END AS c FROM source",
    "SELECT coalesce(s, '?') AS s FROM source",
    "SELECT i FROM source WHERE s LIKE 'a%' OR s IN ('b', 'c') OR i BETWEEN 3 AND 4",
    "SELECT CAST(i AS DOUBLE) AS d, CAST(l AS STRING) AS t, CAST(b AS STRING) AS bt, i = 2 AS two FROM source",
    "SELECT replace(s, 'a', 'o') AS r, abs(i) AS a, s IS NOT NULL AS there FROM source",
]
ROWS: list[dict[str, Any]] = [
    {"i": 1, "l": 10, "d": 0.5, "s": "abc", "b": True},
    {"i": 2, "l": 2**40, "d": 1e10, "s": " pad ", "b": False},
    {"i": 3, "l": None, "d": None, "s": None, "b": None},
    {"i": None, "l": -5, "d": -1.5e-7, "s": "c", "b": False},
    {"i": -4, "l": 0, "d": 123456789.0, "s": 'quote " and \\ and \x01', "b": True},
]


def test_selects_and_texts_are_those_of_spark(spark: Any) -> None:
    columns = parse_columns("i int, l bigint, d double, s string, b boolean")
    schema = ", ".join(f"{column.name} {column.kind}" for column in columns)
    spark.createDataFrame([tuple(row.values()) for row in ROWS], schema).coalesce(1).createOrReplaceTempView("source")
    for select in SELECTS:
        chosen = selection(select, columns, "c.yml")
        expected = spark.sql(select)
        assert [column.name for column in chosen.columns] == expected.columns, select
        assert [column.kind for column in chosen.columns] == [kind for _, kind in expected.dtypes], select
        rows = list(chosen.change(iter([dict(row) for row in ROWS])))
        found = [json_text(row, expected.columns) for row in rows]
        texts = expected.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS t").collect()
        assert found == [row.t for row in texts], select
    numbers = [0.1, 1.0, 100.0, 9999999.0, 1e7, 1.5e300, 1e-3, 9.99e-4, 2.25e-300, -0.0, 123456.789, 2.0**53]
    shown = spark.createDataFrame([(n,) for n in numbers], "d double").selectExpr("CAST(d AS STRING) AS t").collect()
    assert [double_text(n) for n in numbers] == [row.t for row in shown]
    times = spark.sql("SELECT timestamp'2024-05-06 07:08:09.120' AS a, timestamp'2024-05-06 00:00:00' AS b")
    row = times.collect()[0].asDict()
    zoned = {name: value.astimezone() for name, value in row.items()}
    assert [cast_text(zoned[name]) for name in "ab"] == list(times.selectExpr("string(a)", "string(b)").collect()[0])
    assert json_text(zoned, "ab") == times.selectExpr("to_json(struct(*))").collect()[0][0]


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("SELECT date_format(s, 'y') AS y FROM source", "calls date_format"),
        ("SELECT * FROM source WHERE i > 1", "has * or an expression without a name"),
        ("SELECT i + 1 FROM source", "has * or an expression without a name"),
        ("SELECT i / 2 AS h FROM source", "calls /"),
        ("SELECT length(s) AS n FROM source", "calls length"),
        ("SELECT CAST(s AS INT) AS n FROM source", "casts string to integer"),
        ("SELECT s, count(*) FROM source GROUP BY s", "more than SELECT"),
        ("SELECT i FROM source ORDER BY i", "more than SELECT"),
        ("SELECT i FROM source WHERE i IN (SELECT i FROM source)", "names the source more than once"),
        ("SELECT i FROM other", "more than SELECT"),
        ("SELECT i, sum(i) OVER () AS n FROM source", "window"),
        ("SELECT nope FROM source", "column 'nope' does not exist"),
        ("SELECT nope + 1 AS n FROM source", "column 'nope' does not exist"),
        ("SELECT i FROM", "DuckDB cannot read it"),
        ("SELECT i * 1.5 AS m FROM source", "becomes DECIMAL"),
    ],
)
def test_select_that_may_differ_is_refused(select: str, words: str) -> None:
    with pytest.raises(PipelineError) as refusal:
        selection(select, parse_columns("i int, s string"), "c.yml")
    assert words in str(refusal.value)
    assert "does not exist" in words or str(refusal.value).endswith("needs Spark: run the connector without --lite")


def test_pause_without_rows_is_the_trigger_interval(tmp_path: Path) -> None:
    def pause(trigger: str, source: str = "topic: {name: t}") -> float:
        file = tmp_path / "c.yml"
        file.write_text(f"bootstrap: h:1\nfrom:\n  {source}\nto: console\n{trigger}")
        return idle_seconds(load_connector(file))

    assert [pause(f"trigger: {text}") for text in ("500 milliseconds", "2 seconds", "10s", "1 minute", "5 min")] == [
        0.5,
        2,
        10,
        60,
        300,
    ]
    assert pause("") < pause("", "jdbc: {url: 'sqlite:///x', table: t, column: c}")
    with pytest.raises(PipelineError, match="its trigger is '1 hour', which needs Spark"):
        pause("trigger: 1 hour")


def test_topic_connector_changes_runner_in_the_middle_of_a_batch(
    headrace: Cluster, connect: Connect, on_spark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = headrace.topic(2), headrace.topic()
    headrace.client.create_topic(f"{source}.dlq", 1)
    sent: Counter[bytes] = Counter()

    def send(*numbers: int) -> None:
        now = int(time.time() * 1000)
        for partition in (0, 1):
            mine = [number for number in numbers if number % 2 == partition]
            rows = [Record(b"k%d" % n, b'{"id": %d, "x": %d.5}' % (n, n), timestamp_ms=now) for n in mine]
            bad = Record(None, b"bad %d" % mine[0], timestamp_ms=now)
            headrace.write(source, [*rows, bad], partition=partition)
        sent.update(b'{"id":%d,"x":%d.5}' % (n, n) for n in numbers)

    text = (
        f"from:\n  topic: {{name: {source}, schema: 'id int, x double'}}\n"
        f"select: SELECT id, x FROM source\nto:\n  topic: {{name: {target}, key: id}}\n"
    )
    send(*range(20))
    connect(text)
    assert values_of(headrace, target) == sent
    send(*range(20, 40))
    write_slot = TopicTarget._write_slot

    def dies_at_the_second_slot(self: TopicTarget, prefix: str, slot: int, *more: Any) -> int:
        if slot == 1:
            raise KeyboardInterrupt
        return write_slot(self, prefix, slot, *more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TopicTarget, "_write_slot", dies_at_the_second_slot)
        connect(text)
    on_spark(text)
    assert values_of(headrace, target) == sent
    send(*range(40, 60))
    on_spark(text)
    for flow in ("c", "c-dead-letters"):
        crash(tmp_path / "storage" / "c" / "checkpoints" / flow)
    send(*range(60, 80))
    connect(text)
    assert values_of(headrace, target) == sent
    letters = values_of(headrace, f"{source}.dlq")
    assert letters == {b"bad %d" % n: 1 for n in (0, 1, 20, 21, 40, 41, 60, 61)}
    send(*range(80, 90))
    on_spark(text)
    assert values_of(headrace, target) == sent


def test_file_connector_changes_runner(
    headrace: Cluster, connect: Connect, on_spark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, folder = headrace.topic(), tmp_path / "in"
    folder.mkdir()
    written: Counter[bytes] = Counter()

    def put(name: str) -> None:
        (folder / name).write_text(f"{name} one\n{name} two")
        written.update([f"{name} one".encode(), f"{name} two".encode()])

    text = f"from:\n  file: {{path: in}}\nto:\n  topic: {{name: {topic}}}\n"
    # More batches than the log keeps apart: every tenth entry has all files.
    for number in range(11):
        put(f"lite {number}.txt")
        connect(text)
    put("half.txt")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TopicTarget, "write", lambda self, batch: (_ for _ in ()).throw(KeyboardInterrupt))
        connect(text)
    on_spark(text)
    assert values_of(headrace, topic) == written
    put("spark.txt")
    on_spark(text)
    put("lite again.txt")
    connect(text)
    assert values_of(headrace, topic) == written
    put("open.txt")
    on_spark(text)
    crash(tmp_path / "storage" / "c" / "checkpoints" / "c")
    with pytest.raises(PipelineError, match=r"Spark began batch \d+ and did not finish it: run it once without --lite"):
        connect(text)
    on_spark(text)
    connect(text)
    assert values_of(headrace, topic) == written


def test_table_connector_changes_runner(connect: Connect, on_spark: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as source, sqlite3.connect(tmp_path / "t.db") as target:
        source.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, name TEXT, share REAL)")
        target.execute("CREATE TABLE copied (id INTEGER, name TEXT, share REAL)")

    def add(count: int) -> None:
        with sqlite3.connect(tmp_path / "s.db") as database:
            database.executemany(
                "INSERT INTO log (name, share) VALUES (?, ?)", [(f"n{i}", i / 4) for i in range(count)]
            )

    text = (
        f"from:\n  jdbc: {{url: 'sqlite:///{tmp_path}/s.db', table: log, column: id}}\n"
        f"to:\n  jdbc: {{url: 'sqlite:///{tmp_path}/t.db', table: copied}}\n"
    )
    checkpoint = tmp_path / "storage" / "c" / "checkpoints" / "c"
    for runner in (connect, on_spark, connect):
        add(10)
        runner(text)
        crash(checkpoint)
    on_spark(text)
    with sqlite3.connect(tmp_path / "s.db") as source, sqlite3.connect(tmp_path / "t.db") as target:
        rows = source.execute("SELECT * FROM log ORDER BY id").fetchall()
        assert target.execute("SELECT * FROM copied ORDER BY id").fetchall() == rows
    assert len(rows) == 30


def test_plugin_connector_changes_runner(headrace: Cluster, connect: Connect, on_spark: Run, tmp_path: Path) -> None:
    topic = headrace.topic()
    with running_http_server() as server, running_http_server() as hook:
        text = (
            f"from:\n  http: {{url: '{server.url}', rows: data.items, cursor: id, schema: 'id bigint, name string'}}\n"
            f"to:\n  topic: {{name: {topic}, key: id}}\n"
        )
        calls = (
            f"from:\n  topic: {{name: {topic}, schema: 'id bigint, name string'}}\n"
            f"to:\n  http: {{url: '{hook.url}', rows_per_request: 100}}\n"
        )
        headrace.client.create_topic(f"{topic}.dlq", 1)
        for number, runner in enumerate((connect, on_spark, connect)):
            server.rows += [{"id": 10 * number + i, "name": f"ü{i}"} for i in range(6)]
            runner(text)
            crash(tmp_path / "storage" / "c" / "checkpoints" / "c")
            if number < 2:
                # Rows that one runner posted and the other must not post again.
                runner(calls, "calls")
                crash(tmp_path / "storage" / "calls" / "checkpoints" / "calls")
        on_spark(text)
        connect(calls, "calls")
        wanted = sorted(row["id"] for row in server.rows)
        assert sorted(json.loads(value)["id"] for value in values_of(headrace, topic).elements()) == wanted
        assert sorted(row["id"] for _, _, body in hook.requests for row in json.loads(body)) == wanted


def test_lite_refuses_what_only_spark_can_continue(connect: Connect, tmp_path: Path, headrace: Cluster) -> None:
    topic = headrace.topic()
    text = (
        f"from:\n  topic: {{name: {topic}}}\nselect: SELECT key, value FROM source\nto:\n  topic: {{name: {topic}x}}\n"
    )
    checkpoint = tmp_path / "storage" / "c" / "checkpoints" / "c"
    checkpoint.mkdir(parents=True)
    (checkpoint / "headrace-plan.json").write_text(json.dumps({"sources": ["kafka"]}))
    with pytest.raises(PipelineError, match="Spark's own connector made the checkpoint"):
        connect(text)
    (checkpoint / "headrace-plan.json").unlink()
    (checkpoint / "state").mkdir()
    with pytest.raises(PipelineError, match="keeps state"):
        connect(text)
    for end, words in (
        ("to:\n  parquet: {path: x}\n", "it writes parquet"),
        ("to:\n  topic: {name: t, encode: avro}\n", 'it has "encode"'),
    ):
        with pytest.raises(PipelineError, match=f"{words}.*, which needs Spark: run the connector without --lite"):
            connect(f"from:\n  topic: {{name: {topic}}}\n{end}", "other")
