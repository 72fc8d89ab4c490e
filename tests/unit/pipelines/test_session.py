"""Settings of a local Spark session."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipelines import session


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
