"""Spark closes the sockets of idle Python processes after a minute. None of them prints a word about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.pipelines.conftest import Cluster
from tests.support.effort import is_long
from tests.support.names import unique

pytestmark = [pytest.mark.needs("java"), pytest.mark.skipif(not is_long(), reason="long: more than a minute idle")]
_RUN: Final = """
import sys, time
from headrace.pipelines.session import spark_session

bootstrap, topic, folder = sys.argv[1:]
spark = spark_session("idle", master="local[1]")
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
rows = spark.readStream.format("headrace").options(**options).load().select("value")
query = rows.writeStream.format("parquet").option("checkpointLocation", folder + "/cp").start(folder + "/rows")
query.processAllAvailable()
time.sleep(90)
query.stop()
spark.stop()
print("ended", flush=True)
"""


def test_idle_processes_end_without_tracebacks(headrace: Cluster, tmp_path: Path) -> None:
    topic = unique("idle")
    headrace.client.create_topic(topic, 1)
    command = [sys.executable, "-c", _RUN, headrace.bootstrap, topic, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert "Traceback" not in done.stderr
