"""Mutated TLS records before a login and mutated logins inside TLS: no effect, and the broker's memory is bounded."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.testing import BrokerProcess
from tests.conformance.test_fuzz import rss_kb
from tests.conformance.test_login_fuzz import MAX_LOGIN_BYTES, frames, mutated
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S
from tests.support.effort import rounds

pytestmark = pytest.mark.fuzz

ROUNDS = rounds(short=100, long=5000)
WARM_UP = 50
GROWTH_LIMIT_KB = 40_000
HELD = 40
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Target:
    """A broker process with one SASL_SSL listener."""

    def __init__(self, directory: Path) -> None:
        authority = Authority.make(directory / "certificates")
        self.ca = authority.certificate
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": (
                f'{MODULE} username="anna" password="sesame" user_anna="sesame";'
            ),
            "connection.failed.authentication.delay.ms": "0",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:anna",
            **authority.issue("broker").properties(),
        }
        self.broker = BrokerProcess(settings, directory / "data")
        self.context = ssl.create_default_context(cafile=str(self.ca))

    def topics(self) -> set[str]:
        """What an honest client gets."""
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "anna", "sasl.password": "sesame"}
        settings = {"bootstrap.servers": self.broker.bootstrap, "security.protocol": "SASL_SSL", **login}
        admin = AdminClient(settings | {"ssl.ca.location": str(self.ca), "log_level": 0})
        return set(admin.list_topics(timeout=PATIENCE_S).topics)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.broker.host, self.broker.port), timeout=PATIENCE_S)

    def hello(self) -> bytes:
        """The first message of a TLS client."""
        out = ssl.MemoryBIO()
        client = self.context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return out.read()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    started = Target(tmp_path_factory.mktemp("fuzz"))
    yield started
    started.broker.stop()


class Tampered:
    """A TLS client whose records are changed on their way to the broker."""

    def __init__(self, target: Target, chance: random.Random) -> None:
        self._chance, self._in, self._out = chance, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = target.context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._socket = target.connect()

    def run(self, sent: bytes, changed_message: int) -> None:
        """Sends the handshake and then `sent`. The message with this number is changed and is the last one, because the
        broker would wait ten seconds for the rest of half a message."""
        with self._socket, suppress(OSError):
            for number in range(20):
                finished = self._step()
                if finished and sent:
                    self._tls.write(sent)
                    sent = b""
                data = self._out.read()
                self._socket.sendall(mutated(data, self._chance) if number == changed_message else data)
                if finished or number == changed_message:
                    break
                received = self._socket.recv(65536)
                if not received:
                    return
                self._in.write(received)
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(65536):
                pass

    def _step(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True


def attack(target: Target, chance: random.Random) -> None:
    kind = chance.random()
    if kind < 0.4:
        with target.connect() as client, suppress(OSError):
            client.sendall(mutated(target.hello(), chance))
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
    elif kind < 0.7:
        Tampered(target, chance).run(b"".join(frames(chance)), changed_message=chance.randrange(3))
    else:
        Tampered(target, chance).run(mutated(b"".join(frames(chance)), chance) or b"x", changed_message=-1)


def test_no_tls_record_without_a_password_has_an_effect_and_memory_is_bounded(target: Target) -> None:
    chance = random.Random(ROUNDS)
    before_topics = target.topics()
    for _ in range(WARM_UP):
        attack(target, chance)
    before = rss_kb(target.broker)
    for _ in range(ROUNDS):
        attack(target, chance)
    assert target.topics() == before_topics, "an honest client is served, and nothing was created"
    assert rss_kb(target.broker) - before < GROWTH_LIMIT_KB
    assert "Traceback" not in target.broker.output


def test_a_login_that_is_announced_and_not_sent_holds_no_memory(target: Target) -> None:
    """Connections that announce the longest login and stop."""
    target.topics()
    before = rss_kb(target.broker)
    held = []
    try:
        for _ in range(HELD):
            client = target.context.wrap_socket(target.connect(), server_hostname="localhost")
            client.sendall(struct.pack(">i", MAX_LOGIN_BYTES))
            held.append(client)
        target.topics()
        grown = rss_kb(target.broker) - before
    finally:
        for client in held:
            client.close()
    # A TLS connection itself takes some tens of KB, and a buffer 64.
    assert grown < HELD * 150, f"{grown / HELD:.0f} KB for each connection"
