"""Groups, transactions, the doctor, completion: what they tell."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.testing import RunningBroker, broker
from tests.cli.conftest import Run


def test_lag_reset_and_delete_of_a_group(headrace: Run, topic: str) -> None:
    group = f"g-{topic}"
    headrace("produce", topic, "a", "b", "c", "-p", "0")
    assert headrace("consume", topic, "--group", group, "-n", "2").out == "a\nb\n"
    [row] = headrace("groups", "lag", group, "-o", "json").json
    assert (row["position"], row["end"], row["lag"]) == (2, 3, 1)
    looks = headrace("groups", "lag", group, "--watch", "--every", "0.1", "-n", "2", "-o", "json").lines
    assert [look["recently"] for look in looks] == ["█", "██"]
    assert headrace("groups", "reset", group, "--to", "beginning", "--dry-run", "-o", "json").json[0]["to"] == 0
    assert headrace("groups", "lag", group, "-o", "json").json[0]["position"] == 2, "a dry run moves nothing"
    assert headrace("groups", "reset", group, "--to", "end", "--yes").code == 0
    assert headrace("groups", "lag", group, "-o", "json").json[0]["lag"] == 0
    assert headrace("groups", "describe", group, "-o", "json").json["state"] == "Empty"
    assert headrace("groups", "rm", group, "--yes").code == 0
    missing = headrace("groups", "describe", group)
    assert (missing.code, "does not exist" in missing.err) == (1, True)


def test_an_open_transaction_is_listed_described_and_ended(headrace: Run, running: RunningBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": "till-1"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush()
    rows = headrace("transactions", "ls", "-o", "json").json
    assert [row["state"] for row in rows if row["transactional_id"] == "till-1"] == ["Ongoing"]
    described = headrace("transactions", "describe", "till-1", "-o", "json").json
    assert [name.rpartition("-")[0] for name in described["partitions"]] == [topic]
    assert headrace("consume", topic, "--uncommitted", "-c").out == "1\n"
    assert headrace("consume", topic, "-c").out == "0\n"
    assert headrace("transactions", "end", "till-1", "--yes").code == 0
    assert headrace("transactions", "describe", "till-1", "-o", "json").json["state"] != "Ongoing"
    assert "Did you mean 'till-1'?" in headrace("transactions", "describe", "till-2").err


def test_the_doctor_finds_a_healthy_cluster_well(headrace: Run) -> None:
    ran = headrace("doctor", "--watch-lag", "0", "-o", "json")
    assert [row["check"] for row in ran.json if row["state"] == "fail"] == []
    assert ran.code == 0


def test_the_doctor_tells_what_cannot_work_and_what_to_do(headrace: Run, tmp_path: Path) -> None:
    nothing = headrace("doctor", "-b", "127.0.0.1:1")
    assert (nothing.code, "nothing listens on 127.0.0.1:1" in nothing.out, "do: " in nothing.out) == (1, True, True)
    with broker({"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as elsewhere:
        port = elsewhere.call(lambda: elsewhere.broker.listeners.bound[0].port)
        ran = headrace("doctor", "-b", f"127.0.0.1:{port}", "--timeout", "2")
    assert ran.code == 1
    assert "advertises 127.0.0.1:1" in ran.out
    assert "advertised.listeners" in ran.out


def test_the_doctor_knows_too_few_replicas_and_a_clock_ahead(headrace: Run, topic: str) -> None:
    ahead_ms = int(time.time() * 1000) + 1_800_000
    headrace("configs", "set", f"topic/{topic}", "min.insync.replicas=2")
    headrace("produce", topic, "-F", "json", "--acks", "1", stdin=f'{{"value": "x", "timestamp": {ahead_ms}}}')
    ran = headrace("doctor", "--watch-lag", "0")
    headrace("topics", "rm", topic, "--yes")
    assert ran.code == 1
    assert "min.insync.replicas=1" in ran.out
    assert f"{topic} has 1 replicas and asks for 2 in sync" in ran.out
    assert "records of the future" in ran.out


def test_the_doctor_knows_tls_when_it_meets_it(headrace: Run, tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    files = ["-keyout", str(pem), "-out", str(tmp_path / "cert.pem")]
    made = subprocess.run([*request, *files], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", pem)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(client, server_side=True).close()
                except OSError:
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        ran = headrace("doctor", "-b", f"127.0.0.1:{server.getsockname()[1]}", "--timeout", "2")
    assert ran.code == 1
    assert "speaks TLS" in ran.out
    assert "security.protocol=SSL" in ran.out


def test_the_shell_completes_commands_and_live_names(headrace: Run, topic: str) -> None:
    def completed(*words: str) -> list[str]:
        env = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return headrace(env=env).out.split()

    assert completed("headrace", "con") == ["configs", "consume", "context"]
    assert completed("headrace", "consume", topic[:-2]) == [topic]
    assert completed("headrace", "configs", "get", f"topic/{topic[:-2]}") == [f"topic/{topic}"]
    assert "complete -o default" in headrace("completion", "bash").out
    assert headrace("completion", "tcsh").code == 2


def test_the_bench_measures_and_cleans_up(headrace: Run) -> None:
    found = headrace("bench", "produce", "-n", "500", "-o", "json").json
    assert (found["records"], found["records_per_s"] > 0) == (500, True)
    assert headrace("bench", "consume", "-n", "500", "-o", "json").json["records"] == 500
    assert headrace("bench", "latency", "-n", "20", "-o", "json").json["p50_ms"] > 0
    assert "headrace-bench" not in headrace("topics", "ls").out
