"""`--lite` runs where Spark is not installed, and takes records of every size that the broker accepts."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of

# An import of Spark fails as if it were not installed.
_WITHOUT_SPARK = "import sys; sys.modules['pyspark'] = None; from headrace.cli import main; main()"


@pytest.mark.parametrize("select", ["id, customer", "id, upper(customer) AS customer"])
def test_a_topic_is_copied_without_spark(headrace: Cluster, tmp_path: Path, select: str) -> None:
    source, target = headrace.topic(), headrace.topic()
    headrace.write(source, [Record(b"k", b'{"id": 1, "customer": "ANN"}', timestamp_ms=int(time.time() * 1000))])
    file = tmp_path / "copy.yml"
    file.write_text(
        f"bootstrap: {headrace.bootstrap}\nfrom:\n"
        f"  topic: {{name: {source}, schema: 'id bigint, customer string'}}\n"
        f"select: SELECT {select} FROM source\nto:\n  topic: {{name: {target}, key: id}}\n"
    )
    command = [sys.executable, "-c", _WITHOUT_SPARK, "pipeline", "run", str(file), "--lite", "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert values_of(headrace, target) == {b'{"id":1,"customer":"ANN"}': 1}


def test_large_records_are_copied(headrace: Cluster, tmp_path: Path) -> None:
    """The broker refuses a batch of more than a megabyte."""
    source, target, now = headrace.topic(), headrace.topic(), int(time.time() * 1000)
    values = [b"%05d" % number + b"x" * 9_000 for number in range(300)]
    values[150:150] = [b"y" * 900_000, b"z" * 900_000]
    for value in values:
        headrace.write(source, [Record(None, value, timestamp_ms=now)])
    file = tmp_path / "copy.yml"
    file.write_text(
        f"bootstrap: {headrace.bootstrap}\nfrom:\n  topic: {{name: {source}}}\n"
        f"select: SELECT key, value FROM source\nto:\n  topic: {{name: {target}}}\n"
    )
    command = [sys.executable, "-m", "headrace.cli", "pipeline", "run", str(file), "--lite", "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert values_of(headrace, target) == dict.fromkeys(values, 1)
