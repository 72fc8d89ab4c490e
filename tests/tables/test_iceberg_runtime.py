"""Iceberg tables in a REST catalog, and Spark's own Iceberg runtime that reads them.

The newest runtime is for Spark 4.1 and does not run in the Spark of Headrace (docs/tables.md), so the reader is a Spark
4.1 of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.spark.java import find_java
from headrace.tables.definitions import first_offsets, topic_metadata
from headrace.tables.formats.iceberg_log import IcebergLog
from headrace.tables.formats.table_log import TableConflict
from headrace.tables.lake_table import LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.table_logs import log_of
from tests.support.effort import is_long
from tests.support.iceberg_rest import rest_catalog
from tests.support.maven import CACHE, jar
from tests.tables import copy_job, iceberg_reader
from tests.tables.conftest import Brokers, orders

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.needs("mvn"),
    pytest.mark.skipif(not is_long(), reason="long: downloads of 500 MB, a REST catalog and a start of Spark"),
]
_SPARK, _RUNTIME = "4.1.4", "1.12.0"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rest_catalog(tmp_path_factory.mktemp("rest")) as address:
        yield address


def _table(brokers: Brokers, catalog: str, path: Path, topic: str, **settings: Any) -> LakeTable:
    found = topic_metadata(brokers.client, topic)
    table = LakeTable(topic, str(found.topic_id), str(path), format="iceberg", catalog=catalog, **settings)
    starts = first_offsets(brokers.client, found, "all", None)
    log_of(table).create(kafka_schema(binary=True), table.partition_columns, starts)
    return table


def test_a_rest_catalog_keeps_the_table(brokers: Brokers, catalog: str, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    table = _table(brokers, catalog, tmp_path / "lake", topic)
    log = log_of(table)
    for _ in range(3):
        brokers.write(topic, orders(10))
        brokers.write_transaction(topic, orders(5), commit=False)
        copy_job.copy(brokers.cluster, table)
    before = log.offsets()
    # Of two writers the second is refused, and a table that exists is attached to.
    with pytest.raises(TableConflict, match="another writer moved the table"):
        log.append([], {0: before[0] + 5}, {0: 10}, 1)
    assert _table(brokers, catalog, tmp_path / "lake", topic) == table
    assert log.compact(1 << 20, 24)["files_joined"] == 3
    rows = log.open().dataset().to_table().to_pylist()
    assert sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in rows) == brokers.independent_read(topic)
    assert log.offsets() == before
    log.unregister()
    with pytest.raises(PipelineError, match="holds no table"):
        log.open()


def test_a_rest_catalog_that_is_away_is_a_sentence(tmp_path: Path) -> None:
    table = LakeTable("orders", "id", str(tmp_path / "lake"), format="iceberg", catalog="http://127.0.0.1:1")
    with pytest.raises(PipelineError, match=r"catalog 'http://127.0.0.1:1': .*Connection refused"):
        log_of(table).exists()


def test_sparks_runtime_reads_the_table(brokers: Brokers, catalog: str, tmp_path: Path) -> None:
    topic = brokers.topic(2)
    table = _table(brokers, catalog, tmp_path / "lake", topic, partition_by="partition")
    log = log_of(table)
    for partition in range(2):
        brokers.write(topic, orders(20), partition=partition)
        brokers.write_transaction(topic, orders(5), partition=partition, commit=False)
        copy_job.copy(brokers.cluster, table)
    log.compact(1 << 20, 24)
    brokers.write(topic, orders(7))
    copy_job.copy(brokers.cluster, table)
    mapped = brokers.topic(1)
    brokers.write(mapped, orders(20))
    keyed = _table(brokers, catalog, tmp_path / "keyed", mapped, mode="upsert-by-key")
    copy_job.copy(brokers.cluster, keyed)
    brokers.write(mapped, orders(5, start=100, keys=9))
    copy_job.copy(brokers.cluster, keyed)
    expected = brokers.independent_read(topic)
    latest = {row[2]: row for row in brokers.independent_read(mapped)}
    for wanted, rows in ((table, expected), (keyed, list(latest.values()))):
        found = {"n": len(rows), "total": sum(row[1] for row in rows), "keys": len({row[2] for row in rows})}
        assert _spark_reads(wanted) == {"catalog": found, "path": found}


def _spark_reads(table: LakeTable) -> object:
    log = log_of(table)
    assert isinstance(log, IcebergLog)
    runtime = jar("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", _RUNTIME)
    names = [str(runtime), table.catalog, f"headrace.`{table.topic}`", log.table().metadata_location]
    settings = {**os.environ, "PYTHONPATH": str(_spark()), "JAVA_HOME": str(find_java().home)}
    settings.pop("SPARK_HOME", None)
    command = [sys.executable, iceberg_reader.__file__, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, env=settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _spark() -> Path:
    """A folder with the package pyspark of this version."""
    folder = CACHE / f"pyspark-{_SPARK}"
    if not folder.exists():
        fresh = folder.with_suffix(".new")
        names = [f"pyspark=={_SPARK}", "py4j==0.10.9.9"]
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", str(fresh)]
        subprocess.run([*command, *names], check=True, timeout=900)
        fresh.replace(folder)
    return folder
