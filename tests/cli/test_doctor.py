"""`headrace doctor` reports each problem with its remedy. With real brokers and clients."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.testing import RunningBroker, broker
from tests.cli.conftest import Run
from tests.support import small_disk
from tests.support.clock import wait_for


def test_doctor_finds_no_problem_in_a_healthy_cluster(headrace: Run) -> None:
    ran = headrace("doctor", "--watch-lag", "0", "-o", "json")
    assert [row["check"] for row in ran.json if row["state"] == "fail"] == []
    assert ran.code == 0


def test_doctor_reports_unreachable_addresses_with_remedies(headrace: Run, tmp_path: Path) -> None:
    nothing = headrace("doctor", "-b", "127.0.0.1:1")
    assert (nothing.code, "nothing listens on 127.0.0.1:1" in nothing.out, "do: " in nothing.out) == (1, True, True)
    with broker({"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as elsewhere:
        port = elsewhere.call(lambda: elsewhere.broker.listeners.bound[0].port)
        ran = headrace("doctor", "-b", f"127.0.0.1:{port}", "--timeout", "2")
    assert ran.code == 1
    assert "advertises 127.0.0.1:1" in ran.out
    assert "advertised.listeners" in ran.out


def test_doctor_finds_too_few_replicas_and_records_in_the_future(headrace: Run, topic: str) -> None:
    ahead_ms = int(time.time() * 1000) + 1_800_000
    headrace("configs", "set", f"topic/{topic}", "min.insync.replicas=2")
    headrace("produce", topic, "-F", "json", "--acks", "1", stdin=f'{{"value": "x", "timestamp": {ahead_ms}}}')
    ran = headrace("doctor", "--watch-lag", "0")
    headrace("topics", "rm", topic, "--yes")
    assert ran.code == 1
    assert "min.insync.replicas=1" in ran.out
    assert f"{topic} has 1 replica and asks for 2 in sync" in ran.out
    assert "records of the future" in ran.out


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """A port with a TLS server."""
    pem, cert = tmp_path / "server.pem", tmp_path / "cert.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    made = subprocess.run([*request, "-keyout", str(pem), "-out", str(cert)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, pem)

    def serve(server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            try:
                context.wrap_socket(client, server_side=True).close()
            except OSError:
                client.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def test_doctor_finds_a_wrong_security_protocol_in_both_directions(
    headrace: Run, running: RunningBroker, tls_port: int, tmp_path: Path
) -> None:
    ran = headrace("doctor", "-b", f"127.0.0.1:{tls_port}", "--timeout", "2")
    assert ran.code == 1
    assert "speaks TLS, the client is set to security.protocol=PLAINTEXT" in ran.out
    assert "do: set security.protocol=SSL in the client" in ran.out
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={running.bootstrap}\nsecurity.protocol=SASL_SSL\n")
    ran = headrace("doctor", "--config", str(file), env={"HEADRACE_BOOTSTRAP": ""})
    assert ran.code == 1
    assert f"{running.bootstrap} speaks plain text, the client is set to security.protocol=SASL_SSL" in ran.out
    assert "do: set security.protocol=SASL_PLAINTEXT" in ran.out
    missing = headrace("doctor", "--config", "nowhere.properties")
    assert (missing.code, "cannot read nowhere.properties" in missing.err) == (1, True)


@pytest.fixture
def own() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


def test_doctor_compares_clocks(headrace: Run, own: RunningBroker) -> None:
    env = {"HEADRACE_BOOTSTRAP": own.bootstrap}
    partitions = own.broker.parts.partitions
    headrace("topics", "create", "orders", env=env)
    own.call(lambda: setattr(partitions, "wall_ms", lambda: time.time_ns() // 1_000_000 - 300_000))
    ran = headrace("doctor", "--watch-lag", "0", env=env)
    assert re.search(
        r"WARN  clocks: the clock of broker \d+ is (299|300) s behind this machine's\n +do: set both", ran.out
    )


@pytest.mark.skipif(small_disk.why_not() is not None, reason=str(small_disk.why_not()))
def test_doctor_finds_a_disk_that_is_nearly_full(headrace: Run, tmp_path: Path) -> None:
    with (
        small_disk.SmallDisk(tmp_path / "disk", megabytes=64) as disk,
        broker(data_dir=disk.directory / "data") as running,
    ):
        env = {"HEADRACE_BOOTSTRAP": running.bootstrap}
        assert "disks: 1 log directory with room" in headrace("doctor", "--watch-lag", "0", env=env).out
        with (disk.directory / "other").open("wb") as other:
            os.posix_fallocate(other.fileno(), 0, 59 << 20)
        ran = headrace("doctor", "--watch-lag", "0", env=env)
        assert re.search(
            rf"WARN  disks: {running.data_dir} of broker \d+ is nearly full: [45]\.\d MiB of 64\.0 MiB free "
            r"\([67] %\), the log holds .*\n +do: shorten retention",
            ran.out,
        ), ran.out
        disk.fill()
        ran = headrace("doctor", "--watch-lag", "0", env=env)
        assert ran.code == 1
        assert re.search(rf"FAIL  disks: {running.data_dir} .* free \(0 %\)", ran.out), ran.out
        disk.make_room()


def member(bootstrap: str, group: str, client: str, **more: str) -> Consumer:
    """A consumer of `work` with assigned partitions."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": client, "enable.auto.commit": False}
    consumer = Consumer({**settings, **more})
    consumer.subscribe(["work"])
    polled_until(consumer, lambda: bool(consumer.assignment()))
    return consumer


