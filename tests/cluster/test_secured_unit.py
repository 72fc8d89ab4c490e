"""A unit of broker processes whose listeners demand TLS and SCRAM: an unchanged client logs in on every process, the
processes log in to each other, and a killed process serves again without a lost record."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.cluster.secured_listeners import MECHANISM, SASL_SSL
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S, Stopwatch, wait_for
from tests.support.effort import rounds
from tests.support.unit import RunningUnit

TOPIC, PARTITIONS = "orders", 4


class SecuredUnit(RunningUnit):
    """Two processes that use SASL_SSL for clients and between each other."""

    def __init__(self, directory: Path, authority: Authority, settings: dict[str, str]) -> None:
        self._authority = authority
        super().__init__(directory, 2, settings)

    @property
    def client(self) -> dict[str, str | int]:
        return self.client_of("broker", "sesame")

    def client_of(self, user: str, password: str) -> dict[str, str | int]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self._authority.certificate),
            "log_level": 0,
        }


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[SecuredUnit]:
    authority = Authority.make(tmp_path / "certificates")
    command = [sys.executable, "-m", "headrace.cli", "security", "add-user", "broker", "--data", str(tmp_path / "data")]
    added = subprocess.run(command, input="sesame\n", capture_output=True, text=True, check=False)
    assert added.returncode == 0, added.stderr
    settings = {
        **authority.issue("unit").properties(),
        **SASL_SSL,
    }
    with SecuredUnit(tmp_path, authority, settings) as running:
        yield running


def is_refused(unit: SecuredUnit, user: str, password: str) -> bool:
    """By every process."""
    for address in unit.bootstrap.split(","):
        try:
            AdminClient({**unit.client_of(user, password), "bootstrap.servers": address}).list_topics(timeout=2)
        except KafkaException:
            continue
        return False
    return True


def writer(unit: SecuredUnit) -> tuple[Callable[[int], None], set[int], list[str]]:
    acknowledged: set[int] = set()
    failed: list[str] = []
    producer = Producer(
        {
            **unit.client_of("load", "open"),
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50,
        }
    )

    def write(count: int) -> None:
        """To each partition in turn, and waits for the acknowledgements."""
        first = len(acknowledged) + len(failed)
        for number in range(first, first + count):
            producer.produce(
                TOPIC,
                b"%d" % number,
                partition=number % PARTITIONS,
                on_delivery=lambda error, _, number=number: (
                    acknowledged.add(number) if error is None else failed.append(f"{number}: {error}")
                ),
            )
        assert producer.flush(PATIENCE_S) == 0

    return write, acknowledged, failed


def read_with_group(unit: SecuredUnit, count: int) -> list[int]:
    consumer = Consumer({**unit.client_of("load", "open"), "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[int] = []

    def read() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            found.append(int(value))
        return len(found) >= count

    wait_for(read, lambda: f"{count} records, {len(found)} so far", poll=0)
    assert consumer.poll(0.5) is None, "no record twice"
    consumer.close()
    return sorted(found)


@pytest.mark.timeout(900)
def test_clients_log_in_on_every_process_and_a_killed_process_serves_them_again(unit: SecuredUnit) -> None:
    chance = random.Random(7)
    admin = AdminClient(unit.client)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("load", info, b"open")
    admin.alter_user_scram_credentials([change])["load"].result(PATIENCE_S)
    unit.create_topic(TOPIC, PARTITIONS)
    assert sorted(unit.leaders(TOPIC)) == [0, 0, 1, 1]
    assert is_refused(unit, "load", "wrong") and is_refused(unit, "other", "open")

    write, acknowledged, failed = writer(unit)
    write(100)
    seconds = []
    for _ in range(rounds(short=1, long=20)):
        before = unit.children()
        killed = chance.choice(before)
        watch = Stopwatch()
        os.kill(killed, signal.SIGKILL)
        write(PARTITIONS)
        seconds.append(watch.seconds)
        wait_for(lambda before=before: len(set(unit.children()) - set(before)) == 1, "a new process")
    write(100)
    assert not failed, failed
    assert read_with_group(unit, len(acknowledged)) == sorted(acknowledged)
    assert unit.stop() == 0
    assert "sesame" not in unit.output
    ordered = sorted(seconds)
    print(
        f"kill -9 of a process with SASL_SSL, {len(ordered)} times: every partition accepts writes after "
        f"{ordered[len(ordered) // 2]:.2f} s (median), {ordered[-1]:.2f} s at most"
    )
