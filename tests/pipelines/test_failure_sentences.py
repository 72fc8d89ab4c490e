"""The likeliest mistakes and failures of Spark, Python, databases, Delta, S3 and HDFS, each made for real: the run ends
with the sentence that `tests/unit/pipelines/failure_texts.json` has for it.

The unit test of the sentences reads recorded texts. This one shows that Spark still writes texts like these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.spec import BOOTSTRAP, load_spec
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.support.effort import is_long

_RECORDED: Final[Mapping[str, Mapping[str, str]]] = json.loads(
    (Path(__file__).parents[1] / "unit" / "pipelines" / "failure_texts.json").read_text()
)
# Three of them in every run, the others take a minute.
_ALWAYS: Final = ("udf_lookup", "missing_column", "sqlite_no_column")
_HEAD: Final = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.active()
B = spark.conf.get("headrace.bootstrap.servers")
def topic(**more):
    return (spark.readStream.format("headrace").option("kafka.bootstrap.servers", B).option("subscribe", "{topic}")
        .option("startingOffsets", "earliest").options(**more).load().selectExpr("string(value) AS value"))
def sink(kind, **options):
    dp.create_sink("out", kind, options)
"""
_NOOP: Final = 'sink("noop")\n'
_FLOW: Final = '@dp.append_flow(target="out")\ndef flow():\n    '
_UDF: Final = "def wrong(text):\n    {body}\n" + _NOOP + _FLOW + 'return topic().select(f.udf(wrong)("value"))'


def _query(text: str) -> str:
    return _NOOP + _FLOW + f"return {text}"


def _written_to(kind: str, **options: str) -> str:
    listed = "".join(f", {name}={value!r}" for name, value in options.items())
    return f'sink("{kind}"{listed})\n' + _FLOW + "return topic()"


# The definition file of a flow that fails, by the name of its recorded text.
_FLOWS: Final = {
    "udf_lookup": _UDF.format(body="return {}[text]"),
    "udf_per_zero": _UDF.format(body="return str(1 / 0)"),
    "udf_missing": _UDF.format(body="import no_such_module"),
    "udf_die": _UDF.format(body="import os; os._exit(7)"),
    "map_in_arrow": "def wrong(batches):\n    raise ValueError('bad batch')\n"
    + _query('topic().mapInArrow(wrong, "value string")'),
    "missing_column": _query('topic().select("amont")'),
    "missing_table": _query('spark.readStream.table("nothing")'),
    "parse": _query('spark.sql("SELEC 1")'),
    "mismatch": _query('topic().selectExpr("value + array(1)")'),
    "ambiguous": _query('topic().crossJoin(spark.range(1).selectExpr("\'x\' AS value")).select("value")'),
    "no_function": _query('topic().selectExpr("nofun(value)")'),
    "cast": _query('topic().selectExpr("CAST(value AS INT) AS n")'),
    "divide": _query('topic().selectExpr("1 / (length(value) - 3) AS n")'),
    "s3a": _written_to("parquet", path="s3a://bucket/orders"),
    "gs": _written_to("parquet", path="gs://bucket/orders"),
    "hdfs_refused": _written_to("parquet", path="hdfs://localhost:1/orders"),
    "hdfs_unknown_host": _written_to("parquet", path="hdfs://no-such-host.invalid:8020/orders"),
    "delta_jar": _written_to("delta", path="/tmp/never-made"),
    "append_agg": _query('topic().groupBy("value").count()'),
    "complete_no_agg": _query("topic()"),
    "brokers_away": _query('topic(**{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "1000"})'),
    "option_typo": _query('spark.readStream.format("headrace").option("subscrib", "x").load()'),
}
_SETTINGS: Final = {
    "append_agg": {"headrace.output.mode": "append"},
    "complete_no_agg": {"headrace.output.mode": "complete"},
}
# Table, target and SELECT of a connector that fails.
_TABLES: Final = {
    "no_table": ("", "table: missing", "value"),
    "no_column": ("CREATE TABLE t (value TEXT)", "table: t", "value, 1 AS vip"),
    "not_null": ("CREATE TABLE nn (value TEXT, must TEXT NOT NULL)", "table: nn", "value, string(NULL) AS must"),
    "conflict_target": ("CREATE TABLE ck (value TEXT)", "table: ck, keys: value", "value"),
    "unique": ("CREATE TABLE u (value TEXT UNIQUE); INSERT INTO u VALUES ('one')", "table: u", "value"),
    "type": ("CREATE TABLE ty (value INT)", "table: ty", "concat('{', value, '}') AS value"),
    "too_long": ("CREATE TABLE tl (value VARCHAR(2))", "table: tl", "value"),
}
_ON_SQLITE: Final = tuple(f"sqlite_{name}" for name in ("no_table", "no_column", "not_null", "conflict_target"))
_ON_POSTGRES: Final = tuple(f"pg_{name}" for name in _TABLES)


def chosen(names: Any) -> list[Any]:
    skipped = pytest.mark.skipif(not is_long(), reason="thirty failing flows (HEADRACE_EFFORT=long)")
    return [name if name in _ALWAYS else pytest.param(name, marks=skipped) for name in names]


