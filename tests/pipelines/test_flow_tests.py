"""`headrace pipeline test`: the test of every template passes, and a wrong expectation is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors.connector import load_pipeline
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.flow_testing.flow_test_run import run_test
from headrace.pipelines.flows.flow_testing.flow_tests import find_tests
from headrace.pipelines.flows.templates import TEMPLATES, init
from headrace.testing.process import broker_process


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with broker_process() as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("template", [*TEMPLATES, "wordcount"])
def test_example_of_a_template_passes(spark: Any, bootstrap: str, tmp_path: Path, template: str) -> None:
    init(tmp_path / "new", template)
    (one,) = find_tests(tmp_path / "new")
    outcome = run_test(tmp_path / "new", load_pipeline(tmp_path / "new"), spark, one, bootstrap, tmp_path / "storage")
    assert outcome.differences == {}
    assert outcome.passed


def test_connector_is_tested_and_a_difference_is_shown(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "dear.yml"
    file.write_text(
        'from: {topic: {name: sums, schema: "id string, amount double"}}\n'
        "select: SELECT id, amount FROM source WHERE amount > 10\nto: {topic: {name: dear, key: id}}\n"
    )
    (tmp_path / "dear.test.yml").write_text(
        "input: {sums: [{value: {id: a, amount: 5}}, {value: {id: b, amount: 50}}]}\n"
        "output: {dear: [{key: b, value: {id: b, amount: 51}}]}\n"
    )
    (one,) = find_tests(file)
    outcome = run_test(file, load_pipeline(file, bootstrap), spark, one, bootstrap, tmp_path / "storage")
    (lines,) = outcome.differences.values()
    assert [line[0] for line in lines] == ["-", "+"] and "51" in lines[0] and "50.0" in lines[1]


def test_flow_that_writes_elsewhere_is_refused(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "away.yml"
    file.write_text(f"from: {{topic: {{name: away}}}}\nto: {{parquet: {{path: {tmp_path}/lake}}}}\n")
    (tmp_path / "away.test.yml").write_text("input: {away: [x]}\noutput: {lake: [x]}\n")
    (one,) = find_tests(file)
    with pytest.raises(PipelineError, match="a test must not write elsewhere"):
        run_test(file, load_pipeline(file, bootstrap), spark, one, bootstrap, tmp_path / "storage")
    assert not (tmp_path / "lake").exists()
