"""Spark's own Iceberg runtime reads the Iceberg tables that Headrace wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.tables.definitions import first_offsets, topic_metadata
from headrace.tables.formats.iceberg_log import IcebergLog
from headrace.tables.lake_table import LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.table_logs import log_of
from tests.support.effort import is_long
from tests.tables import copy_job, iceberg_reader
from tests.tables.conftest import Brokers, orders

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.needs("mvn"),
    pytest.mark.skipif(not is_long(), reason="long: a download of 48 MB and a start of Spark"),
]
_VERSION = "1.11.0"
_JARS = Path(__file__).resolve().parents[2] / ".cache" / "iceberg"


def test_sparks_runtime_reads_the_table(brokers: Brokers, tmp_path: Path) -> None:
    jar = _JARS / f"iceberg-spark-runtime-4.1_2.13-{_VERSION}.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        assert maven is not None
        artifact = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{_VERSION}"
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={_JARS}"]
        subprocess.run(command, check=True, timeout=600)
    topic = brokers.topic(2)
    found = topic_metadata(brokers.client, topic)
    catalog = f"sqlite:///{tmp_path}/catalog.db"
    table = LakeTable(topic, str(found.topic_id), str(tmp_path / "lake"), format="iceberg", catalog=catalog)
    log = log_of(table)
    log.create(kafka_schema(binary=True), ["partition"], first_offsets(brokers.client, found, "all", None))
    partitioned = LakeTable(**{**vars(table), "partition_by": "partition"})
    for partition in range(2):
        brokers.write(topic, orders(20), partition=partition)
        brokers.write_transaction(topic, orders(5), partition=partition, commit=False)
        copy_job.copy(brokers.cluster, partitioned)
    log.compact(1 << 20, 24)
    brokers.write(topic, orders(7))
    copy_job.copy(brokers.cluster, partitioned)
    assert isinstance(log, IcebergLog)
    command = [sys.executable, iceberg_reader.__file__, str(jar), log.table().metadata_location]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    expected = brokers.independent_read(topic)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "n": len(expected),
        "total": sum(offset for _, offset, _, _ in expected),
        "keys": len({key for _, _, key, _ in expected}),
    }
