"""A pipeline directory in Spark's own runner `spark-pipelines run`, which needs the packages of Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.pipelines.flows.templates import init
from headrace.pipelines.spark.java import find_java
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.effort import is_long


@pytest.mark.skipif(not is_long(), reason="Spark's own runner takes half a minute to start (HEADRACE_EFFORT=long)")
def test_pipeline_directory_runs_with_the_stock_command(headrace: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's packages: pip install 'headrace[connect]'")
    for topic in ("input", "output"):
        headrace.client.create_topic(topic, 1)
    now = int(time.time() * 1000)
    headrace.write("input", [Record(None, word, timestamp_ms=now) for word in (b"one", b"two")])
    init(tmp_path / "shout", "copy")
    spec = tmp_path / "shout" / "spark-pipeline.yml"
    storage = (tmp_path / "shout" / "storage").as_uri()
    text = spec.read_text().replace("storage: storage", f"storage: {storage}")
    spec.write_text(text.replace("localhost:9092", headrace.bootstrap))
    command = Path(sys.executable).with_name("spark-pipelines")
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    environment["PATH"] = f"{command.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [command, "run", "--spec", spec],
        cwd=tmp_path / "shout",
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert values_of(headrace, "output") == {b"ONE": 1, b"TWO": 1}
