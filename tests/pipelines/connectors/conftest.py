"""A connector written and run without Spark, for tests that need no Spark session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipelines.connectors.connector import load_connector
from headrace.pipelines.lite.run import LiteRun
from tests.pipelines.conftest import Cluster

Connect = Callable[..., LiteRun]


@pytest.fixture
def connect(headrace: Cluster, tmp_path: Path) -> Connect:
    """Writes a connector file and runs it without Spark over the existing rows."""

    def run(text: str, name: str = "c") -> LiteRun:
        file = tmp_path / f"{name}.yml"
        file.write_text(f"name: {name}\nbootstrap: {headrace.bootstrap}\n{text}")
        started = LiteRun(load_connector(file), lambda _: None, once=True)
        started.start()
        started.supervise()
        return started

    return run
