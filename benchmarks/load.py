"""A raw load generator: requests encoded once, pipelined over plain sockets, answers mostly ignored.

It costs a few microseconds per request, so that on two cores it measures the broker and not itself. It runs in the
calling process. The broker is another process.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from dataclasses import dataclass

from headrace.records.builder import Record, build_batch
from headrace.wire import codec

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 0, 1, 2, 3, 19
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
PRODUCE_VERSION, FETCH_VERSION = 9, 11
# Position of the records of the only partition in a Fetch v11 answer, without the topic's name and the frame length.
_RECORDS_AT = 4 + 4 + 2 + 4 + 4 + 2 + 4 + 34 + 4 + 4
_BATCH_HEADER_BYTES = 61


@dataclass(frozen=True)
class Throughput:
    seconds: float
    size_bytes: int
    requests: int
    records: int

    @property
    def megabytes_per_second(self) -> float:
        return self.size_bytes / self.seconds / 1e6

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds


def connect(port: int) -> socket.socket:
    """A plain connection. For a `SecuredPort`, one through TLS that is logged in."""
    plain = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return port.secure(plain) if isinstance(port, SecuredPort) else plain


class SecuredPort(int):
    """A port with TLS and SASL/PLAIN, which the functions of this module take like any port."""

    context: ssl.SSLContext
    user: str
    password: str

    @classmethod
    def of(cls, port: int, context: ssl.SSLContext, user: str, password: str) -> SecuredPort:
        made = cls(port)
        made.context, made.user, made.password = context, user, password
        return made

    def secure(self, plain: socket.socket) -> ssl.SSLSocket:
        encrypted = self.context.wrap_socket(plain)
        token = f"\0{self.user}\0{self.password}".encode()
        for api_key, body in ((SASL_HANDSHAKE, {"mechanism": "PLAIN"}), (SASL_AUTHENTICATE, {"auth_bytes": token})):
            encrypted.sendall(codec.encode_request(api_key, 1, 1, "bench", body))
            (length,) = struct.unpack(">i", _exactly(encrypted, 4))
            answer = codec.read_response(api_key, 1, _exactly(encrypted, length))[1]
            assert not answer.error_code, answer
        return encrypted


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


class Wire:
    """One blocking connection."""

    def __init__(self, port: int) -> None:
        self.socket = connect(port)
        # The kernel discards bytes of a plain connection. Those of TLS are decrypted first.
        self._discards = 0 if isinstance(self.socket, ssl.SSLSocket) else socket.MSG_TRUNC
        self._buffer = bytearray(1 << 20)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, api_key: int, version: int, body: dict[str, object]) -> object:
        self.socket.sendall(codec.encode_request(api_key, version, 1, "bench", body))
        return codec.read_response(api_key, version, bytes(self.answer()))[1]

    def answer(self) -> memoryview:
        """The next answer. The view is valid until the next call."""
        self._read_exactly(4, 0)
        (length,) = struct.unpack_from(">i", self._buffer, 0)
        if length > len(self._buffer):
            self._buffer = bytearray(length)
        self._read_exactly(length, 0)
        return memoryview(self._buffer)[:length]

    def take(self, length: int) -> memoryview:
        """The next bytes. The view is valid until the next call."""
        self._read_exactly(length, 0)
        return memoryview(self._buffer)[:length]

    def skip(self, length: int) -> None:
        """Reads this number of bytes from the connection without copying them."""
        while length > 0:
            got = self.socket.recv_into(self._buffer, min(length, len(self._buffer)), self._discards)
            if not got:
                raise ConnectionError("the broker closed the connection")
            length -= got

    def _read_exactly(self, length: int, at: int) -> None:
        view = memoryview(self._buffer)
        while at < length:
            got = self.socket.recv_into(view[at:length])
            if not got:
                raise ConnectionError("the broker closed the connection")
            at += got


def create_topic(port: int, name: str, partitions: int, configs: dict[str, str] | None = None) -> None:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    with Wire(port) as wire:
        wire.call(CREATE_TOPICS, 5, {"topics": [topic], "timeout": 30000, "validate_only": False})
        # Kafka's metadata names a leader before that leader serves, so only an answer of the partition itself counts.
        ends = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        asked = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": ends}]}
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            found = wire.call(LIST_OFFSETS, 2, asked).topics[0].partitions  # type: ignore[attr-defined]
            if not any(partition.error_code for partition in found):
                return
            time.sleep(0.02)
    raise RuntimeError(f"topic {name} has no leaders after 180 s")


def batch_of(records: int, record_bytes: int) -> bytes:
    # Real timestamps give realistic time indexes. The value is not all zeros, which would compress well.
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    now_ms = int(time.time() * 1000)
    return build_batch([Record(key=None, value=value[:record_bytes], timestamp_ms=now_ms) for _ in range(records)])


def produce_frame(topic: str, batches: dict[int, bytes], acks: int) -> bytes:
    partitions = [{"index": index, "records": batch} for index, batch in batches.items()]
    body = {
        "transactional_id": None,
        "acks": acks,
        "timeout": 30000,
        "topic_data": [{"name": topic, "partition_data": partitions}],
    }
    return bytes(codec.encode_request(PRODUCE, PRODUCE_VERSION, 1, "bench", body))


def produce(port: int, frames: list[bytes], total: int, *, depth: int, burst: int = 1) -> float:
    """Sends `total` requests, taking `frames` in turn, `depth` in flight. Returns the seconds until the last answer."""
    with Wire(port) as wire:
        joined = [b"".join(frames[(at + n) % len(frames)] for n in range(burst)) for at in range(0, len(frames), burst)]
        in_flight = sent = 0
        began = time.monotonic()
        while sent < total or in_flight:
            while sent < total and in_flight < depth:
                wire.socket.sendall(joined[(sent // burst) % len(joined)])
                sent += burst
                in_flight += burst
            for _ in range(burst):
                last = wire.answer()
            in_flight -= burst
        seconds = time.monotonic() - began
        _, answer = codec.read_response(PRODUCE, PRODUCE_VERSION, bytes(last))
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise RuntimeError(f"produce was refused: {code!r}")
        return seconds


def long_poll_frame(topic: str, partition: int) -> bytearray:
    """A fetch that waits for a record longer than any benchmark runs."""
    return _fetch_frame(topic, {partition: 0}, 1 << 20, wait_ms=600_000)


def _fetch_frame(topic: str, offsets: dict[int, int], max_bytes: int, *, wait_ms: int = 500) -> bytearray:
    asked = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": max_bytes, "log_start_offset": -1}
        for index, offset in offsets.items()
    ]
    body = {
        "replica_id": -1, "max_wait": wait_ms, "min_bytes": 1, "max_bytes": 32 << 20, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "topics": [{"topic": topic, "partitions": asked}],
        "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    return codec.encode_request(FETCH, FETCH_VERSION, 1, "bench", body)


def end_to_end_ms(port: int, topic: str, count: int) -> list[float]:
    """Sends one record at a time through partition 0 of an empty topic. Measures from sending it with acks=all,
    while a long poll waits on another connection, until the poll has returned it and the acknowledgement has
    arrived.
    """
    offsets = {0: 0}
    frame = produce_frame(topic, {0: batch_of(1, 100)}, acks=-1)
    times = []
    with Wire(port) as producer, Wire(port) as consumer:
        for _ in range(count):
            consumer.socket.sendall(_fetch_frame(topic, offsets, 1 << 20))
            # Wait until the poll waits: the broker would answer a later poll at once.
            time.sleep(0.001)
            began = time.perf_counter()
            producer.socket.sendall(frame)
            while not _advance(consumer.answer(), topic, offsets):
                consumer.socket.sendall(_fetch_frame(topic, offsets, 1 << 20))
            producer.answer()
            times.append((time.perf_counter() - began) * 1000)
    return times


def consume(port: int, topic: str, until_bytes: int, *, max_bytes: int = 8 << 20) -> Throughput:
    """Reads partition 0, whose batches are all of one size, from offset 0 until `until_bytes` have arrived.

    It copies only the head of an answer, and the kernel discards the rest. A copy would cost this process more than the
    broker pays for sending, and the benchmark would measure the copy.
    """
    offset = received = requests = 0
    at = 4 + _RECORDS_AT + len(topic)
    head_bytes = at + _BATCH_HEADER_BYTES
    with Wire(port) as wire:
        began = time.monotonic()
        while received < until_bytes:
            wire.socket.sendall(_fetch_frame(topic, {0: offset}, max_bytes))
            head = wire.take(head_bytes)
            (length,) = struct.unpack_from(">i", head, 0)
            (error,) = struct.unpack_from(">h", head, at - 38)
            (size,) = struct.unpack_from(">i", head, at - 4)
            if error or size < _BATCH_HEADER_BYTES:
                raise RuntimeError(f"fetch of {topic}-0 at {offset} gave {size} bytes and code {error}")
            base, batch_length = struct.unpack_from(">qi", head, at)
            (last_delta,) = struct.unpack_from(">i", head, at + 23)
            offset = base + size // (12 + batch_length) * (last_delta + 1)
            wire.skip(4 + length - head_bytes)
            received += size
            requests += 1
        return Throughput(time.monotonic() - began, received, requests, offset)


def _advance(frame: memoryview, topic: str, offsets: dict[int, int]) -> int:
    """Walks a Fetch v11 answer batch by batch without reading records. Moves `offsets` after the last batch."""
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic)
    (count,) = struct.unpack_from(">i", frame, at)
    at += 4
    received = 0
    for _ in range(count):
        index, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", frame, at)
        if error:
            raise RuntimeError(f"fetch of {topic}-{index} was refused with code {error}")
        at += 34 + max(aborted, 0) * 16 + 4
        (size,) = struct.unpack_from(">i", frame, at)
        at += 4
        end = at + max(size, 0)
        received += end - at
        while end - at >= 61:
            base, length = struct.unpack_from(">qi", frame, at)
            if at + 12 + length > end:
                break
            (last_delta,) = struct.unpack_from(">i", frame, at + 23)
            offsets[index] = base + last_delta + 1
            at += 12 + length
        at = end
    return received
