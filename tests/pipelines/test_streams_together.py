"""Streams that start at the same moment do not damage the environment that they share (`spark/source_environment`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.flows.runner import PipelineRun
from headrace.pipelines.flows.spec import BOOTSTRAP, load_spec
from headrace.pipelines.spark.source_environment import VARIABLES, complete_source_environment, source_environment
from tests.pipelines.conftest import Cluster, records

pytestmark = pytest.mark.needs("java")


@pytest.fixture
def environment(spark: Any) -> Any:
    """As in a JVM that has started no stream yet."""
    found = source_environment(spark)
    for name in VARIABLES:
        found.remove(name)
    return found


def test_a_stream_adds_no_other_variable(headrace: Cluster, spark: Any, environment: Any, tmp_path: Path) -> None:
    """A Spark whose streams add further variables fails here."""
    complete_source_environment(spark)
    before = set(environment.keySet())
    topic = headrace.topic()
    headrace.write(topic, records(3))
    rows = spark.readStream.format("headrace").options(**headrace.options(subscribe=topic)).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert set(environment.keySet()) == before and set(VARIABLES) <= before
    assert all(environment[name] for name in VARIABLES), "the stream has put its own values"


def test_a_run_of_two_flows_adds_the_variables_first(
    headrace: Cluster, spark: Any, environment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = headrace.topic()
    (tmp_path / "spark-pipeline.yml").write_text(
        f'name: two_{topic}\nstorage: storage\nconfiguration:\n  {BOOTSTRAP}: "{headrace.bootstrap}"\n'
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flows.py").write_text(f"""
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
def read():
    rows = spark.readStream.format("headrace").option("kafka.bootstrap.servers", "{headrace.bootstrap}")
    return rows.option("subscribe", "{topic}").load()
@dp.table(name="first_{topic}")
def first():
    return read()
@dp.table(name="second_{topic}")
def second():
    return read()
""")
    seen: list[set[str]] = []
    monkeypatch.setattr(PipelineRun, "_start_query", lambda run, flow: seen.append(set(environment.keySet())))
    run = PipelineRun(load_spec(tmp_path), spark, report=lambda text: None, once=True)
    run.start()
    run.stop()
    run.supervise()
    assert len(seen) == 2 and all(set(VARIABLES) <= one for one in seen)