def polled_until(consumer: Consumer, done: Callable[[], bool]) -> None:
    wait_for(lambda: [consumer.poll(0.05)] and done(), "the consumer to get that far", poll=0)


def test_doctor_explains_why_a_group_rebalances(headrace: Run, own: RunningBroker) -> None:
    """The group waits for a member that does not poll. Another member has joined and left repeatedly."""
    env = {"HEADRACE_BOOTSTRAP": own.bootstrap}
    headrace("topics", "create", "work", "-p", "2", env=env)
    patience = {"session.timeout.ms": "6000", "max.poll.interval.ms": "61000"}
    busy = member(own.bootstrap, "stuck", "busy-one", **patience)
    late = Consumer({"bootstrap.servers": own.bootstrap, "group.id": "stuck", "client.id": "late-one", **patience})
    late.subscribe(["work"])
    for _ in range(5):
        member(own.bootstrap, "restless", "moody").close()

    def rows() -> dict[str, dict[str, str]]:
        late.poll(0.1)
        found = headrace("doctor", "--watch-lag", "0", "-o", "json", env=env).json
        return {row["found"].split()[0]: row for row in found if row["check"] == "groups"}

    found = wait_for(lambda: "stuck" in (told := rows()) and told, "the stuck group")
    assert "PreparingRebalance" in found["stuck"]["found"]
    assert "waits up to 61 s (the members' max.poll.interval.ms)" in found["stuck"]["found"]
    assert "before, it had busy-one at 127.0.0.1" in found["stuck"]["found"]
    assert re.search(r"restless rebalanced \d+ times in the last 10 minutes", found["restless"]["found"])
    assert "because moody at 127.0.0.1 left" in found["restless"]["found"]
    assert "max.poll.interval.ms" in found["restless"]["do"]
    late.close()
    busy.close()


def test_doctor_names_the_member_that_has_not_revoked_its_partitions(headrace: Run, own: RunningBroker) -> None:
    """In a group of the consumer protocol (KIP-848) one member has all partitions and does not poll; another joins."""
    env = {"HEADRACE_BOOTSTRAP": own.bootstrap}
    headrace("topics", "create", "work", "-p", "2", env=env)
    busy = member(own.bootstrap, "modern", "busy-one", **{"group.protocol": "consumer"})
    settings = {"bootstrap.servers": own.bootstrap, "group.id": "modern", "client.id": "late-one"}
    late = Consumer({**settings, "group.protocol": "consumer"})
    late.subscribe(["work"])

    def names_the_busy_member() -> bool:
        late.poll(0.1)
        rows = headrace("doctor", "--watch-lag", "0", "-o", "json", env=env).json
        found = [row["found"] for row in rows if row["check"] == "groups"]
        return bool(re.search(r"modern is rebalancing .*busy-one at 127.0.0.1 has yet to give up work-[01]", found[0]))

    wait_for(names_the_busy_member, "the member that has to give up partitions")
    late.close()
    busy.close()


def test_doctor_explains_why_lag_grows(headrace: Run, own: RunningBroker) -> None:
    """One group has no members, one commits nothing, one is slower than the producer."""
    env = {"HEADRACE_BOOTSTRAP": own.bootstrap}
    headrace("topics", "create", "work", "-p", "2", env=env)
    headrace("produce", "work", "first", "second", "third", "-p", "0", env=env)
    for group in ("nobody", "silent", "slow"):
        headrace("consume", "work", "--group", group, "-n", "1", env=env)
    silent, slow = member(own.bootstrap, "silent", "hung"), member(own.bootstrap, "slow", "snail")
    producer = Producer({"bootstrap.servers": own.bootstrap})
    stopped = threading.Event()

    def work() -> None:
        at = 1
        while not stopped.wait(0.02):
            for _ in range(10):
                producer.produce("work", "more", partition=0)
            producer.flush(60)
            at += 1
            slow.commit(offsets=[TopicPartition("work", 0, at)], asynchronous=False)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        found = headrace("doctor", "--watch-lag", "1", "-o", "json", env=env).json
    finally:
        stopped.set()
        worker.join()
    lag = {row["found"].split()[2]: row for row in found if row["check"] == "lag"}
    assert "the group has no members" in lag["nobody"]["found"]
    assert lag["nobody"]["do"] == "start its consumers"
    assert "hung at 127.0.0.1 commits nothing" in lag["silent"]["found"]
    assert re.search(
        r"snail at 127.0.0.1 reads more slowly than records come \(\d+ read, \d+ written\)", lag["slow"]["found"]
    )
    assert "up to 2 members can share the work, there are 1" in lag["slow"]["do"]
    silent.close()
    slow.close()
