"""Pipeline directories: check, run, progress, reset, replay, dead letters and restarts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.dead_letters import list_dead_letters, retry_dead_letters
from headrace.pipelines.flows.flow_names import rename
from headrace.pipelines.flows.progress import read_progress
from headrace.pipelines.flows.replay import replay
from headrace.pipelines.flows.reset import reset
from headrace.pipelines.flows.run_lock import holder_of
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.spec import BOOTSTRAP, FORMAT, REALTIME, load_spec
from headrace.pipelines.flows.templates import TEMPLATES, init
from headrace.pipelines.spark.plan_guard import PlanChanged
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.clock import wait_for

_HEAD = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as f
from headrace.pipelines.decode import dead_letters, decode
spark = SparkSession.active()
B = spark.conf.get("headrace.bootstrap.servers")
def topic(name):
    return (spark.readStream.format("headrace").option("kafka.bootstrap.servers", B).option("subscribe", name)
        .option("startingOffsets", "earliest").option("kafka.isolation.level", "read_committed").load())
"""


@pytest.fixture
def made(headrace: Cluster, tmp_path: Path) -> Callable[..., Any]:
    """Writes a pipeline directory and returns its spec."""

    def write(name: str, python: str = "", sql: str = "") -> Any:
        folder = tmp_path / name
        (folder / "transformations").mkdir(parents=True, exist_ok=True)
        (folder / "spark-pipeline.yml").write_text(
            f'name: {name}\nstorage: storage\nconfiguration:\n  {BOOTSTRAP}: "{headrace.bootstrap}"\n'
            "libraries:\n  - glob:\n      include: transformations/**\n"
        )
        if python:
            (folder / "transformations" / "flows.py").write_text(_HEAD + python)
        if sql:
            (folder / "transformations" / "flows.sql").write_text(sql)
        return load_spec(folder)

    return write


def run_once(spec: Any, spark: Any) -> PipelineRun:
    run = PipelineRun(spec, spark, report=lambda _: None, once=True)
    run.start()
    run.supervise()
    return run


def fill(headrace: Cluster, topic: str, *values: bytes) -> None:
    now = int(time.time() * 1000)
    headrace.write(topic, [Record(None, value, timestamp_ms=now) for value in values])


def copy_flow(source: str, target: str, change: str = 'f.upper(f.col("value").cast("string"))') -> str:
    return f"""
dp.create_sink("out", "headrace", {{"kafka.bootstrap.servers": B, "topic": "{target}"}})
@dp.append_flow(target="out")
def copied():
    return topic("{source}").select("key", {change}.alias("value"))
"""


def test_a_directory_of_python_and_sql_runs_and_reports(spark: Any, headrace: Cluster, made: Any) -> None:
    source, target = headrace.topic(), headrace.topic()
    fill(headrace, source, b"one", b"two", b"three")
    spec = made(
        "mixed",
        python=f"""
@dp.temporary_view
def lines():
    return topic("{source}")
{copy_flow(source, target)}
""",
        sql="""
-- a table of files; it needs the view above; and a view over it
CREATE STREAMING TABLE kept AS SELECT string(value) AS text, offset FROM STREAM lines WHERE string(value) <> ';';
CREATE MATERIALIZED VIEW longest AS SELECT max(length(text)) AS size FROM kept;
""",
    )
    run = run_once(spec, spark)
    assert {flow.name for flow in run.flows} == {"copied", "kept"}
    assert set(values_of(headrace, target)) == {b"ONE", b"TWO", b"THREE"}
    assert [row.size for row in spark.read.parquet(spec.storage_uri("tables", "longest")).collect()] == [5]
    progress = read_progress(headrace.bootstrap)["mixed.copied"]
    assert (progress["state"], progress["lag"], progress["end_offsets"]) == ("stopped", 0, {source: {"0": 3}})
    assert headrace.client.committed_offsets("mixed.copied") == {(source, 0): (3, "")}
    none = {"dropped": 0, "dead letters": 0}
    assert {str(row["flow"]): row for row in run.totals()} == {
        name: {"flow": name, "read": 3, "written": 3, **none} for name in ("copied", "kept")
    }
    assert holder_of(spec) is None


