"""Runs the commands of the documentation in their order, without any others.

Uses the documented ports if they are free, otherwise others. The data always goes to a directory of the test.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.net.free_ports import free_port
from tests.support.clock import wait_for

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("zookeeper")


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def ready() -> bool:
        assert process.poll() is None, log.read_text()
        return listens(port)

    wait_for(ready, lambda: f"port {port}: {log.read_text()}")


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """J1 and J2: ZooKeeper and a broker from the files in config/."""
    zookeeper, broker = free_port(), free_port()
    changes = {
        "zookeeper.properties": {"dataDir": tmp_path / "zookeeper", "clientPort": zookeeper},
        "server.properties": {
            "log.dirs": tmp_path / "logs", "listeners": f"PLAINTEXT://127.0.0.1:{broker}",
            "zookeeper.connect": f"localhost:{zookeeper}",
        },
    }  # fmt: skip
    for name, values in changes.items():
        text = (ROOT / "config" / name).read_text()
        for key, value in values.items():
            text, count = re.subn(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", text)
            assert count == 1, f"{key} in {name}"
        (tmp_path / name).write_text(text)
    started = []
    try:
        for script, name, port in (
            ("zookeeper-server-start.sh", "zookeeper.properties", zookeeper),
            ("kafka-server-start.sh", "server.properties", broker),
        ):
            log = tmp_path / f"{script}.out"
            with log.open("wb") as out:
                process = subprocess.Popen([ROOT / "bin" / script, tmp_path / name], stdout=out, stderr=out)
            started.append(process)
            wait(port, process, log)
        yield zookeeper, broker
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def test_commands_of_the_documentation_work_in_order(ports: tuple[int, int]) -> None:
    zookeeper, broker = ports

    def typed(line: str, stdin: str = "") -> str:
        line = line.replace("localhost:2181", f"localhost:{zookeeper}").replace("localhost:9092", f"localhost:{broker}")
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    create = "bin/kafka-topics.sh --create --zookeeper localhost:2181 --replication-factor 1 --partitions 1 --topic "
    assert "Created topic streams-plaintext-input." in typed(create + "streams-plaintext-input")
    typed(create + "test")
    assert "PartitionCount: 1" in typed("bin/kafka-topics.sh --zookeeper localhost:2181 --describe")
    typed("bin/kafka-topics.sh --zookeeper localhost:2181 --delete --topic test")
    assert "Topic: test\t" not in typed("bin/kafka-topics.sh --zookeeper localhost:2181 --describe")
    producer = "bin/kafka-console-producer.sh --broker-list localhost:9092 --topic "
    typed(producer + "streams-plaintext-input", "all streams lead to kafka\n")
    typed(create + "streams-wordcount-output")
    typed(producer + "streams-wordcount-output --property parse.key=true", "kafka\t\0\0\0\0\0\0\0\x01\n")
    consumer = (
        "bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic streams-wordcount-output "
        "--from-beginning --formatter kafka.tools.DefaultMessageFormatter --property print.key=true "
        "--property print.value=true "
        "--property key.deserializer=org.apache.kafka.common.serialization.StringDeserializer "
        "--property value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"
    )
    # The documented consumer runs until it is stopped. Here it stops after one record.
    assert typed(consumer + " --max-messages 1") == "kafka\t1\n"
