"""Each demo's pipeline gives the result of a computation without Spark, and a broken pipeline is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.demos.catalogue import demos
from headrace.testing.process import broker_process
from tests.demos.running import mutated, run_once
from tests.support.effort import is_long

# One change that breaks each demo: (file, text, what replaces it).
MUTATIONS = {
    "social": ("transformations/social.py", 'f.col("topic") == "likes"', 'f.col("topic") == "comments"'),
    "campaign": ("transformations/campaign.py", "interval 30 minutes", "interval 1 millisecond"),
    "movieflix": ("transformations/movieflix.py", "title <> title2", "title < title2"),
    "taxi": ("transformations/taxi.py", 'f.min(f.struct("km"', 'f.max(f.struct("km"'),
    "cep": ("transformations/cep.py", "WITHIN_MS = 1000", "WITHIN_MS = 9000"),
    "metrics": ("transformations/metrics.py", "cpu > 95", "cpu > 90"),
    "logs": ("transformations/logs.py", "UNREADABLE", "LOST"),
    "activity": ("transformations/activity.py", "GAP_MS = 1000", "GAP_MS = 2000"),
    "bank": ("transformations/bank.py", "row.cents > limit", "row.cents >= limit"),
    "ingestion": ("transformations/ingestion.py", '.dropDuplicatesWithinWatermark(["reading"])', ""),
    "datacenters": ("story.py", 'moved = translate_group(east.spec(), "billing")', "moved = {}"),
}
RECORDS = 800
# Three clusters and two mirrors: the test of mirrors covers the same functions in `make test`.
LONG = {"datacenters"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with broker_process() as running:
        yield running.bootstrap


@pytest.mark.parametrize("name", [name for name in MUTATIONS if is_long() or name not in LONG])
def test_result_equals_a_computation_without_spark(name: str, bootstrap: str, tmp_path: Path, spark: Any) -> None:
    right, screen = run_once(demos()[name], bootstrap, tmp_path, records=RECORDS, spark=spark)
    assert right, screen
    assert "equal a computation" in screen


def test_every_demo_has_a_mutation() -> None:
    with_services = {name for name, demo in demos().items() if (demo.directory / "service.py").is_file()}
    assert set(MUTATIONS) == demos().keys() - with_services | {"datacenters"}
    for name, (file, text, _) in MUTATIONS.items():
        assert text in (demos()[name].directory / file).read_text()


@pytest.mark.timeout(600)
@pytest.mark.skipif(not is_long(), reason="one broken pipeline per demo: HEADRACE_EFFORT=long")
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_transformation_is_noticed(name: str, tmp_path: Path, spark: Any) -> None:
    broken = mutated(name, *MUTATIONS[name], tmp_path / "demo")
    with broker_process() as running:
        right, screen = run_once(
            broken, running.bootstrap, tmp_path / "data", records=RECORDS, spark=spark, patience_s=300, settled_s=15
        )  # fmt: skip
    assert not right and "results differ" in screen, screen