def test_bad_rows_go_to_a_dead_letter_topic_and_back(spark: Any, headrace: Cluster, made: Any) -> None:
    orders, good = headrace.topic(), headrace.topic()
    headrace.client.create_topic(f"{orders}.dlq", 1)
    fill(headrace, orders, b'{"id": "a", "amount": 2.5}', b"not json", b'{"id": "b", "amount": "much"}')
    spec = made(
        "checked",
        python=f"""
dp.create_sink("good", "headrace", {{"kafka.bootstrap.servers": B, "topic": "{good}"}})
dp.create_sink("bad", "headrace", {{"kafka.bootstrap.servers": B}})
@dp.temporary_view
def orders():
    return decode(topic("{orders}"), "id string, amount double")
@dp.append_flow(target="good")
def fine():
    return spark.readStream.table("orders").where("_error is null").select(f.col("id").alias("value"))
@dp.append_flow(target="bad")
def letters():
    return dead_letters(spark.readStream.table("orders"))
""",
    )
    run_once(spec, spark)
    assert set(values_of(headrace, good)) == {b"a"}
    (letters,) = [found for found in list_dead_letters(headrace.client) if found.topic == f"{orders}.dlq"]
    assert (letters.waiting, letters.total) == (2, 2)
    assert letters.last_error is not None and letters.last_error.startswith("not JSON of the schema: ")
    assert retry_dead_letters(headrace.client, orders) == 2
    assert retry_dead_letters(headrace.client, orders) == 0
    assert values_of(headrace, orders)[b"not json"] == 2


def test_stopped_flow_is_reset_and_a_range_is_replayed(spark: Any, headrace: Cluster, made: Any) -> None:
    source, target = headrace.topic(), headrace.topic()
    fill(headrace, source, b"a", b"b", b"c", b"d")
    spec = made("moved", copy_flow(source, target))
    run_once(spec, spark)
    said: list[str] = []
    moved = reset(spec, f'{{"{source}":{{"0":2}}}}', flow="copied", bootstrap=None)
    assert moved == {"copied": [{source: {"0": 2}}]}
    run_once(spec, spark)
    assert values_of(headrace, target) == {b"A": 1, b"B": 1, b"C": 2, b"D": 2}
    begin, end = f'{{"{source}":{{"0":1}}}}', f'{{"{source}":{{"0":3}}}}'
    rows = replay(spec, spark, flow="copied", begin=begin, end=end, bootstrap=None, report=said.append)
    assert rows == 2
    assert values_of(headrace, target) == {b"A": 1, b"B": 2, b"C": 3, b"D": 2}
    reset(spec, "latest", flow=None, bootstrap=None)
    run_once(spec, spark)
    assert values_of(headrace, target) == {b"A": 1, b"B": 2, b"C": 3, b"D": 2}


def test_flow_stops_when_its_topic_is_recreated_until_it_is_reset(spark: Any, headrace: Cluster, made: Any) -> None:
    source, target = headrace.topic(), headrace.topic()
    fill(headrace, source, b"a", b"b")
    spec = made("again", copy_flow(source, target))
    run_once(spec, spark)
    headrace.delete_topic(source)
    wait_for(lambda: source not in headrace.client.topics([source]), "the topic to be gone")
    headrace.client.create_topic(source, 1)
    fill(headrace, source, b"c", b"d", b"e", b"f")
    with pytest.raises(PipelineError, match="was deleted and created again"):
        run_once(spec, spark)
    assert set(values_of(headrace, target)) == {b"A", b"B"}
    reset(spec, f'{{"{source}":{{"0":0}}}}', flow=None, bootstrap=None)
    run_once(spec, spark)
    assert set(values_of(headrace, target)) == {b"A", b"B", b"C", b"D", b"E", b"F"}


def test_changed_plan_on_an_old_checkpoint_is_refused_with_a_remedy(spark: Any, headrace: Cluster, made: Any) -> None:
    source, target = headrace.topic(), headrace.topic()
    fill(headrace, source, b"a", b"b")

    def counting(column: str) -> str:
        return f"""
dp.create_sink("out", "headrace", {{"kafka.bootstrap.servers": B, "topic": "{target}"}})
@dp.append_flow(target="out")
def counted():
    return topic("{source}").groupBy({column}).count().select(f.col("count").cast("string").alias("value"))
"""

    spec = made("changed", counting("'value'"))
    run_once(spec, spark)
    with pytest.raises(
        PlanChanged, match=r"stateful operators .* changed .*headrace pipeline reset DIR --flow counted"
    ):
        run_once(made("changed", counting("'value', 'partition'")), spark)
    reset(spec, "earliest", flow="counted", bootstrap=None)
    run_once(made("changed", counting("'value', 'partition'")), spark)


