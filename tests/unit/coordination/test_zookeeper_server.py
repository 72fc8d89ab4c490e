"""Which ZooKeeper server is started: the one in ZOOKEEPER_HOME, else the one in pyspark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.coordination import zookeeper_server
from headrace.coordination.zookeeper_server import CannotStart, command, find_jars, hold_data


def test_zookeeper_home_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("zookeeper-3.8.4.jar", "slf4j-api-1.7.36.jar"):
        (tmp_path / "lib" / name).touch()
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    monkeypatch.setattr(zookeeper_server, "find_java", lambda: Path("/usr/bin/java"))
    assert [jar.name for jar in find_jars()] == ["slf4j-api-1.7.36.jar", "zookeeper-3.8.4.jar"]
    words = command(Path("zoo.cfg"))
    assert f"{tmp_path}/lib/zookeeper-3.8.4.jar" in words[words.index("-cp") + 1]
    assert words[-2:] == ["org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"]


def test_a_zookeeper_home_without_jars_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    with pytest.raises(CannotStart, match=f"ZOOKEEPER_HOME={tmp_path}: there are no jars in its lib directory"):
        find_jars()


def test_without_a_server_the_error_names_both_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    monkeypatch.setattr(zookeeper_server, "_package", lambda name: None)
    with pytest.raises(CannotStart, match=r"set ZOOKEEPER_HOME to an installation, or pip install 'headrace\[spark\]'"):
        find_jars()


def test_data_is_served_by_one_server_at_a_time_and_free_when_its_process_ends(tmp_path: Path) -> None:
    """The server's process holds the lock, also after its parent has ended."""
    config = tmp_path / "zookeeper.properties"
    config.write_text(f"dataDir={tmp_path / 'data'}\nclientPort=0\n")
    lock = hold_data(config)
    server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock])
    os.close(lock)
    try:
        with pytest.raises(CannotStart, match=f"dataDir={tmp_path / 'data'} is in use by another ZooKeeper server"):
            hold_data(config)
    finally:
        server.communicate(b"\n")
    os.close(hold_data(config))


def test_a_configuration_without_a_usable_data_dir_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "zookeeper.properties"
    config.write_text("clientPort=2181\n")
    with pytest.raises(CannotStart, match="dataDir is not set"):
        hold_data(config)
    (tmp_path / "file").touch()
    config.write_text(f"dataDir={tmp_path / 'file' / 'data'}\n")
    with pytest.raises(CannotStart, match=f"dataDir={tmp_path / 'file' / 'data'}: Not a directory"):
        hold_data(config)
