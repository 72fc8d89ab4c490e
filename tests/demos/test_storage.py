"""A pipeline's tables and checkpoints may be elsewhere: in another directory, or in HDFS."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.demos.catalogue import demos
from headrace.demos.errors import DemoFailed
from headrace.demos.lake import Lake
from headrace.demos.run import DemoRun
from headrace.net.free_ports import free_port
from headrace.testing.process import broker_process
from tests.support.effort import is_long
from tests.support.hdfs import Hdfs


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with broker_process() as running:
        yield running.bootstrap


def prepared(bootstrap: str, data: Path, storage: str) -> DemoRun:
    run = DemoRun(demos()["ingestion"], bootstrap, data, Console(file=io.StringIO()), storage=storage)
    try:
        run.prepare()
        return run
    finally:
        run.close()


def test_tables_of_an_earlier_run_do_not_fit_empty_topics(bootstrap: str, tmp_path: Path) -> None:
    prepared(bootstrap, tmp_path, str(tmp_path / "new"))
    (tmp_path / "used" / "tables" / "silver").mkdir(parents=True)
    with pytest.raises(DemoFailed, match="used has the tables of an earlier run, and the topics of this run are empty"):
        prepared(bootstrap, tmp_path, str(tmp_path / "used"))


def test_a_place_that_cannot_be_read_is_named_in_one_line(bootstrap: str, tmp_path: Path) -> None:
    nowhere = f"hdfs://127.0.0.1:{free_port()}/demo"
    with pytest.raises(DemoFailed) as refused:
        prepared(bootstrap, tmp_path, nowhere)
    assert str(refused.value).startswith(f"cannot read {nowhere}/tables: ")
    assert "Connection refused" in str(refused.value) and str(refused.value).isprintable()
    with pytest.raises(DemoFailed, match="cannot read hdf://x/demo/tables: Unrecognized filesystem type"):
        prepared(bootstrap, tmp_path, "hdf://x/demo")


def test_a_demo_without_a_pipeline_has_no_tables() -> None:
    done = CliRunner().invoke(app, ["demo", "queue", "--storage", "/tmp/x"])
    assert done.exit_code == 2
    assert "has no pipeline with tables" in done.output


@pytest.mark.needs("java")
@pytest.mark.needs("mvn")
@pytest.mark.timeout(600)
@pytest.mark.skipif(not is_long(), reason="three JVM services and Spark: HEADRACE_EFFORT=long")
def test_the_lake_of_ingestion_may_be_in_hdfs(tmp_path: Path) -> None:
    (tmp_path / "hdfs").mkdir()
    with Hdfs(tmp_path / "hdfs") as hdfs:
        storage = f"{hdfs.url}/plant"
        command = [sys.executable, "-m", "headrace.cli", "demo", "ingestion", "--port", "0", "--storage", storage]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (tmp_path / "hdfs:").exists(), "the address was taken for a path"
        assert "equal a computation without Spark" in done.stdout
        lake = Lake(storage)
        assert lake.size("bronze") == 4000 > lake.size("silver") > 3000
        assert sum(row["readings"] for row in lake.rows("gold")) == lake.size("silver")