def test_changed_expression_below_a_grouping_is_refused_and_a_renamed_flow_continues(
    spark: Any, headrace: Cluster, made: Any
) -> None:
    source, target = headrace.topic(), headrace.topic()
    fill(headrace, source, b"Ab", b"ab")

    def counting(name: str, key: str) -> str:
        return f"""
dp.create_sink("out", "headrace", {{"kafka.bootstrap.servers": B, "topic": "{target}"}})
@dp.append_flow(target="out")
def {name}():
    words = topic("{source}").select(f.expr("{key}").alias("k"))
    return words.groupBy("k").count().select(f.concat("k", f.lit("="), f.col("count").cast("string")).alias("value"))
"""

    spec = made("below", counting("counted", "lower(string(value))"))
    run_once(spec, spark)
    with pytest.raises(PlanChanged, match=r"below the state changed.*--accept-changed-query"):
        run_once(made("below", counting("counted", "upper(string(value))")), spark)
    renamed = made("below", counting("total", "lower(string(value))"))
    with pytest.raises(PipelineError, match="headrace pipeline rename DIR counted total"):
        run_once(renamed, spark)
    rename(spec, "counted", "total")
    assert "below.counted" not in read_progress(headrace.bootstrap)
    fill(headrace, source, b"AB")
    run_once(renamed, spark)
    assert values_of(headrace, target) == {b"ab=2": 1, b"ab=3": 1}


def test_a_running_pipeline_follows_new_records_and_stops_when_asked(spark: Any, headrace: Cluster, made: Any) -> None:
    source, target = headrace.topic(), headrace.topic()
    spec = made("followed", copy_flow(source, target))
    run = PipelineRun(spec, spark, report=lambda _: None)
    run.start()
    watcher = threading.Thread(target=run.supervise)
    watcher.start()
    try:
        with pytest.raises(PipelineError, match="stop it first"):
            reset(spec, "latest", flow=None, bootstrap=None)
        fill(headrace, source, b"late")
        wait_for(lambda: b"LATE" in values_of(headrace, target), "the record in the target topic")
    finally:
        run.stop()
        watcher.join(60)
    assert values_of(headrace, target) == {b"LATE": 1}
    assert read_progress(headrace.bootstrap)["followed.copied"]["state"] == "stopped"


def test_failed_flow_restarts_and_loses_nothing(spark: Any, headrace: Cluster, made: Any, tmp_path: Path) -> None:
    source, target = headrace.topic(), headrace.topic()
    trouble = tmp_path / "trouble"
    change = 'f.udf(careful)(f.col("value").cast("string"))'
    spec = made(
        "unlucky",
        f"""
def careful(text):
    import os
    if text == "two" and os.path.exists("{trouble}"):
        raise OSError("the disk is away")
    return text.upper()
{copy_flow(source, target, change)}""",
    )
    said: list[str] = []
    run = PipelineRun(spec, spark, report=said.append)
    run.start()
    watcher = threading.Thread(target=run.supervise)
    watcher.start()

    try:
        fill(headrace, source, b"one")
        wait_for(lambda: run.flows[0].finished_batches > 0, "a finished batch")
        trouble.touch()
        fill(headrace, source, b"two")
        wait_for(lambda: said, "the report of the failure")
        last = read_progress(headrace.bootstrap)["unlucky.copied"]
        trouble.unlink()
        wait_for(lambda: b"TWO" in values_of(headrace, target), "the second record in the target topic")
    finally:
        run.stop()
        watcher.join(60)
    assert values_of(headrace, target) == {b"ONE": 1, b"TWO": 1}
    assert said[0] == "flow 'copied' failed and starts again in 1 s: flows.py:14: OSError: the disk is away"
    assert (last["state"], last["restarts"], last["last_error"]) == (
        "restarting",
        1,
        "flows.py:14: OSError: the disk is away",
    )
    # The pause doubles while the flow fails.
    assert run.flows[0].pause_s == 2.0 ** len(said)


