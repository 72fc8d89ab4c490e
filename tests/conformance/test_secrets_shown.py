"""CVE-2023-24619: secrets of the configuration appear in no answer, log line or command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.testing.process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S

SECRETS = {
    "PLAIN password": "plain-7Zq1",
    "key password": "key-8Xw2",
    "token secret": "token-9Yv3",
    "SCRAM password": "scram-5Uu4",
}
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("secrets")
    issued = Authority.make(directory / "certificates").issue("broker")
    settings = {
        "listeners": "LOCAL://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "LOCAL:PLAINTEXT,CLIENTS:SASL_SSL",
        "inter.broker.listener.name": "LOCAL",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": f'{LOGIN} user_ann="{SECRETS["PLAIN password"]}";',
        "listener.name.clients.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="x" password="{SECRETS["SCRAM password"]}";'
        ),
        **issued.properties(),
        "ssl.keystore.location": str(issued.encrypted_keystore(SECRETS["key password"])),
        "ssl.key.password": SECRETS["key password"],
        "delegation.token.secret.key": SECRETS["token secret"],
    }
    process = BrokerProcess(settings, directory / "data")
    yield process
    process.stop()


def shown(text: str) -> list[str]:
    return [what for what, secret in SECRETS.items() if secret in text]


def test_describe_configs_shows_no_secret(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    broker_id = next(iter(admin.list_topics(timeout=PATIENCE_S).brokers))
    resource = ConfigResource(ResourceType.BROKER, str(broker_id))
    found = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert "delegation.token.secret.key" in found and found["delegation.token.secret.key"].is_sensitive
    text = "".join(f"{name}={entry.value}{entry.synonyms}" for name, entry in found.items())
    assert len(found) > 100 and shown(text) == []


@pytest.mark.parametrize(
    "words",
    [("configs", "get", "broker/{id}", "--all"), ("doctor", "--watch-lag", "0"), ("cluster", "brokers")],
    ids=lambda words: words[0],
)
def test_commands_show_no_secret(broker: BrokerProcess, words: tuple[str, ...]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    broker_id = next(iter(admin.list_topics(timeout=PATIENCE_S).brokers))
    command = [sys.executable, "-m", "headrace.cli", *(word.format(id=broker_id) for word in words)]
    ran = subprocess.run([*command, "-b", broker.bootstrap], capture_output=True, text=True, check=False)
    assert ran.stdout, ran.stderr
    assert shown(ran.stdout + ran.stderr) == []


def test_the_log_of_the_broker_shows_no_secret(broker: BrokerProcess) -> None:
    assert broker.output and shown(broker.output) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.clients.plain.sasl.jaas.config", f'{LOGIN} user_ann="{SECRETS["PLAIN password"]}'),
        ("ssl.key.password", SECRETS["key password"]),
        ("schema.registry.url", f"http://ann:{SECRETS['PLAIN password']}@localhost:1"),
    ],
)
def test_the_message_of_a_failed_start_shows_no_secret(
    broker: BrokerProcess, tmp_path: Path, name: str, value: str
) -> None:
    settings = {**broker.settings, name: value}
    if name == "ssl.key.password":
        issued = Authority.make(tmp_path / "certificates").issue("broker")
        settings["ssl.keystore.location"] = str(issued.encrypted_keystore("another"))
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(tmp_path / "data")]
    for key, text in settings.items():
        command += ["--set", f"{key}={text}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode != 0 and name.rpartition(".")[2] in ran.stderr + ran.stdout
    assert shown(ran.stdout + ran.stderr) == []
