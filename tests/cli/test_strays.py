"""`headrace log strays` lists, restores and removes strays, with a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.storage.dirs.strays import strays_in
from headrace.testing import broker, broker_process
from tests.support.logs import a_batch, append, open_dirs


def strays(*words: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("headrace")), "log", "strays", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, input=answer)


def produce(bootstrap: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, str(value).encode())
    assert producer.flush(30) == 0


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)


def consume(bootstrap: str, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, timeout=30)
    consumer.close()
    return [(message.offset(), message.value()) for message in found]


def set_aside(data: Path, topic: str) -> str:
    dirs = open_dirs(data, node_id=0)
    place = dirs.set_aside(topic, 0, "a test says so", now_ms=1_700_000_000_000)
    dirs.close()
    assert place is not None
    return place.name


EXPECTED = [(at, b"%d" % at) for at in range(100)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Directory of a stopped standalone broker: the log of `precious` with 100 records is a stray; topic `other` is
    empty."""
    with broker(data_dir=tmp_path / "data") as running:
        create(running.bootstrap, "precious")
        create(running.bootstrap, "other")
        produce(running.bootstrap, "precious", range(100))
    set_aside(tmp_path / "data", "precious")
    return tmp_path / "data"


def test_stray_is_listed_and_restored_with_all_records(data: Path) -> None:
    [row] = json.loads(strays("ls", str(data), "-o", "json").stdout)
    assert (row["topic"], row["partition"], row["kind"], row["records"]) == ("precious", 0, "log", 100)
    assert (row["first_offset"], row["last_offset"], row["why"]) == (0, 99, "a test says so")
    assert row["set_aside_ms"] == 1_700_000_000_000 and row["cluster_id"] and row["size"] > 0
    table = strays("ls", str(data)).stdout
    assert "precious" in table and "a test says so" in table and "2023-11-14 22:13:20Z" in table
    tried = strays("restore", str(data), "precious-0", "--dry-run")
    assert tried.returncode == 0 and "would restore 100 records (offsets 0 to 99)" in tried.stderr
    assert len(strays_in(data)) == 1
    done = strays("restore", str(data), "precious-0", "--yes")
    assert done.returncode == 0, done.stderr
    with broker(data_dir=data) as running:
        assert consume(running.bootstrap, "precious", 100) == EXPECTED
    assert strays_in(data) == []


def test_stray_is_restored_into_another_topic_that_still_accepts_records(data: Path) -> None:
    with broker_process(data_dir=data) as running:
        assert consume(running.bootstrap, "precious", 0) == []
        refused = strays("restore", str(data), "precious-0", "--to", "other", "--yes")
        assert refused.returncode == 1 and "in use by headrace broker" in refused.stderr
        running.stop()
        done = strays("restore", str(data), "precious-0", "--to", "other", "--yes", "-o", "json")
        assert json.loads(done.stdout)["last_offset"] == 99
        running.start()
        assert consume(running.bootstrap, "other", 100) == EXPECTED
        produce(running.bootstrap, "other", range(100, 150))
        running.kill()
        running.start()
        assert consume(running.bootstrap, "other", 150) == [(at, b"%d" % at) for at in range(150)]


def test_restore_over_existing_records_is_refused_with_a_remedy(data: Path) -> None:
    with broker(data_dir=data) as running:
        produce(running.bootstrap, "precious", range(3))
    refused = strays("restore", str(data), "precious-0", "--yes")
    assert refused.returncode == 1 and "precious-0 holds records already (offsets 0 to 2)" in refused.stderr
    assert "--to TOPIC" in refused.stderr and len(strays_in(data)) == 1


def test_stray_is_removed_only_by_its_full_name_or_with_yes(data: Path) -> None:
    [stray] = strays_in(data)
    kept = strays("rm", str(data), "precious-0", answer="precious-0\n")
    assert kept.returncode == 1 and "is kept" in kept.stderr and stray.path.exists()
    unknown = strays("rm", str(data), "nothing", "--yes")
    assert unknown.returncode == 1 and "has no stray 'nothing'" in unknown.stderr
    gone = strays("rm", str(data), "precious-0", answer=stray.path.name + "\n")
    assert gone.returncode == 0 and "100 records of precious-0" in gone.stdout and not stray.path.exists()
    assert strays("ls", str(data)).stdout.strip() == f"no strays in {data}"


def test_broker_reports_a_log_that_it_set_aside_because_its_topic_is_unknown(tmp_path: Path) -> None:
    """The log on disk has a topic id that the cluster does not know. Then a producer creates a topic with this name."""
    data = tmp_path / "data"
    with broker_process(data_dir=data) as running:
        create(running.bootstrap, "kept")
        running.stop()
        dirs = open_dirs(data, node_id=0)
        append(dirs.create("precious", 0, uuid.uuid4()), a_batch(100))
        dirs.close()
        running.start()
        create(running.bootstrap, "precious")
        produce(running.bootstrap, "precious", range(5))
        assert len(consume(running.bootstrap, "precious", 5)) == 5
        [stray] = strays_in(data)
        assert stray.count_records() == 100
        assert "precious-0 (offsets 0 to 99) is set aside as precious-0." in running.output
        assert f"headrace log strays ls {data}" in running.output


def test_the_doctor_and_the_metrics_name_strays(data: Path) -> None:
    with broker({"metrics.listen": "127.0.0.1:0"}, data_dir=data) as running:
        command = [str(Path(sys.executable).with_name("headrace")), "doctor", "-b", running.bootstrap, "-o", "json"]
        ran = subprocess.run([*command, "--watch-lag", "0"], capture_output=True, text=True, timeout=60, check=False)
        [row] = [row for row in json.loads(ran.stdout) if row["check"] == "strays"]
        assert row["state"] == "warn" and "holds 1 stray (" in row["found"] and "precious-0" in row["found"]
        assert row["do"] == f"see headrace log strays ls {data}, then restore or rm each"
        address = f"http://127.0.0.1:{running.broker.metrics.endpoint.port}/metrics"  # type: ignore[union-attr]
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
    [stray] = strays_in(data)
    assert "headrace_stray_logs 1" in text and f"headrace_stray_bytes {stray.size_bytes()}" in text


def test_stray_can_be_dumped_and_verified_but_not_recovered(data: Path) -> None:
    [stray] = strays_in(data)
    log = [str(Path(sys.executable).with_name("headrace")), "log"]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*log, *words], capture_output=True, text=True, timeout=60, check=False)

    dumped = json.loads(run("dump", str(stray.path), "--records", "-o", "json").stdout)
    assert [row["offset"] for row in dumped[stray.path.name]["batches"]] == list(range(100))
    assert run("verify", str(stray.path)).returncode == 0
    refused = run("recover", str(stray.path), "--yes")
    assert refused.returncode == 1 and "headrace log strays restore" in refused.stderr