def test_flow_runs_in_real_time_mode_with_sparks_connector(
    spark: Any, official_jars: list[Path], headrace: Cluster, made: Any
) -> None:
    if not official_jars:
        pytest.skip("Spark's own connector cannot be fetched here (Maven)")
    source, target = headrace.topic(), headrace.topic()
    python = copy_flow(source, target).replace('"topic":', '"mode": "at-least-once", "topic":')
    python = python.replace("topic(", "quick(").replace(
        "@dp.append_flow",
        """
def quick(name):
    return (spark.readStream.format(spark.conf.get("headrace.format")).option("kafka.bootstrap.servers", B)
        .option("subscribe", name).option("startingOffsets", "earliest").load())
@dp.append_flow""",
    )
    spec = made("quick", python).with_settings({REALTIME: "5 minutes", FORMAT: "kafka"})
    run = PipelineRun(spec, spark, report=lambda _: None)
    run.start()
    watcher = threading.Thread(target=run.supervise)
    watcher.start()
    try:
        for word in (b"one", b"two"):
            fill(headrace, source, word)
            wait_for(lambda word=word: word.upper() in values_of(headrace, target), f"{word!r} in the target topic")
    finally:
        run.stop()
        watcher.join(60)
    # Both records were in one batch, which lasts five minutes: they did not wait for a micro-batch.
    assert values_of(headrace, target) == {b"ONE": 1, b"TWO": 1}
    assert run.flows[0].progress.batch_id <= 0


def test_failing_update_is_reported_in_one_sentence(spark: Any, headrace: Cluster, made: Any) -> None:
    source = headrace.topic()
    fill(headrace, source, b"a")
    spec = made(
        "updates",
        f"""
dp.create_sink("out", "headrace", {{"kafka.bootstrap.servers": B}})
@dp.append_flow(target="out")
def counted():
    return (topic("{source}").groupBy("value").count()
        .select(f.lit("").alias("value"), f.lit(None).cast("string").alias("topic")))
""",
    )
    with pytest.raises(PipelineError, match=r"flow 'counted' failed: a row's \"topic\" is null") as failed:
        run_once(spec, spark)
    assert "StackOverflowError" not in str(failed.value) and "\n" not in str(failed.value)


