"""The choice of the backend, and its message."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.pipelines.output import Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation
from typer.testing import CliRunner

from headrace.cli.pipeline.command import app
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.spark.connector_jars import Backend, choose_backend, fetch_jars
from headrace.pipelines.spark.plan_guard import PlanChanged, guard, shape_of
from headrace.pipelines.spark.realtime import connector_sink
from tests.support.effort import is_long

_JARS = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    return tmp_path


def with_jars(cache: Path) -> list[Path]:
    folder = cache / "kafka-connector"
    folder.mkdir()
    for name in _JARS:
        (folder / name).write_bytes(b"")
    return [folder / name for name in _JARS]


def test_chosen_backend_and_its_message(cache: Path) -> None:
    assert str(choose_backend()) == 'backend python: format("headrace"), no jar'
    with pytest.raises(PipelineError, match="not in the cache: run 'headrace pipeline jars' first"):
        choose_backend("jvm")
    with pytest.raises(PipelineError, match="real-time mode: the connector's jars are not in the cache"):
        choose_backend(realtime=True)
    with_jars(cache)
    # Existing jars do not change the backend of a pipeline, because the other backend could not read its checkpoint.
    assert choose_backend().name == "python"
    for chosen in (choose_backend("jvm"), choose_backend(realtime=True)):
        assert str(chosen) == f'backend jvm: format("kafka") from {_JARS[0]}'
    with pytest.raises(OptionError, match="backend=python cannot run in real time"):
        choose_backend("python", realtime=True)
    with pytest.raises(OptionError, match='must be "auto", "python" or "jvm"'):
        choose_backend("java")


def test_connector_jars_are_added_to_the_jars_of_a_pipeline() -> None:
    given = {"spark.jars": "mine.jar", "spark.x": "y"}
    assert Backend("jvm", "kafka", (Path("a.jar"),)).settings(given) == {"spark.jars": "mine.jar,a.jar", "spark.x": "y"}
    assert Backend("python", "headrace", ()).settings(given) == given


def test_jars_are_downloaded_once_and_missing_maven_is_one_sentence(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(PipelineError, match=r"Maven \(mvn\) is not on the PATH: install it, or put .* into"):
        fetch_jars(report=lambda _: None)
    files = with_jars(cache)
    assert fetch_jars(report=lambda _: None) == files


def test_jars_command_prints_the_jars(cache: Path) -> None:
    files = with_jars(cache)
    done = CliRunner().invoke(app, ["jars"])
    assert (done.exit_code, done.stdout.splitlines()) == (0, [str(file) for file in files])


@pytest.mark.skipif(not is_long(), reason="long: seven artifacts are fetched (HEADRACE_EFFORT=long)")
@pytest.mark.needs("mvn")
def test_jars_command_downloads_into_an_empty_cache(cache: Path) -> None:
    done = CliRunner().invoke(app, ["jars"])
    assert done.exit_code == 0, done.output
    jars = [Path(line) for line in done.stdout.splitlines() if line.endswith(".jar")]
    assert len(jars) == 4
    assert all(jar.parent.parent == cache and zipfile.is_zipfile(jar) for jar in jars)


def sink(format: str, **options: str) -> Sink:
    return Sink("out", None, SourceCodeLocation("f.py", 1), format, options)


def test_real_time_flows_write_to_topics_at_least_once() -> None:
    written = connector_sink("f", sink("headrace", topic="t", mode="at-least-once", ledgerTopic="l"))
    assert written == {"topic": "t"}
    with pytest.raises(PipelineError, match='say "mode": "at-least-once" in the sink'):
        connector_sink("f", sink("headrace", topic="t"))
    with pytest.raises(PipelineError, match="which is no topic"):
        connector_sink("f", sink("parquet", path="p"))


def test_a_checkpoint_of_the_other_backend_is_refused(tmp_path: Path) -> None:
    plan = "Project [value#1]\n+- StreamingRelationV2 org.x.PythonDataSourceV2@1f, headrace, PythonTable(x), [a=b]"
    guard(tmp_path, "f", shape_of(plan, "headrace:out"))
    guard(tmp_path, "f", shape_of(plan.replace("@1f", "@77"), "headrace:out"))
    other = plan.replace("org.x.PythonDataSourceV2@1f, headrace", "org.x.KafkaSourceProvider@2a, kafka")
    with pytest.raises(PlanChanged, match=r"sources' format \(the backend\) changed .* is .kafka"):
        guard(tmp_path, "f", shape_of(other, "headrace:out"))
