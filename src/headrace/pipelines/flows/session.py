"""The Spark session of one pipeline, with its backend and its Spark settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipelines.flows.run_lock import RunLock
from headrace.pipelines.flows.spec import BACKEND, FORMAT, REALTIME, PipelineSpec
from headrace.pipelines.session import spark_session
from headrace.pipelines.spark.connector_jars import choose_backend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refuse_while_running(spec: PipelineSpec) -> None:
    """Raises PipelineError if the pipeline runs already, before Spark spends seconds on its start."""
    RunLock(spec).release()


def pipeline_session(
    spec: PipelineSpec, backend: str | None, master: str | None, report: Callable[[str], None]
) -> tuple[PipelineSpec, SparkSession]:
    """Chooses and reports the backend. Returns a session with it, and the pipeline's settings for it."""
    wish = backend or spec.configuration.get(BACKEND, "auto")
    chosen = choose_backend(wish, realtime=REALTIME in spec.configuration)
    report(f"pipeline {spec.name}: {chosen}")
    static = {name: value for name, value in spec.configuration.items() if name.startswith("spark.")}
    spark = spark_session(spec.name, master=master, settings=chosen.settings(static))
    return spec.with_settings({FORMAT: chosen.format}), spark


def make_active(spark: SparkSession) -> None:
    """Spark looks up data sources in the active session of the thread. The supervising thread may not be the one that
    created the session, and a restarted query would not find its data source."""
    type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
