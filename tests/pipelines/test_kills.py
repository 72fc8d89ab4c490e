"""Kills of drivers, executors and their Python workers lose and duplicate nothing.

`make test` kills a driver of a local Spark. HEADRACE_EFFORT=long (`make chaos`) kills ten times each, on a cluster and
with every target.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.pipelines.conftest import Cluster
from tests.pipelines.copy_targets import copy_target
from tests.pipelines.followed_changes import followed_with_kills
from tests.pipelines.kills import DRIVER, EXECUTOR, FREEZE, PYTHON, copy_with_kills
from tests.pipelines.spark_cluster import SparkCluster
from tests.support.effort import is_long, rounds

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]
_EVERY_TARGET = ["topic", "sqlite", "postgres", "parquet"]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster


@pytest.mark.parametrize("kind", _EVERY_TARGET if is_long() else _EVERY_TARGET[:1])
def test_random_kills_lose_and_duplicate_nothing(
    request: pytest.FixtureRequest, headrace: Cluster, tmp_path: Path, kind: str
) -> None:
    kills = rounds(short=1, long=10)
    with ExitStack() as stack:
        outcome = copy_with_kills(
            headrace.bootstrap,
            tmp_path,
            kills=kills,
            rows=rounds(short=800, long=50_000),
            rows_per_batch=rounds(short=100, long=1_000),
            target=copy_target(kind, "headrace", tmp_path, stack),
            victims=(DRIVER, EXECUTOR, PYTHON, FREEZE) if is_long() else (DRIVER,),
            # Spark starts in 15 seconds on two cores, in 30 with executors of its own.
            cluster=request.getfixturevalue("spark_cluster") if is_long() else None,
            seed=3,
        )
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.kills.total() == kills


@pytest.mark.skipif(not is_long(), reason="twelve starts of Spark (HEADRACE_EFFORT=long)")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_captured_changes_reach_the_target_despite_driver_kills(
    request: pytest.FixtureRequest, headrace: Cluster, tmp_path: Path, kind: str
) -> None:
    url = f"sqlite:///{tmp_path}/source.db" if kind == "sqlite" else request.getfixturevalue("postgres")
    table = followed_with_kills(url, tmp_path, headrace.bootstrap, changes=10_000, kills=10, seed=1)
    assert table.kills == 10
