"""Random, truncated and mutated frames of every API: the broker answers with an error or closes the connection,
and other clients are not affected.
"""

from __future__ import annotations

import dataclasses
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.index import api_key_map
from kio.serial._introspect import classify_field, get_field_tag, is_optional

from headrace.records.builder import Record, build_batch
from headrace.testing import BrokerProcess, broker_process
from headrace.wire import codec
from tests.support.effort import rounds

pytestmark = pytest.mark.fuzz

ROUNDS = rounds(short=40, long=1000)
GROWTH_LIMIT_KB = 150_000


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # Short waits, because a mutated fetch may ask to wait for weeks.
    with broker_process(data_dir=tmp_path_factory.mktemp("fuzz") / "data") as running:
        yield running


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def ask(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        self.socket.sendall(codec.encode_request(api_key, version, 7, "fuzz", body))
        return codec.read_response(api_key, version, self.read())[1]

    def read(self) -> bytes:
        head = self._exactly(4)
        return self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("closed")
            data += more
        return data

    def close(self) -> None:
        self.socket.close()


def sample(schema: type[Any], chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """A request body with a value in every field."""
    body: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        kind = classify_field(field)
        kafka_type = field.metadata.get("kafka_type")
        if get_field_tag(field) is not None and chance.random() < 0.5:
            continue
        if kind.is_array:
            count = chance.choice((0, 1, 1, 2))
            if kafka_type is None:
                body[field.name] = [sample(kind.type_, chance, depth + 1) for _ in range(count)]
            else:
                body[field.name] = [value(kafka_type, chance) for _ in range(count)]
        elif kafka_type is None:
            absent = is_optional(field) and chance.random() < 0.5
            body[field.name] = None if absent else sample(kind.type_, chance, depth + 1)
        else:
            absent = is_optional(field) and kafka_type in ("string", "bytes", "records") and chance.random() < 0.2
            body[field.name] = None if absent else value(kafka_type, chance)
    # These tests do not test waits.
    for name in ("max_wait", "timeout", "session_timeout", "rebalance_timeout"):
        if name in body:
            body[name] = 10
    return body


def value(kafka_type: str, chance: random.Random) -> Any:
    match kafka_type:
        case "string":
            return chance.choice(["", "fuzzed", "x" * 300, "__consumer_offsets", "ünïcode", "0", "uniform"])
        case "bytes":
            return chance.randbytes(chance.choice((0, 3, 40)))
        case "records":
            return build_batch([Record(b"k", b"v")]) if chance.random() < 0.7 else chance.randbytes(80)
        case "uuid":
            return None
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.choice([0.0, -1.0, 1e300])
        case "int8":
            return chance.choice([0, 1, -1, 2, 127])
        case "int16" | "error_code" | "uint16":
            return chance.choice([0, 1, 2, 300])
        case _:
            return chance.choice([0, 1, -1, 2, 100, 2**31 - 1] if kafka_type != "uint32" else [0, 1])


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """Mutates the body. The length prefix is corrected, or wrong on purpose."""
    body = bytearray(frame[4:])
    match chance.randrange(6):
        case 0:
            body = body[: chance.randrange(len(body) + 1)]
        case 1:
            for _ in range(chance.randrange(1, 8)):
                body[chance.randrange(len(body))] = chance.randrange(256)
        case 2:
            at = chance.randrange(len(body))
            body[at : at + 4] = struct.pack(">i", chance.choice([2**31 - 1, -1, -(2**31), 2_000_000_000]))
        case 3:
            at = chance.randrange(len(body))
            body[at:at] = chance.randbytes(chance.randrange(1, 50))
        case 4:
            at = chance.randrange(8, len(body)) if len(body) > 8 else 0
            body[at : at + 5] = b"\xff\xff\xff\xff\x0f"
        case _:
            pass
    return struct.pack(">i", len(body)) + bytes(body)


def rss_kb(process: BrokerProcess) -> int:
    assert process.process is not None
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def check_alive(bystander: Client) -> None:
    answer = bystander.ask(18, 3, {"client_software_name": "a", "client_software_version": "1"})
    assert len(answer.api_keys) > 40


def served(client: Client) -> dict[int, range]:
    answer = client.ask(18, 3, {"client_software_name": "a", "client_software_version": "1"})
    return {
        a.api_key: range(max(a.min_version, 3 if a.api_key == 0 else 0), a.max_version + 1) for a in answer.api_keys
    }


def test_mutated_requests_of_every_api_affect_only_their_connection(target: BrokerProcess) -> None:
    chance = random.Random(20261116)
    bystander = Client(target.port)
    ranges = served(bystander)
    before = rss_kb(target)
    for api_key, versions in ranges.items():
        for round_number in range(ROUNDS):
            version = chance.choice(versions)
            body = sample(codec._request_schema(api_key, version), chance)
            frame = bytes(codec.encode_request(api_key, version, 99, "fuzz", body))
            if round_number:
                frame = mutated(frame, chance)
            client = Client(target.port)
            client.socket.settimeout(0.3)
            try:
                client.socket.sendall(frame)
                answer = client.read()
                assert len(answer) >= 4
            except (ConnectionError, TimeoutError):
                pass  # closed, or waits for the rest of a frame, or has no answer (acks=0)
            finally:
                client.close()
        check_alive(bystander)
    assert target.process is not None
    assert target.process.poll() is None
    assert rss_kb(target) - before < GROWTH_LIMIT_KB
    log = target.output
    assert "Traceback" not in log, log[log.index("Traceback") - 500 : log.index("Traceback") + 3000]


def test_broker_survives_random_bytes(target: BrokerProcess) -> None:
    chance = random.Random(4711)
    bystander = Client(target.port)
    for _ in range(300):
        client = Client(target.port)
        body = chance.randbytes(chance.randrange(200))
        if chance.random() < 0.7:
            body = struct.pack(">hhi", chance.randrange(-5, 100), chance.randrange(-2, 20), 5) + body
        try:
            client.socket.sendall(struct.pack(">i", len(body)) + body)
        except ConnectionError:
            pass
        client.close()
    check_alive(bystander)


def test_claimed_lengths_of_gigabytes_allocate_no_memory(target: BrokerProcess) -> None:
    """A frame, an array, a string and a record batch that claim gigabytes."""
    bystander = Client(target.port)
    before = rss_kb(target)
    clients = []
    for claim in (2**31 - 1, 100 * 1024 * 1024, -5):
        for _ in range(10):
            client = Client(target.port)
            client.socket.sendall(struct.pack(">i", claim) + b"\0" * 100)
            clients.append(client)
    for api_key in api_key_map:
        for version in (0, 1, 3):
            client = Client(target.port)
            client.socket.sendall(struct.pack(">ihhih", 30, api_key, version, 1, -1) + b"\x7f\xff\xff\xff" * 5)
            clients.append(client)
    check_alive(bystander)
    assert rss_kb(target) - before < 120_000
    for client in clients:
        client.close()


def test_cve_2023_34455_a_decompression_bomb_is_rejected_before_it_is_decompressed(target: BrokerProcess) -> None:
    from headrace.records.compression import Codec

    bystander = Client(target.port)
    before = rss_kb(target)
    bomb = build_batch([Record(b"k", b"\0" * 200_000_000)], codec=Codec.ZSTD)
    assert len(bomb) < 1_000_000
    body = {
        "transactional_id": None,
        "acks": 1,
        "timeout": 1000,
        "topic_data": [{"name": "bomb", "partition_data": [{"index": 0, "records": bomb}]}],
    }
    bystander.ask(3, 4, {"topics": [{"name": "bomb"}], "allow_auto_topic_creation": True})
    Client(target.port).ask(0, 9, body)
    check_alive(bystander)
    assert rss_kb(target) - before < GROWTH_LIMIT_KB
