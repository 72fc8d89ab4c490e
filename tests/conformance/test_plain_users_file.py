"""The users of PLAIN change while the broker runs, when their file changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.broker.broker import CannotStart
from headrace.testing import broker
from tests.support.sasl import LISTENERS, SaslBroker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def write(file: Path, text: str, mode: int = 0o600) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.rename(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users.properties"
    write(path, "anna=one\nbert=two\n")
    return path


def settings(file: Path) -> dict[str, str]:
    return {
        **LISTENERS,
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f'{MODULE} usersFile="{file}" user_admin="fixed";',
        "connection.failed.authentication.delay.ms": "1",
    }


@pytest.fixture
def served(file: Path) -> Iterator[SaslBroker]:
    with broker(settings(file)) as running:
        yield SaslBroker(running)


def logs_in(served: SaslBroker, user: str, password: str) -> bool:
    client = AdminClient(served.settings("PLAIN", user, password) | {"log_level": 0})
    try:
        return bool(client.list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def test_users_of_the_file_change_while_the_broker_runs(served: SaslBroker, file: Path) -> None:
    assert logs_in(served, "anna", "one") and logs_in(served, "bert", "two") and logs_in(served, "admin", "fixed")
    write(file, "anna=changed\ncarl=new\nadmin=from the file\n")
    assert logs_in(served, "anna", "changed") and logs_in(served, "carl", "new")
    assert not logs_in(served, "anna", "one")
    assert not logs_in(served, "bert", "two")
    assert logs_in(served, "admin", "fixed")
    assert not logs_in(served, "admin", "from the file")


def test_an_unusable_file_keeps_the_known_users(
    served: SaslBroker, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "headrace.broker"):
        write(file, "anna=stolen\n", mode=0o644)
        assert logs_in(served, "anna", "one")
        assert "other users can read or change" in caplog.text
        file.unlink()
        assert logs_in(served, "bert", "two")
        assert "the file cannot be read: No such file or directory" in caplog.text
    assert "stolen" not in caplog.text
    write(file, "anna=three\n")
    assert logs_in(served, "anna", "three")


def test_a_broker_does_not_start_without_its_file_of_users(file: Path) -> None:
    file.unlink()
    with pytest.raises(CannotStart, match="the file cannot be read"), broker(settings(file)):
        pass
