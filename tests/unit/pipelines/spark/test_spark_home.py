"""A local session has a Spark home with programs and jars, and without the zipped copy of PySpark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.pipelines.spark.spark_home import unzipped_home


def test_the_home_has_programs_and_jars_and_no_zip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    homes = []
    for _ in range(2):
        with unzipped_home():
            home = Path(os.environ["SPARK_HOME"])
            assert (home / "bin" / "spark-submit").is_file() and list((home / "jars").glob("spark-core*.jar"))
            assert not (home / "python").exists()
            homes.append(home)
        assert "SPARK_HOME" not in os.environ
    assert homes[0] == homes[1]


def test_the_home_of_the_user_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with unzipped_home():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_a_cache_that_cannot_be_written_leaves_the_usual_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("HEADRACE_CACHE", str(file))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with unzipped_home():
        assert "SPARK_HOME" not in os.environ
