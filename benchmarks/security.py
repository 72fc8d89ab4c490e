"""Cost of TLS, SASL and ACLs on both brokers: throughput, requests, handshakes, logins, start, half-open clients.

The client encrypts too, in this process, so throughput rows show the slower of client and broker. The row "CPU" counts
the broker only.
"""

from __future__ import annotations

import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks import load
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server
from headrace.client.security import ClientSecurity
from headrace.wire import codec
from headrace.wire.entities import Entity
from tests.support.certificates import Authority

MEGABYTE = 1 << 20
USER, PASSWORD = "admin", "secret"
HALF_OPEN = 2000
_ALTERNATIONS = 3
ROWS = {
    "produce": Row("produce through TLS, 1 KB records, 1 MB batches, acks=1", "MB/s", 1.2),
    "consume": Row("consume the same through TLS", "MB/s", 1.0),
    "cpu": Row("broker CPU per GB produced and consumed through TLS", "s/GB", 0.8, higher_is_better=False),
    "small": Row("one-record produce requests over SASL_SSL, pipelined", "requests/s", 2.0),
    "handshakes": Row("TLS handshakes, four clients", "1/s", 1.0),
    "logins": Row("SCRAM-SHA-256 logins through TLS, four clients", "1/s", 1.0),
    "start": Row("start with TLS, SASL and ACLs", "s", 0.2, higher_is_better=False),
    "calm": Row("p99 of an authenticated client", "ms"),
    "flooded": Row(f"the same beside {HALF_OPEN:,} half-open connections", "ms"),
    "slowed": Row("the latter as a multiple of the former", ""),
}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    authority = Authority.make(directory / "certificates")
    for number in range(rounds):
        for make in (Kafka, Headrace):
            with make(directory / f"{make.__name__.lower()}-{number}", _settings(authority)) as server:
                ROWS["start"].add(server.name, server.start_seconds)
                _measure(server, authority)
    return list(ROWS.values())


def _settings(authority: Authority) -> dict[str, str]:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    line = f'{plain} username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    return {
        # The reference node and `--listen` name this listener PLAINTEXT.
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": line,
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER};User:ANONYMOUS",
        **authority.issue("broker").properties(),
    }


def _measure(server: Server, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.check_hostname = False
    port = load.SecuredPort.of(server.port, context, USER, PASSWORD)
    _throughput(server, port)
    _add_user(server, authority)
    _connections(server, context)
    _half_open(server, port)


def _throughput(server: Server, port: load.SecuredPort) -> None:
    batch = load.batch_of(1000, 1024)
    load.create_topic(port, "large", 1, {"segment.bytes": str(256 * MEGABYTE)})
    frames = [load.produce_frame("large", {0: batch}, acks=1)]
    count = 250
    load.produce(port, frames, count, depth=5)
    cpu, size = server.cpu_seconds(), count * len(batch)
    ROWS["produce"].add(server.name, size / load.produce(port, frames, count, depth=5) / 1e6)
    read = load.consume(port, "large", size)
    ROWS["consume"].add(server.name, read.megabytes_per_second)
    ROWS["cpu"].add(server.name, (server.cpu_seconds() - cpu) / (2 * size / 1e9))
    load.create_topic(port, "small", 1)
    one = [load.produce_frame("small", {0: load.batch_of(1, 100)}, acks=1)] * 64
    load.produce(port, one, 12_800, depth=256, burst=64)
    total = 64 * 300
    ROWS["small"].add(server.name, total / load.produce(port, one, total, depth=256, burst=64))


def _add_user(server: Server, authority: Authority) -> None:
    admin = AdminClient(
        {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(authority.certificate),
        }
    )
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("scram", info, PASSWORD.encode())
    admin.alter_user_scram_credentials([change])["scram"].result(30)
    time.sleep(0.5)


def _connections(server: Server, context: ssl.SSLContext) -> None:
    security = ClientSecurity("SASL_SSL", "SCRAM-SHA-256", "scram", PASSWORD)

    def handshake() -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain, context.wrap_socket(plain):
            pass

    def login() -> None:
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain,
            context.wrap_socket(plain) as encrypted,
        ):
            _call(encrypted, load.SASL_HANDSHAKE, {"mechanism": security.mechanism})
            security.authenticate(
                lambda token: bytes(_call(encrypted, load.SASL_AUTHENTICATE, {"auth_bytes": token}).auth_bytes)
            )

    for row, act in (("handshakes", handshake), ("logins", login)):
        _per_second(act, 0.5)
        ROWS[row].add(server.name, _per_second(act, 2.0))


def _call(connection: ssl.SSLSocket, api_key: int, body: dict[str, object]) -> Entity:
    connection.sendall(codec.encode_request(api_key, 1, 1, "bench", body))
    length = int.from_bytes(load._exactly(connection, 4), "big")
    answer = codec.read_response(api_key, 1, load._exactly(connection, length))[1]
    assert not answer.error_code, answer
    return answer


def _per_second(act: Callable[[], None], seconds: float) -> float:
    counts = [0] * 4
    until = time.monotonic() + seconds

    def repeat(at: int) -> None:
        while time.monotonic() < until:
            act()
            counts[at] += 1

    threads = [threading.Thread(target=repeat, args=(at,)) for at in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def _half_open(server: Server, port: load.SecuredPort) -> None:
    """Beside connections that send half a TLS hello and then nothing. When the broker closes one, it is replaced. Calm
    and flooded requests in alternation: other programs of the machine disturb both."""
    load.create_topic(port, "latency", 1)
    _request_times(port, 1000)
    for _ in range(_ALTERNATIONS):
        calm = statistics.quantiles(_request_times(port, 2000), n=100)[98]
        attacker = subprocess.Popen(
            [sys.executable, "-c", _ATTACK, str(server.port), str(HALF_OPEN)], stdout=subprocess.PIPE
        )
        try:
            assert attacker.stdout is not None and attacker.stdout.readline() == b"open\n"
            flooded = statistics.quantiles(_request_times(port, 2000), n=100)[98]
        finally:
            attacker.kill()
            attacker.wait()
        for row, value in (("calm", calm), ("flooded", flooded), ("slowed", flooded / calm)):
            ROWS[row].add(server.name, value)


def _request_times(port: load.SecuredPort, count: int) -> list[float]:
    frame = load.produce_frame("latency", {0: load.batch_of(1, 100)}, acks=1)
    times = []
    with load.Wire(port) as wire:
        for _ in range(count):
            began = time.perf_counter()
            wire.socket.sendall(frame)
            wire.answer()
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(0.0005)
    return times


_ATTACK = """
import select, socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
poll, open_ = select.epoll(), {}
def begin():
    one = socket.create_connection(("127.0.0.1", port))
    one.sendall(bytes.fromhex("1603010200010001fc0303"))
    open_[one.fileno()] = one
    poll.register(one.fileno(), select.EPOLLIN | select.EPOLLHUP)
for _ in range(count):
    begin()
print("open", flush=True)
while True:
    for number, _ in poll.poll(0.5):
        poll.unregister(number)
        open_.pop(number).close()
        begin()
"""
