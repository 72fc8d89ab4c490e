"""Tables in a real HDFS: NameNode and DataNodes from Maven's artifacts, and a DataNode that dies."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from headrace.pipelines.spark.java import find_java
from headrace.tables.definitions import first_offsets, topic_metadata
from headrace.tables.lake_table import LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.table_logs import log_of
from tests.support.effort import is_long
from tests.tables import copy_job
from tests.tables.conftest import Brokers, orders

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.needs("mvn"),
    pytest.mark.skipif(not is_long(), reason="long: a download of 60 MB and two JVM services"),
]
_ARTIFACT = "org.apache.hadoop:hadoop-client-minicluster:3.5.0"
_JARS = Path(__file__).resolve().parents[2] / ".cache" / "hadoop"


@dataclass
class Hdfs:
    url: str
    process: subprocess.Popen[str]

    def kill_a_data_node(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("kill\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "killed\n"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    jar = _JARS / "hadoop-client-minicluster-3.5.0.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        assert maven is not None
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={_JARS}"]
        subprocess.run(command, check=True, timeout=600)
    spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
    source = Path(__file__).with_name("HdfsCluster.java")
    java = Path(find_java().home) / "bin" / "java"
    place = tmp_path_factory.mktemp("hdfs")
    command = [str(java), "-cp", f"{jar}:{spark_jars}", str(source), str(place)]
    with (
        (place / "log.txt").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:1] == ["port"], (place / "log.txt").read_text()
        try:
            yield Hdfs(f"hdfs://127.0.0.1:{words[1]}", process)
        finally:
            process.kill()


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_in_hdfs_equals_its_topic(brokers: Brokers, hdfs: Hdfs, tmp_path: Path, form: str) -> None:
    topic = brokers.topic(2)
    found = topic_metadata(brokers.client, topic)
    catalog = f"sqlite:///{tmp_path}/catalog.db" if form == "iceberg" else ""
    table = LakeTable(topic, str(found.topic_id), f"{hdfs.url}/lake/{topic}", format=form, catalog=catalog)
    log = log_of(table)
    log.create(kafka_schema(binary=True), [], first_offsets(brokers.client, found, "all", None))
    for partition in range(2):
        brokers.write(topic, orders(20), partition=partition)
        copy_job.copy(brokers.cluster, table)
        if form == "delta" and partition == 0:
            hdfs.kill_a_data_node()
    log.compact(1 << 20, 24)
    copy_job.copy(brokers.cluster, table)
    rows = log.open().dataset().to_table().to_pylist()
    assert sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in rows) == brokers.independent_read(topic)