@pytest.mark.parametrize("length", [2_000, 15_000])
def test_spark_can_search_a_long_traceback(spark: Any, length: int) -> None:
    """Spark searches exceptions of foreachBatch with this pattern. The default stack of JVM threads is 1 MB."""
    jvm = spark._jvm
    text = (
        "py4j.protocol.Py4JJavaError: "
        + "at org.apache.X(Y.java:1)\n" * (length // 26)
        + "java.io.InterruptedIOException"
    )
    pattern = jvm.java.util.regex.Pattern.compile("py4j.protocol.Py4JJavaError(.|\\r\\n|\\r|\\n)*(java.io.Interrupted)")
    assert pattern.matcher(text).find()


@pytest.mark.parametrize(
    ("python", "sql", "words"),
    [
        ("1 / 0", "", "flows.py:10: ZeroDivisionError"),
        ("", "DROP TABLE x", "only CREATE STREAMING TABLE"),
        ("", "CREATE STREAMING TABLE t AS SELECT * FROM STREAM nothing_here", "nothing_here"),
        ('@dp.append_flow(target="outt")\ndef x():\n    return topic("a")', "", "'outt', which is not defined"),
        ("@dp.table\ndef x():\n    return spark.range(3)", "", "needs a streaming query"),
        ("@dp.materialized_view\ndef x():\n    return 3", "", "returned int, not a DataFrame"),
        ("x = 1", "", "define no flow"),
    ],
)
def test_check_names_the_file_and_what_is_wrong(spark: Any, made: Any, python: str, sql: str, words: str) -> None:
    with pytest.raises(PipelineError) as refusal:
        PipelineRun(made("wrong", python, sql), spark, report=lambda _: None).resolve()
    assert words in str(refusal.value)


@pytest.mark.parametrize("template", [*TEMPLATES, "wordcount"])
def test_templates_pass_the_check_without_changes(spark: Any, headrace: Cluster, tmp_path: Path, template: str) -> None:
    init(tmp_path / "new", template)
    spec = load_spec(tmp_path / "new").with_settings({BOOTSTRAP: headrace.bootstrap})
    flows = PipelineRun(spec, spark, report=lambda _: None).resolve()
    assert flows
    for view in [item.target.name for item in flows]:
        spark.catalog.dropTempView(view)
        spark.sql(f"DROP TABLE IF EXISTS {view}")
    with pytest.raises(PipelineError, match="is not empty"):
        init(tmp_path / "new", template)


def test_avro_rows_are_decoded_and_bad_ones_have_an_error(spark: Any) -> None:
    import io

    import fastavro

    from headrace.pipelines.decode import decode

    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "amount", "type": ["null", "double"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": "a", "amount": 1.5, "tags": ["x", "y"]})
    frame = spark.createDataFrame(
        [(out.getvalue(),), (b"\x00\x00\x00\x00\x07" + out.getvalue(),), (b"\xff\xff",), (None,)], "value binary"
    )
    rows = decode(frame, json.dumps(schema), format="avro").collect()
    assert [(r.id, r.amount, r.tags, r._error) for r in rows[:1]] == [("a", 1.5, ["x", "y"], None)]
    assert "begins like a value of a schema registry (id 7)" in rows[1]._error
    assert rows[2]._error.startswith("not AVRO of the schema")
    # A tombstone is a delete, not a letter.
    assert (rows[3]._error, rows[3]._deleted, rows[0]._deleted) == (None, True, False)


def test_json_is_decoded_strictly_and_each_rule_can_be_relaxed(spark: Any) -> None:
    from pyspark.errors import PySparkException

    from headrace.pipelines.decode import decode

    texts = ['{"id": "a", "n": 1}', '{"id": "b"}', '{"id": "c", "n": 3, "x": 1}', '{"id": "d", "n": 4} tail']
    texts += ['{"id": "e", "n": 5},{"id": "f"}', "no", '{"id": "g", "n": null}']
    frame = spark.createDataFrame([(text.encode(),) for text in [*texts]] + [(None,)], "value binary")

    def errors(**rules: str) -> list[str | None]:
        return [row._error for row in decode(frame, "id string, n int", **rules).collect()]

    trailing = "text after the end of the JSON value"
    assert errors() == [
        None, "missing: n", "extra field: x", trailing, trailing, "not JSON of the schema: no", None, None
    ]  # fmt: skip
    relaxed = errors(missing_field="null", extra_field="null", trailing_text="null")
    assert [error is None for error in relaxed] == [True, True, True, True, True, False, True, True]
    assert errors(missing_field="null")[1:3] == [None, "extra field: x"]
    with pytest.raises(PySparkException, match="missing: n"):
        errors(missing_field="fail")
    with pytest.raises(PipelineError, match='missing_field=\'drop\': must be "letter", "null" or "fail"'):
        errors(missing_field="drop")


def test_logical_types_of_avro_have_their_values(spark: Any) -> None:
    import datetime
    import decimal
    import io
    import uuid

    import fastavro

    from headrace.pipelines.decode import decode

    types = {
        "millis": {"type": "long", "logicalType": "timestamp-millis"},
        "micros": {"type": "long", "logicalType": "timestamp-micros"},
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "day": {"type": "int", "logicalType": "date"},
        "clock": {"type": "int", "logicalType": "time-millis"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "who": {"type": "string", "logicalType": "uuid"},
        "raw": "bytes",
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in types.items()]}
    at = datetime.datetime(2026, 1, 31, 12, 30, 15, 123000, datetime.UTC)
    row = {
        "millis": at, "micros": at, "local": at.replace(tzinfo=None), "day": at.date(), "clock": datetime.time(7, 8, 9),
        "price": decimal.Decimal("-12.30"), "who": uuid.UUID(int=7), "raw": b"\xff\x00",
    }  # fmt: skip
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    frame = spark.createDataFrame([(out.getvalue(),)], "value binary")
    shown = ("unix_micros(millis) AS millis", "unix_micros(micros) AS micros", "string(local) AS local")
    decoded = decode(frame, json.dumps(schema), format="avro")
    (got,) = decoded.selectExpr(*shown, "string(day) AS day", "clock", "price", "who", "raw", "_error").collect()
    micros = int(at.timestamp()) * 1_000_000 + 123_000
    assert got.asDict() == {
        "millis": micros, "micros": micros, "local": "2026-01-31 12:30:15.123", "day": "2026-01-31",
        "clock": "07:08:09",
        "price": decimal.Decimal("-12.30"), "who": str(uuid.UUID(int=7)), "raw": b"\xff\x00", "_error": None,
    }  # fmt: skip
