"""The topics of a pipeline are found in its files, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.facts.pipeline_rights import Side, rights_of_mirror
from headrace.cli.facts.pipeline_topics import UnclearPattern, is_mirror, names_of_pattern, topics_of_pipeline
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


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", {"orders"}),
        (r"orders|clicks-.*|eu\.orders", {"orders", "clicks-*", "eu.orders"}),
        ("a.+", {"a*"}),
        (".*", {"*"}),
    ],
)
def test_patterns_become_names_and_prefixes(pattern: str, names: set[str]) -> None:
    assert names_of_pattern(pattern) == names


@pytest.mark.parametrize("pattern", ["a[0-9]+", "(a|b)c", "a|", ".*-orders"])
def test_other_patterns_are_refused_with_the_way_out(pattern: str) -> None:
    with pytest.raises(UnclearPattern, match="name the topics with --reads"):
        names_of_pattern(pattern)


def test_a_mirror_has_rights_in_two_clusters(tmp_path: Path) -> None:
    file = tmp_path / "east.yml"
    file.write_text(
        'source: {bootstrap: "east:1"}\ntarget: {bootstrap: "all:1"}\n'
        'topics: "orders|clicks-.*"\nrename: "east.{topic}.copy"\n'
    )
    assert is_mirror(file)
    source, target = rights_of_mirror(file, frozenset())
    assert (source.side, source.bootstrap, target.side, target.bootstrap) == (
        Side.SOURCE,
        "east:1",
        Side.TARGET,
        "all:1",
    )
    assert {"orders", "clicks-", "__streams", "__pipelines", "east."} == {pattern.name for pattern, _ in source.rights}
    written = {"east.orders.copy", "east.clicks-", "__sink_ledger", "mirror-east-"}
    assert written == {pattern.name for pattern, _ in target.rights}


def test_a_connector_that_decodes_nothing_has_no_dead_letters(tmp_path: Path) -> None:
    file = tmp_path / "copy.yml"
    file.write_text(
        "bootstrap: localhost:9092\nfrom:\n  topic: {pattern: 'a-.*'}\n"
        "to:\n  topic: {name: big, options: {transactionalIdPrefix: mine}}\n"
    )
    found = topics_of_pipeline(file)
    assert (found.reads, found.id_prefixes, found.writes_dead_letters) == ({"a-*"}, {"mine-"}, False)
