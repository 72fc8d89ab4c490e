"""Materialized views of a pipeline: computed as a whole and exchanged for the files of before."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.flows.graph import ResolvedFlow


def write_views(spark: SparkSession, spec: PipelineSpec, views: Sequence[ResolvedFlow], tables: Iterable[str]) -> None:
    """`tables` are the streaming tables of the pipeline. They may have new files since Spark listed them."""
    for name in tables:
        spark.catalog.refreshTable(name)
    for item in views:
        frame = item.flow.func()
        path = spec.storage_uri("tables", item.target.name)
        fresh = f"{path}.next"
        frame.write.format(item.target.format or "parquet").mode("overwrite").save(fresh)
        if spec.is_local:
            shutil.rmtree(path, ignore_errors=True)
            Path(fresh).rename(path)
        else:
            _exchange(spark, fresh, path)
        spark.catalog.refreshTable(item.target.name)


def _exchange(spark: SparkSession, fresh: str, path: str) -> None:
    """Gives the new files their place in a file system that only Hadoop's client reaches."""
    jvm = spark._jvm
    assert jvm is not None, "a running session has a JVM"
    new, place = jvm.org.apache.hadoop.fs.Path(fresh), jvm.org.apache.hadoop.fs.Path(path)
    system = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    system.delete(place, True)
    if not system.rename(new, place):
        raise PipelineError(f"the files of a view could not get their place {path}: they are in {fresh}")
