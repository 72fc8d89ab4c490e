"""A development cluster in the foreground: it serves, shows itself, and leaves nothing running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.development_cluster import _refuse_brokers_own
from headrace.cli.kafka_tools.running import ToolFailed
from headrace.cli.reference import commands, examples
from tests.cli.conftest import PROGRAMS, Run, environment
from tests.support.clock import wait_for

pytestmark = pytest.mark.needs("zookeeper")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The example of the help, on free ports."""
    [example] = examples(dict(commands())["up"])
    words = [*example.split()[1:], "--port", "0", "--zookeeper-port", "0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(
        [str(PROGRAMS / "headrace"), *words], stdout=subprocess.PIPE, text=True, env=environment(tmp_path, None)
    )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert process.stdout is not None
    process.stdout.close()


def test_a_cluster_serves_shows_its_state_and_stops_cleanly(
    cluster: subprocess.Popen[str], headrace: Run, tmp_path: Path
) -> None:
    assert cluster.stdout is not None
    first = cluster.stdout.readline()
    found = re.search(r"3 brokers serve (\S+)", first)
    assert found, first
    env = {"HEADRACE_BOOTSTRAP": found[1]}
    assert cluster.stdout.readline().startswith("PROCESS")
    pids = [int(cluster.stdout.readline().split()[2]) for _ in ("zookeeper", "broker-1", "broker-2", "broker-3")]
    again = headrace("up", "--port", "0", "--zookeeper-port", "0", "--data", str(tmp_path / "data"))
    assert again.code == 1
    assert "/data/zookeeper/data is in use by another ZooKeeper server: stop it or choose another" in again.err
    status = headrace("cluster", "status", "-o", "json", env=env).json
    assert sorted(row["broker"] for row in status["brokers"]) == [1, 2, 3]
    assert sum(row["controller"] for row in status["brokers"]) == 1
    assert "x 3 replicas" in headrace("topics", "create", "kept", "-p", "3", env=env).out
    assert headrace("produce", "kept", "a", "b", "c", env=env).code == 0
    assert sorted(headrace("consume", "kept", env=env).out.split()) == ["a", "b", "c"]
    headrace("configs", "set", "topic/kept", "min.insync.replicas=3", env=env)
    os.kill(pids[3], signal.SIGTERM)
    assert re.search(r"broker-3: ended with 0", cluster.stdout.readline())

    def states() -> dict[int, str]:
        told = headrace("cluster", "brokers", "-o", "json", env=env).json
        return {row["broker"]: row["state"] for row in told}

    wait_for(lambda: states() == {1: "up", 2: "up", 3: "down"}, "a broker that is away is shown")
    findings = headrace("doctor", "--watch-lag", "0", "-o", "json", env=env).json
    told = [row["found"] for row in findings if row["check"] == "replicas" and row["found"].startswith("kept-")]
    assert len(told) == 3
    for found in told:
        assert "has 2 in-sync replicas, min.insync.replicas is 3, so acks=all is refused: broker 3 is out" in found
        assert re.search(r"since (broker \d took the lead at )?\d\d:\d\d:\d\d \(\d+ seconds? ago\)", found), found
    assert any("out of sync since " in found for found in told), told
    assert {row["do"] for row in findings if row["check"] == "replicas"} == {"start broker 3"}
    os.kill(pids[1], signal.SIGKILL)
    assert re.search(r"broker-\d: ended with -9", cluster.stdout.readline())
    cluster.send_signal(signal.SIGINT)
    assert cluster.wait(40) == 0
    assert "stopped" in cluster.stdout.read()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _written(directory: Path, node_id: int, store: str = "embedded") -> Path:
    directory.mkdir(parents=True)
    text = f"version=1\nnode.id={node_id}\ncluster.id=C\nheadrace.store={store}\nheadrace.store.since=\n"
    (directory / "meta.properties").write_text(text)
    return directory


def _tree(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


@pytest.mark.parametrize(
    ("log_directory", "data", "says"),
    [
        ("own", "own", "is the log directory of a broker"),
        ("own", "own/cluster", "is inside {own}, the log directory of a broker"),
        ("own", "own/a/b/c", "is inside {own}, the log directory of a broker"),
        ("all/own", "all", "contains {own}, the log directory of a broker that is not of `headrace up`"),
        ("all/of/own", "all", "contains {own}, the log directory of a broker that is not of `headrace up`"),
        ("all/broker-1", "all", "contains {own}, the log directory of a broker that is not of `headrace up`"),
    ],
)
def test_a_directory_inside_or_around_a_brokers_own_is_refused(
    headrace: Run, tmp_path: Path, log_directory: str, data: str, says: str
) -> None:
    own = _written(tmp_path / log_directory, 1)
    before = _tree(tmp_path)
    refused = headrace("up", "--port", "0", "--zookeeper-port", "0", "--data", str(tmp_path / data))
    assert refused.code == 1
    assert f"--data {tmp_path / data} {says.format(own=own)}: choose another directory" in refused.err
    assert _tree(tmp_path) == before


def test_the_directories_of_a_former_cluster_are_its_own(tmp_path: Path) -> None:
    for number in (1, 2):
        _written(tmp_path / f"broker-{number}", number, "zookeeper")
    (tmp_path / "broker-2" / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")  # an earlier release
    (tmp_path / "zookeeper").mkdir()
    _refuse_brokers_own(tmp_path)
    _written(tmp_path / "broker-3", 4, "zookeeper")
    with pytest.raises(ToolFailed, match="broker-3, the log directory of a broker that is not of `headrace up`"):
        _refuse_brokers_own(tmp_path)
