"""The topics of a pipeline are found in its files, without Spark."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.facts.pipeline_topics import topics_of_pipeline
from headrace.pipelines.flows.templates import init


def test_topics_through_a_function_of_the_file(tmp_path: Path) -> None:
    init(tmp_path / "copy", "copy")
    found = topics_of_pipeline(tmp_path / "copy")
    assert (found.reads, found.writes) == ({"input"}, {"output"})


def test_topics_of_a_connector(tmp_path: Path) -> None:
    file = tmp_path / "connector.yml"
    file.write_text(
        "name: big-orders\nbootstrap: localhost:9092\nfrom:\n  topic: {name: orders, schema: 'id string'}\n"
        "select: SELECT id FROM source\nto:\n  topic: {name: big}\n"
    )
    found = topics_of_pipeline(file)
    assert (found.name, found.reads, found.writes) == ("big-orders", {"orders"}, {"big"})


def test_topics_in_constants_keywords_and_lists(tmp_path: Path) -> None:
    init(tmp_path / "copy", "copy")
    [file] = (tmp_path / "copy" / "transformations").glob("*.py")
    file.write_text(
        'ORDERS = "orders"\nspark.readStream.options(subscribe=ORDERS)\n'
        'spark.readStream.option("subscribe", "a, b")\ncreate_sink("x", "headrace", {"topic": "out"})\n'
    )
    found = topics_of_pipeline(tmp_path / "copy")
    assert (found.reads, found.writes) == ({"orders", "a", "b"}, {"out"})
