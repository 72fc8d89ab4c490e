"""Settings of a local Spark session."""

from __future__ import annotations

import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipelines import session
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.spark.java import find_java


@pytest.fixture(autouse=True)
def fresh_folder() -> Iterator[None]:
    session._socket_folder.cache_clear()
    yield
    session._socket_folder.cache_clear()


def test_worker_sockets_are_open_to_this_user_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        settings = session._unix_sockets()
        folder = Path(settings["spark.python.unix.domain.socket.dir"])
        assert settings["spark.python.unix.domain.socket.enabled"] == "true"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_spark_uses_tcp_if_the_socket_path_is_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert session._unix_sockets() == {}


def test_a_local_session_has_as_much_space_for_code_as_java_gives_by_default() -> None:
    def space(*options: str) -> int:
        command = [str(find_java().home / "bin" / "java"), *options, "-XX:+PrintFlagsFinal", "-version"]
        flags = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        return next(int(line.split()[3]) for line in flags.splitlines() if "ReservedCodeCacheSize" in line)

    options = session.settings_for("local[1]")["spark.driver.extraJavaOptions"].split()
    assert space(*(option for option in options if option.startswith("-XX:"))) >= space()


def test_a_jvm_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    def fails(builder: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fails)
    with pytest.raises(PipelineError, match="the JVM of Spark ended before it was ready"):
        session.spark_session("test", master="local[1]")


@pytest.mark.parametrize("master", ["local[2]", "spark://10.0.0.1:7077"])
def test_driver_has_deep_stacks_beside_the_users_options(master: str) -> None:
    """Spark's search in a Python traceback recurses for every character."""
    asked = {"spark.driver.extraJavaOptions": "-Dmine=1"}
    options = session.settings_for(master, asked)["spark.driver.extraJavaOptions"].split()
    assert {"-Xss16m", "-Dmine=1"} <= set(options)
