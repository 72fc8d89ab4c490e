"""`headrace up`: the development cluster serves, shows its state, and leaves no process running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from headrace.cli.kafka_tools.support.tool import ToolFailed
from headrace.cli.support.development_cluster import _refuse_log_directories
from headrace.cli.support.reference import commands, examples
from tests.cli.conftest import PROGRAMS, Run, environment
from tests.support.clock import wait_for

pytestmark = pytest.mark.needs("zookeeper")


def _json(url: str) -> object:
    """The answer of a service; None while it starts."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.loads(answer.read())
    except OSError:
        return None


def _console_brokers(url: str) -> list[object]:
    """The brokers that the console shows; none while it starts."""
    request = urllib.request.Request(f"{url}/clusters/local", headers={"accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return list(json.load(answer)["brokers"])
    except OSError:
        return []


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs the example of the help on free ports."""
    example = examples(dict(commands())["up"])[0]
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


def test_cluster_serves_shows_its_state_and_stops_cleanly(
    cluster: subprocess.Popen[str], headrace: Run, tmp_path: Path
) -> None:
    assert cluster.stdout is not None
    first = cluster.stdout.readline()
    found = re.search(r"3 brokers serve (\S+)", first)
    assert found, first
    env = {"HEADRACE_BOOTSTRAP": found[1]}
    console = re.search(r"the web console is on (http://127\.0\.0\.1:\d+)", cluster.stdout.readline())
    assert console
    registry = re.search(r"the schema registry is on (http://127\.0\.0\.1:\d+)", cluster.stdout.readline())
    assert registry
    api = re.search(r"the HTTP API is on (http://127\.0\.0\.1:\d+)", cluster.stdout.readline())
    assert api
    assert cluster.stdout.readline().startswith("PROCESS")
    processes = ("zookeeper", "broker-1", "broker-2", "broker-3", "registry", "http", "console")
    pids = [int(cluster.stdout.readline().split()[2]) for _ in processes]
    wait_for(lambda: len(_console_brokers(console[1])) == 3, "the console to show three brokers")
    wait_for(lambda: _json(f"{registry[1]}/subjects") == [], "the registry to answer")
    wait_for(lambda: _json(f"{api[1]}/brokers") == {"brokers": [1, 2, 3]}, "the HTTP API to show three brokers")
    again = headrace("up", "--port", "0", "--zookeeper-port", "0", "--data", str(tmp_path / "data"))
    assert again.code == 1
    assert "/data/zookeeper/data is in use by another ZooKeeper server: stop it or choose another" in again.err
    status = headrace("cluster", "status", "-o", "json", env=env).json
    assert sorted(row["broker"] for row in status["brokers"]) == [1, 2, 3]
    assert sum(row["controller"] for row in status["brokers"]) == 1
    assert "x 3 replicas" in headrace("topics", "create", "kept", "-p", "3", env=env).out
    assert headrace("topics", "create", "many", "-p", "12", env=env).code == 0
    assert headrace("produce", "kept", "a", "b", "c", env=env).code == 0
    assert sorted(headrace("consume", "kept", "--group", "g", "-n", "3", env=env).out.split()) == ["a", "b", "c"]
    headrace("configs", "set", "topic/kept", "min.insync.replicas=3", env=env)
    os.kill(pids[3], signal.SIGTERM)
    told = cluster.stdout.readline()
    assert f"broker-3: ended with 0, see broker-3.log; to restart broker-3: kill -USR1 {cluster.pid}\n" in told

    def states() -> dict[int, str]:
        told = headrace("cluster", "brokers", "-o", "json", env=env).json
        return {row["broker"]: row["state"] for row in told}

    wait_for(lambda: states() == {1: "up", 2: "up", 3: "down"}, "a broker that is away is shown")
    findings = headrace("doctor", "--watch-lag", "0", "-o", "json", env=env).json
    broken, behind = sorted((row for row in findings if row["check"] == "replicas"), key=lambda row: row["state"])
    assert re.fullmatch(
        r"3 partitions have 2 in-sync replicas, min.insync.replicas is 3, so acks=all is refused, because broker 3 is "
        r"down since \d\d:\d\d:\d\d \(\d+ seconds? ago\): kept \(3\)",
        broken["found"],
    ), broken
    # The console may have created its topic already.
    assert re.fullmatch(
        r"6[34] partitions lack in-sync replicas, because broker 3 is down since \d\d:\d\d:\d\d \(\d+ seconds? ago\): "
        r"(__console \(1\), )?__consumer_offsets \(50\), _schemas \(1\) and (many \(12\)|1 other topic)",
        behind["found"],
    ), behind
    assert (broken["state"], behind["state"]) == ("fail", "warn")
    assert {broken["do"], behind["do"]} == {"start broker 3"}
    assert len(broken["details"]) == 3 and len(behind["details"]) in (63, 64)
    for found in broken["details"]:
        assert re.match(r"kept-\d: has 2 in-sync replicas, .* is refused: broker 3 is down, out of sync ", found), found
        assert re.search(r"since (broker \d took the lead at )?\d\d:\d\d:\d\d \(\d+ seconds? ago\)", found), found
    plain, full = (headrace("doctor", "--watch-lag", "0", *more, env=env).out for more in ((), ("--details",)))
    assert "FAIL  replicas: 3 partitions" in plain and re.search(r"WARN  replicas: 6[34] partitions", plain)
    assert ("many-11" in plain, "many-11" in full, "\x1b" in plain) == (False, True, False)
    cluster.send_signal(signal.SIGUSR1)
    assert re.search(r"broker-3: running again as \d+$", cluster.stdout.readline())
    wait_for(lambda: states() == {1: "up", 2: "up", 3: "up"}, "the broker that was restarted")
    os.kill(pids[1], signal.SIGKILL)
    assert re.search(r"broker-1: ended with -9", cluster.stdout.readline())
    cluster.send_signal(signal.SIGINT)
    assert cluster.wait(40) == 0
    assert "stopped" in cluster.stdout.read()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_key_press_in_a_terminal_restarts_a_broker(tmp_path: Path) -> None:
    words = ["up", "--brokers", "2", "--port", "0", "--zookeeper-port", "0", "--data", str(tmp_path / "data")]
    env = environment(tmp_path, None)
    screen = pexpect.spawn(
        str(PROGRAMS / "headrace"), words, env=env, encoding="utf-8", timeout=60, dimensions=(24, 80)
    )
    try:
        screen.expect("2 brokers serve")
        row = screen.expect(r"broker-2 +│ \S+ +│ +(\d+) │ running")
        assert row == 0 and screen.match is not None
        os.kill(int(screen.match[1]), signal.SIGKILL)
        screen.expect(rf"to restart broker-2: press r, or kill -USR1 {screen.pid}")
        assert "ended with -9" in (screen.before or "")
        screen.send("r")
        screen.expect(r"running again as \d+")
    finally:
        screen.sendintr()
        screen.expect(pexpect.EOF)
        screen.close()
    assert screen.exitstatus == 0


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
def test_directory_inside_or_around_a_log_directory_is_refused(
    headrace: Run, tmp_path: Path, log_directory: str, data: str, says: str
) -> None:
    own = _written(tmp_path / log_directory, 1)
    before = _tree(tmp_path)
    refused = headrace("up", "--port", "0", "--zookeeper-port", "0", "--data", str(tmp_path / data))
    assert refused.code == 1
    assert f"--data {tmp_path / data} {says.format(own=own)}: choose another directory" in refused.err
    assert _tree(tmp_path) == before


@pytest.mark.parametrize(("log_directory", "data"), [("own", "own"), ("own", "own/cluster"), ("all/broker-1", "all")])
def test_a_log_directory_that_lost_its_identity_is_refused_too(tmp_path: Path, log_directory: str, data: str) -> None:
    log = tmp_path / log_directory / "orders-0"
    log.mkdir(parents=True)
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    with pytest.raises(ToolFailed, match="the log directory of a broker"):
        _refuse_log_directories(tmp_path / data)


def test_brokers_of_a_cluster_with_another_zookeeper_are_refused(tmp_path: Path) -> None:
    _written(tmp_path / "broker-1", 1, "zookeeper")
    with pytest.raises(ToolFailed, match="broker-1, the log directory of a broker that is not of `headrace up`"):
        _refuse_log_directories(tmp_path)


def test_directories_of_an_earlier_cluster_are_accepted(tmp_path: Path) -> None:
    for number in (1, 2):
        _written(tmp_path / f"broker-{number}", number, "zookeeper")
    (tmp_path / "broker-2" / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")  # an earlier release
    (tmp_path / "zookeeper").mkdir()
    _refuse_log_directories(tmp_path)
    (tmp_path / "broker-2" / "meta.properties").unlink()
    (tmp_path / "broker-2" / "orders-0").mkdir()
    (tmp_path / "broker-2" / "orders-0" / "partition.metadata").touch()
    _refuse_log_directories(tmp_path)  # the broker reports the missing file
    _written(tmp_path / "broker-3", 4, "zookeeper")
    with pytest.raises(ToolFailed, match="broker-3, the log directory of a broker that is not of `headrace up`"):
        _refuse_log_directories(tmp_path)
