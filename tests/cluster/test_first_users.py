"""The first user of a cluster whose brokers log in with SCRAM: written to ZooKeeper before any broker runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient

from headrace.testing.process import BrokerProcess
from tests.support.clock import wait_for
from tests.support.zookeeper import ZooKeeperServer


def add_user(name: str, data: Path, connect: str, password: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli", "security", "add-user", name, "--data", str(data)]
    command += ["--set", f"zookeeper.connect={connect}", "--set", "zookeeper.set.acl=false"]
    return subprocess.run(command, input=f"{password}\n", capture_output=True, text=True, check=False)


def test_brokers_log_in_with_the_user_that_was_added_before_their_start(tmp_path: Path) -> None:
    zookeeper = ZooKeeperServer(tmp_path / "zookeeper")
    zookeeper.start()
    brokers: list[BrokerProcess] = []
    try:
        added = add_user("broker", tmp_path / "admin", zookeeper.connect, "sesame")
        assert added.returncode == 0, added.stderr
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        settings = {
            "zookeeper.connect": zookeeper.connect,
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "zookeeper.set.acl": "false",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f'{module} username="broker" password="sesame";',
            "default.replication.factor": "2",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "2",
        }
        for number in (1, 2):
            brokers.append(BrokerProcess({**settings, "broker.id": str(number)}, tmp_path / f"broker-{number}"))
        client = {
            "bootstrap.servers": brokers[0].bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "broker",
            "sasl.password": "sesame",
        }
        admin = AdminClient(client)
        wait_for(lambda: len(admin.list_topics(timeout=5).brokers) == 2, "both brokers are there")
        from confluent_kafka import Producer

        errors: list[object] = []
        producer = Producer({**client, "acks": "all"})
        producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
        assert errors == [None]
        late = add_user("late", tmp_path / "admin", zookeeper.connect, "x")
        assert late.returncode == 1
        assert "is running" in late.stderr
    finally:
        for broker in brokers:
            broker.kill()
        zookeeper.stop()
