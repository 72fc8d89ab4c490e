"""The stream example of the README reads a topic without a jar."""

from __future__ import annotations

from typing import Any

from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.support.readme import moved, python_block


def test_the_stream_of_the_readme_reads_the_topic(spark: Any, headrace: Cluster) -> None:
    topic = headrace.topic(1)
    headrace.write(topic, [Record(b"ann", b"tea", timestamp_ms=1), Record(b"bob", b"coffee", timestamp_ms=2)])
    block = moved(python_block("readStream"), headrace.bootstrap).replace(
        '"subscribe", "orders"', f'"subscribe", "{topic}"'
    )
    names: dict[str, Any] = {"spark": spark}
    exec(block, names)
    query = names["orders"].writeStream.format("memory").queryName("tour").trigger(availableNow=True).start()
    query.awaitTermination(120)
    read = [(bytes(row["key"]), bytes(row["value"])) for row in spark.table("tour").collect()]
    assert read == [(b"ann", b"tea"), (b"bob", b"coffee")]
