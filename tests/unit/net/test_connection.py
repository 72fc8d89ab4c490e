"""One connection as a client sees it, without TLS and with TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from headrace.config import listener_security, load_broker_config
from headrace.net.connection import Connection
from headrace.net.listener import CannotListen, ConnectionLimits, Listeners
from headrace.net.replies import CLOSE, Pending, Reply
from headrace.security.tls.server_context import ListenerTls
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S, Stopwatch, wait_on_loop


class _Tls:
    """How the tests below connect: without TLS while `authority` is None."""

    authority: Authority | None = None

    @classmethod
    def protect(cls, listeners: Listeners) -> None:
        if cls.authority is not None:
            settings = {"listeners": "SSL://127.0.0.1:9093", **cls.authority.issue("broker").properties()}
            listeners.encrypt("PLAINTEXT", ListenerTls(listener_security(load_broker_config(settings), "SSL")))

    @classmethod
    def context(cls) -> ssl.SSLContext | None:
        return None if cls.authority is None else ssl.create_default_context(cafile=str(cls.authority.certificate))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True, params=["plain", "tls"])
def protocol(request: pytest.FixtureRequest, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(_Tls, "authority", authority if request.param == "tls" else None)
    return str(request.param)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@asynccontextmanager
async def serving(
    serve: Callable[[memoryview, Connection], Reply], limits: ConnectionLimits | None = None
) -> AsyncIterator[tuple[Listeners, int]]:
    listeners = Listeners(serve, limits or ConnectionLimits(), asyncio.get_running_loop())
    _, port = listeners.bind("PLAINTEXT", "127.0.0.1", 0)
    _Tls.protect(listeners)
    listeners.start()
    try:
        yield listeners, port
    finally:
        listeners.close()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=_Tls.context())


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


def echo(request: memoryview, connection: Connection) -> Reply:
    return frame(bytes(request))


def run(test: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


def test_pipelined_frames_are_answered_in_order() -> None:
    async def test() -> None:
        async with serving(echo) as (_, port):
            reader, writer = await connect(port)
            bodies = [str(number).encode() * (number % 50 + 1) for number in range(2000)]
            writer.write(b"".join(frame(body) for body in bodies))
            assert [await read_frame(reader) for _ in bodies] == bodies
            writer.close()

    run(test)


@pytest.mark.parametrize("size", [0, 1, 65_530, 65_536, 65_537, 1_000_003, 9_000_001])
def test_frames_of_any_size_arrive_whole(size: int) -> None:
    async def test() -> None:
        async with serving(echo) as (listeners, port):
            reader, writer = await connect(port)
            body = bytes(i & 0xFF for i in range(256)) * (size // 256 + 1)
            for _ in range(3):
                writer.write(frame(b"small") + frame(body[:size]) + frame(b"after"))
                assert await read_frame(reader) == b"small"
                assert await read_frame(reader) == body[:size]
                assert await read_frame(reader) == b"after"
            assert listeners.pool.lent_bytes == 0, "an idle connection holds no buffer"
            writer.close()

    run(test)


def test_a_frame_that_comes_byte_by_byte_is_served_once_whole() -> None:
    async def test() -> None:
        async with serving(echo) as (_, port):
            reader, writer = await connect(port)
            for byte in frame(b"slowly") + frame(b"now"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert await read_frame(reader) == b"slowly"
            assert await read_frame(reader) == b"now"
            writer.close()

    run(test)


def test_an_awaited_answer_keeps_its_order_and_delays_later_requests() -> None:
    async def test() -> None:
        gate = asyncio.Event()
        served: list[bytes] = []

        async def later(body: bytes) -> bytes:
            await gate.wait()
            return frame(body)

        def serve(request: memoryview, connection: Connection) -> Reply:
            body = bytes(request)
            served.append(body)
            return Pending.of(later(body)) if body == b"wait" else frame(body)

        async with serving(serve) as (_, port):
            reader, writer = await connect(port)
            writer.write(frame(b"first") + frame(b"wait") + frame(b"behind"))
            assert await read_frame(reader) == b"first"
            assert served == [b"first", b"wait"]
            gate.set()
            assert await read_frame(reader) == b"wait"
            assert await read_frame(reader) == b"behind"
            writer.close()

    run(test)


def test_overlapping_answers_are_sent_in_request_order() -> None:
    async def test() -> None:
        gates = {b"a": asyncio.Event(), b"b": asyncio.Event()}

        async def later(body: bytes) -> bytes:
            await gates[body].wait()
            return frame(body)

        def serve(request: memoryview, connection: Connection) -> Reply:
            body = bytes(request)
            if body == b"c":
                gates[b"b"].set()
                return frame(body)
            return Pending.of(later(body), overlapping=True)

        async with serving(serve) as (_, port):
            reader, writer = await connect(port)
            writer.write(frame(b"a") + frame(b"b") + frame(b"c"))
            await asyncio.wait_for(gates[b"b"].wait(), PATIENCE_S)
            gates[b"a"].set()
            assert [await read_frame(reader) for _ in range(3)] == [b"a", b"b", b"c"]
            writer.close()

    run(test)


@dataclass
class Slice:
    file: IO[bytes]
    position: int
    length: int


def test_file_slices_are_sent_in_order_also_to_a_slow_reader() -> None:
    async def test() -> None:
        with tempfile.TemporaryFile() as file:
            content = bytes(range(256)) * 40_000
            file.write(content)
            file.flush()

            def serve(request: memoryview, connection: Connection) -> Reply:
                head = struct.pack(">i", 4 + len(content) - 7 + 3) + b"head"
                return [head, Slice(file, 7, len(content) - 7), b"end"]

            async with serving(serve) as (_, port):
                reader, writer = await connect(port)
                for _ in range(3):
                    writer.write(frame(b"go"))
                for _ in range(3):
                    answer = await read_frame(reader)
                    assert answer == b"head" + content[7:] + b"end"
                    await asyncio.sleep(0.01)
                writer.close()

    run(test)


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async def test() -> None:
        served = 0
        answer = frame(b"x" * 100_000)

        def serve(request: memoryview, connection: Connection) -> Reply:
            nonlocal served
            served += 1
            return answer

        async with serving(serve) as (_, port):
            reader, writer = await connect(port)
            writer.write(frame(b"r") * 300)
            await wait_on_loop(lambda: served, "the first answers")
            before = 0
            while served != before:
                before = served
                await asyncio.sleep(0.1)
            assert served < 150
            for _ in range(300):
                assert await read_frame(reader) == answer[4:]
            assert served == 300
            writer.close()

    run(test)


@pytest.mark.parametrize("length", [2**31 - 1, 101, -1, -(2**31)])
def test_a_frame_beyond_the_cap_closes_with_one_line_that_names_the_peer(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with serving(echo, ConnectionLimits(max_frame_bytes=100)) as (listeners, port):
            reader, writer = await connect(port)
            writer.write(struct.pack(">i", length) + b"whatever")
            assert await reader.read() == b""
            assert len(listeners.connections) == 0
            own = writer.get_extra_info("sockname")
            assert [f"{own[0]}:{own[1]}" in record.getMessage() for record in caplog.records] == [True]
            writer.close()

    with caplog.at_level(logging.INFO, logger="headrace.net"):
        run(test)


def test_a_large_frame_takes_memory_only_as_it_arrives() -> None:
    async def test() -> None:
        async with serving(echo) as (listeners, port):
            _, writer = await connect(port)
            writer.write(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 100)
            await wait_on_loop(lambda: listeners.traffic.bytes_in == 104, "104 counted bytes")
            assert listeners.pool.lent_bytes <= 4 * 1024 * 1024
            writer.close()

    run(test)


def test_connections_beyond_the_limits_are_refused_until_others_close() -> None:
    async def test() -> None:
        async with serving(echo, ConnectionLimits(max_connections_per_ip=2)) as (listeners, port):
            kept = [await connect(port) for _ in range(2)]
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as refused:
                assert await asyncio.to_thread(refused.recv, 1) == b""
            assert listeners.traffic.refused == 1
            kept[0][1].close()
            await wait_on_loop(lambda: len(listeners.connections) == 1, "one connection")
            reader, writer = await connect(port)
            writer.write(frame(b"in"))
            assert await read_frame(reader) == b"in"
            for one in (kept[1][1], writer):
                one.close()

    run(test)


def test_idle_and_stalled_connections_are_closed_and_waiting_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        gate = asyncio.Event()

        async def later() -> bytes:
            await gate.wait()
            return frame(b"at last")

        def serve(request: memoryview, connection: Connection) -> Reply:
            return Pending.of(later())

        monkeypatch.setattr("headrace.net.listener._SWEEP_INTERVAL_S", 0.02)
        async with serving(serve, ConnectionLimits(idle_ms=500, stalled_ms=500)) as (_, port):
            idle, idle_writer = await connect(port)
            stalled, stalled_writer = await connect(port)
            stalled_writer.write(b"\0\0\0\x20half")
            waiting, waiting_writer = await connect(port)
            waiting_writer.write(frame(b"wait"))
            assert await idle.read() == b""
            assert await stalled.read() == b""
            gate.set()
            assert await read_frame(waiting) == b"at last"
            for one in (idle_writer, stalled_writer, waiting_writer):
                one.close()

    run(test)


def test_a_throttled_client_with_further_requests_is_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.net.listener._SWEEP_INTERVAL_S", 0.05)

    async def test() -> None:
        def serve(request: memoryview, connection: Connection) -> Reply:
            if request == b"first":
                connection.throttle(500)
            return frame(bytes(request))

        async with serving(serve, ConnectionLimits(stalled_ms=100)) as (_, port):
            reader, writer = await connect(port)
            writer.write(frame(b"first") + frame(b"second"))
            assert [await read_frame(reader) for _ in range(2)] == [b"first", b"second"]
            writer.close()

    run(test)


def test_a_throttled_client_waits_and_others_do_not() -> None:
    async def test() -> None:
        served: list[bytes] = []

        def serve(request: memoryview, connection: Connection) -> Reply:
            served.append(bytes(request))
            if bytes(request).isdigit():
                connection.throttle(int(bytes(request)))
            return frame(bytes(request))

        async with serving(serve) as (_, port):
            long_throttled, short_throttled, other = [await connect(port) for _ in range(3)]
            long_throttled[1].write(frame(b"60000") + frame(b"a minute later"))
            assert await read_frame(long_throttled[0]) == b"60000"
            watch = Stopwatch()
            short_throttled[1].write(frame(b"50") + frame(b"next"))
            assert await read_frame(short_throttled[0]) == b"50"
            assert await read_frame(short_throttled[0]) == b"next"
            watch.at_least(0.05)
            other[1].write(frame(b"other"))
            assert await read_frame(other[0]) == b"other"
            assert served == [b"60000", b"50", b"next", b"other"]
            for _, writer in (long_throttled, short_throttled, other):
                writer.close()

    run(test)


def test_thousands_of_frames_at_once_do_not_starve_other_clients() -> None:
    async def test() -> None:
        served: list[str] = []

        def serve(request: memoryview, connection: Connection) -> Reply:
            served.append("one" if bytes(request) == b"one" else "many")
            return echo(request, connection)

        async with serving(serve) as (_, port):
            many_reader, many = await connect(port)
            reader, one = await connect(port)
            many.write(frame(b"x") * 5000)
            one.write(frame(b"one"))
            assert await read_frame(reader) == b"one"
            before = served.index("one")
            for _ in range(5000):
                assert await read_frame(many_reader) == b"x"
            assert before < 1000, f"{before} frames of another client were served first"
            assert served.count("many") == 5000

    run(test)


def test_frames_that_a_client_sent_before_it_closed_are_served() -> None:
    """A producer with acks=0 waits for no answer: it closes as soon as it has sent its last record."""

    async def test() -> None:
        served: list[bytes] = []

        def serve(request: memoryview, connection: Connection) -> Reply:
            served.append(bytes(request))
            if len(served) == 1000:
                connection.throttle(50)
            return None

        async with serving(serve) as (listeners, port):
            _, writer = await connect(port)
            bodies = [str(number).encode() for number in range(3000)]
            writer.write(b"".join(frame(body) for body in bodies))
            writer.close()
            await wait_on_loop(lambda: listeners.traffic.closed == 1, "the end of the connection")
            assert served == bodies
            assert listeners.pool.lent_bytes == 0

    run(test)


def test_a_failing_request_closes_only_its_connection() -> None:
    async def test() -> None:
        def serve(request: memoryview, connection: Connection) -> Reply:
            if bytes(request) == b"boom":
                raise ValueError("boom")
            return CLOSE if bytes(request) == b"close" else frame(bytes(request))

        async with serving(serve) as (listeners, port):
            for word in (b"boom", b"close"):
                reader, writer = await connect(port)
                writer.write(frame(b"before") + frame(word) + frame(b"after"))
                assert await read_frame(reader) == b"before"
                assert await reader.read() == b""
                writer.close()
            assert len(listeners.connections) == 0

    run(test)


def test_a_taken_address_is_explained(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(echo) as (_, port):
            listeners = Listeners(echo, ConnectionLimits(), asyncio.get_running_loop())
            with pytest.raises(CannotListen, match=rf"127.0.0.1:{port}: another process listens there"):
                listeners.bind("PLAINTEXT", "127.0.0.1", port)
            with socket.create_connection(("127.0.0.1", port)) as client:
                held = client.getsockname()[1]
                with pytest.raises(CannotListen, match=f"an outgoing connection .*to 127.0.0.1:{port} has that port"):
                    listeners.bind("PLAINTEXT", "127.0.0.1", held)

    run(test)


@pytest.mark.parametrize(("asked", "there"), [(102_400, 204_800), (300_000, 600_000)])
def test_connections_have_the_send_buffer_that_was_asked_for(asked: int, there: int) -> None:
    async def test() -> None:
        async with serving(echo, ConnectionLimits(send_buffer_bytes=asked)) as (listeners, port):
            _, writer = await connect(port)
            await wait_on_loop(lambda: listeners.connections, "a connection")
            (connection,) = listeners.connections
            # Linux doubles what is asked for, for its own needs.
            assert connection._sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == there
            writer.close()

    run(test)