@pytest.fixture(scope="module")
def source(headrace: Cluster) -> str:
    topic = headrace.topic()
    headrace.write(topic, [Record(None, b"one", timestamp_ms=1_700_000_000_000)])
    return topic


def sentence_of(run: Callable[[], None]) -> str:
    with pytest.raises(PipelineError) as failure:
        run()
    return re.sub(r"^flow '\w+' (?:failed|cannot start): ", "", str(failure.value))


def expected(name: str) -> re.Pattern[str]:
    """The recorded sentence with any line of the user's file, any port and any directory."""
    words = re.escape(_RECORDED[name]["sentence"])
    words = re.sub(r"flows\\\.py:\d+", r"flows\\.py:\\d+", words)
    words = re.sub(r"(?<=port\\ )\d{2,}", r"\\d+", words)
    # A failure of the function itself names the flow.
    return re.compile(rf"(?:flows\.py:\d+: )?(?:flow '\w+': )?{words}")


@pytest.mark.parametrize("name", chosen(_FLOWS))
def test_failing_flow(spark: Any, headrace: Cluster, source: str, tmp_path: Path, name: str) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flows.py").write_text(_HEAD.replace("{topic}", source) + _FLOWS[name])
    settings = {BOOTSTRAP: headrace.bootstrap, **_SETTINGS.get(name, {})}
    lines = "".join(f'  {key}: "{value}"\n' for key, value in settings.items())
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: {name}\nstorage: storage\nconfiguration:\n{lines}"
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )

    def run() -> None:
        started = PipelineRun(load_spec(tmp_path), spark, report=lambda _: None, once=True)
        try:
            started.start()
            started.supervise()
        finally:
            for key in _SETTINGS.get(name, {}):
                spark.conf.unset(key)

    found = sentence_of(run)
    assert expected(name).fullmatch(found), found


def connector_sentence(spark: Any, headrace: Cluster, file: Path, source: str, select: str, target: str) -> str:
    file.write_text(
        f"bootstrap: {headrace.bootstrap}\nfrom:\n  topic: {{name: {source}}}\nselect: SELECT {select} FROM source\n"
        f"to:\n  {target}\n"
    )

    def run() -> None:
        started = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
        started.start()
        started.supervise()

    return sentence_of(run)


@pytest.mark.parametrize("name", chosen((*_ON_SQLITE, *_ON_POSTGRES)))
def test_failing_table(
    request: pytest.FixtureRequest, spark: Any, headrace: Cluster, source: str, tmp_path: Path, name: str
) -> None:
    kind, _, what = name.partition("_")
    url = f"sqlite:///{tmp_path}/t.db" if kind == "sqlite" else request.getfixturevalue("postgres")
    made, target, select = _TABLES[what]
    with Database(url).connect() as connection:
        for statement in filter(None, made.split(";")):
            connection.execute(statement)
    file, end = tmp_path / f"{name}.yml", f"jdbc: {{url: '{url}', {target}}}"
    found = connector_sentence(spark, headrace, file, source, select, end)
    assert expected(name).fullmatch(found), found


@pytest.mark.skipif(not is_long(), reason="thirty failing flows (HEADRACE_EFFORT=long)")
def test_servers_rights_and_lake(spark: Any, headrace: Cluster, source: str, postgres: str, tmp_path: Path) -> None:
    def found(name: str, target: str, select: str = "value") -> None:
        sentence = connector_sentence(spark, headrace, tmp_path / f"{name}.yml", source, select, target)
        assert expected(name).fullmatch(sentence), sentence

    with Database(postgres).connect() as connection:
        connection.execute("CREATE TABLE secret (value TEXT)")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT CREATE, USAGE ON SCHEMA public TO reader")
    address = re.sub(r"//[^@/]*@", "//", postgres)
    found("pg_refused", "jdbc: {url: 'postgresql://x@127.0.0.1:1/x', table: t}")
    found("pg_no_database", f"jdbc: {{url: '{address.replace('//', '//nodb@', 1)}', table: t}}")
    found("pg_permission", f"jdbc: {{url: '{address.replace('//', '//reader@', 1)}', table: secret}}")
    run = f"delta: {{path: {tmp_path}/lake}}"
    file = tmp_path / "first.yml"
    file.write_text(
        f"bootstrap: {headrace.bootstrap}\nfrom:\n  topic: {{name: {source}}}\n"
        f"select: SELECT value FROM source\nto:\n  {run}\n"
    )
    started = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
    started.start()
    started.supervise()
    sentence = connector_sentence(spark, headrace, tmp_path / "wider.yml", source, "value, 1 AS vip", run)
    assert "has no column 'vip': let the connector add it with evolve: true in to.delta" in sentence


def test_thirty_failures_are_made() -> None:
    made = {*_FLOWS, *_ON_SQLITE, *_ON_POSTGRES, "pg_refused", "pg_no_database", "pg_permission"}
    # And the column that a Delta table lacks, whose sentence is our own.
    assert len(made) >= 30
    assert made <= set(_RECORDED)
