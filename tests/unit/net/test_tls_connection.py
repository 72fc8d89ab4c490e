"""TLS connections: principals, deadlines, incomplete handshakes and records, and clients without TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.config import listener_security, load_broker_config
from headrace.kernel.ids import ANONYMOUS
from headrace.net.connection import Connection
from headrace.net.handshakes import Handshakes
from headrace.net.listener import ConnectionLimits, Listeners
from headrace.net.replies import Reply
from headrace.security.tls.server_context import ListenerTls
from tests.support.certificates import Authority
from tests.support.clock import PATIENCE_S, Stopwatch, wait_on_loop


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def name_of_the_client(request: memoryview, connection: Connection) -> Reply:
    return frame(connection.principal.encode())


def echo(request: memoryview, connection: Connection) -> Reply:
    return frame(bytes(request))


@asynccontextmanager
async def serving(
    authority: Authority,
    serve: Callable[[memoryview, Connection], Reply] = echo,
    *,
    handshakes: Callable[[asyncio.AbstractEventLoop], Handshakes] = Handshakes,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[Listeners, int]]:
    loop = asyncio.get_running_loop()
    listeners = Listeners(serve, ConnectionLimits(), loop)
    listeners.handshakes = handshakes(loop)
    _, port = listeners.bind("SSL", "127.0.0.1", 0)
    config = load_broker_config(
        {"listeners": "SSL://127.0.0.1:9093", **authority.issue("broker").properties(), **(settings or {})}
    )
    listeners.encrypt("SSL", ListenerTls(listener_security(config, "SSL")))
    listeners.start()
    try:
        yield listeners, port
    finally:
        listeners.close()


def context(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


async def connect(port: int, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


def run(test: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


async def asked_for_its_name(port: int, tls: ssl.SSLContext) -> str:
    reader, writer = await connect(port, tls)
    writer.write(frame(b"who am I?"))
    name = (await read_frame(reader)).decode()
    writer.close()
    return name


@pytest.mark.parametrize(
    ("asks", "rules", "principal"),
    [
        ("required", "DEFAULT", "User:CN=erin,O=Other"),
        ("requested", "RULE:^CN=(.*?),O=Other$/$1/U,DEFAULT", "User:ERIN"),
        ("none", "DEFAULT", ANONYMOUS),
    ],
)
def test_the_certificate_sets_the_principal_only_if_the_listener_requests_it(
    authority: Authority, asks: str, rules: str, principal: str
) -> None:
    erin = authority.issue("erin", subject="CN=erin,O=Other", hosts=())
    tls = context(authority)
    tls.load_cert_chain(erin.certificate, erin.private_key)

    async def test() -> None:
        settings = {"ssl.client.auth": asks, "ssl.principal.mapping.rules": rules}
        async with serving(authority, name_of_the_client, settings=settings) as (_, port):
            assert await asked_for_its_name(port, tls) == principal
            if asks != "required":
                assert await asked_for_its_name(port, context(authority)) == ANONYMOUS

    run(test)


def test_unmapped_and_untrusted_certificates_close_the_connection(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        settings = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=admin$/admin/"}
        async with serving(authority, name_of_the_client, settings=settings) as (listeners, port):
            for issuer in (authority, Authority.make(tmp_path / "foreign")):
                erin = issuer.issue("erin", hosts=())
                tls = context(authority)
                tls.load_cert_chain(erin.certificate, erin.private_key)
                with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
                    await asked_for_its_name(port, tls)
            await wait_on_loop(lambda: not listeners.connections, "both to be closed")
            assert listeners.traffic.failed_handshakes == 2

    with caplog.at_level(logging.INFO, "headrace.net"):
        run(test)
    assert "its certificate gives no principal: no rule of ssl.principal.mapping.rules takes the name" in caplog.text
    assert "no TLS: certificate verify failed" in caplog.text


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_supported(authority: Authority, version: ssl.TLSVersion) -> None:
    async def test() -> None:
        async with serving(authority) as (_, port):
            tls = context(authority)
            tls.minimum_version = tls.maximum_version = version
            reader, writer = await connect(port, tls)
            writer.write(frame(b"hello"))
            assert await read_frame(reader) == b"hello"
            writer.close()

    run(test)


@pytest.mark.parametrize(
    "speech", [b"GET / HTTP/1.1\r\n\r\n", frame(bytes.fromhex("00120000000000070000")), b"\0" * 100]
)
def test_a_client_that_speaks_no_tls_is_closed_and_the_log_says_so(
    authority: Authority, speech: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with serving(authority) as (listeners, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(speech)
            assert await reader.read() == b"", "closed, and not reset"
            writer.close()
            assert listeners.traffic.failed_handshakes == 1
            assert listeners.pool.lent_bytes == 0

    with caplog.at_level(logging.INFO, "headrace.net"):
        run(test)
    assert "closed, no TLS: the client does not speak it" in caplog.text


def hello(authority: Authority) -> bytes:
    """What a client of TLS says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("part", [0, 1, 5, 100])
def test_incomplete_handshakes_are_closed_at_the_deadline(authority: Authority, part: int) -> None:
    async def test() -> None:
        def soon(loop: asyncio.AbstractEventLoop) -> Handshakes:
            return Handshakes(loop, deadline_s=0.3)

        async with serving(authority, handshakes=soon) as (listeners, port):
            kept_reader, kept = await connect(port, context(authority))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(hello(authority)[:part])
            assert await reader.read() == b""
            assert listeners.handshakes.dropped == 1
            kept.write(frame(b"still there"))
            assert await read_frame(kept_reader) == b"still there", "an established connection has no deadline"
            for one in (writer, kept):
                one.close()

    run(test)


def test_too_many_half_open_connections_drop_the_oldest_and_let_an_honest_client_in(authority: Authority) -> None:
    async def test() -> None:
        def few(loop: asyncio.AbstractEventLoop) -> Handshakes:
            return Handshakes(loop, limit=10)

        async with serving(authority, handshakes=few) as (listeners, port):
            first_reader, first = await connect(port, context(authority))
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
            reader, writer = await connect(port, context(authority))
            for one_reader, one in ((reader, writer), (first_reader, first)):
                one.write(frame(b"in"))
                assert await read_frame(one_reader) == b"in"
            assert listeners.handshakes.dropped >= 20
            assert await silent[0][0].read() == b"", "the oldest went"
            for _, one in (*silent, (reader, writer), (first_reader, first)):
                one.close()

    run(test)


def test_only_some_steps_of_handshakes_are_made_in_one_turn() -> None:
    class Client:
        is_closed = is_proven = False

        def handshake(self) -> None:
            steps.append(turn)

        def close(self) -> None:
            raise AssertionError

    turn = 0
    steps: list[int] = []

    async def test() -> None:
        nonlocal turn
        handshakes = Handshakes(asyncio.get_running_loop())
        for _ in range(10):
            handshakes.ready(Client())
        while len(steps) < 10:
            turn += 1
            await asyncio.sleep(0)
        handshakes.close()

    run(test)
    assert max(steps.count(one) for one in steps) == 4 and steps == sorted(steps)


def test_requests_in_the_records_behind_the_handshake_are_served_without_waiting_for_more(authority: Authority) -> None:
    """OpenSSL may hold bytes that the socket's readiness does not tell of."""

    async def test() -> None:
        async with serving(authority) as (_, port):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = context(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
            # The client's Finished and its requests travel together.
            bodies = [b"x" * 16_000, b"y" * 16_000, b"z" * 70_000]
            for body in bodies:
                client.write(frame(body))
            writer.write(outgoing.read())
            received = b""
            while len(received) < sum(map(len, bodies)) + 12:
                try:
                    received += client.read(65536)
                except ssl.SSLWantReadError:
                    incoming.write(await reader.read(65536))
            assert received == b"".join(map(frame, bodies))
            writer.close()

    run(test)


def test_an_incomplete_tls_record_holds_no_buffer(authority: Authority) -> None:
    async def test() -> None:
        async with serving(authority) as (listeners, port):
            plain = socket.create_connection(("127.0.0.1", port))
            client = await asyncio.to_thread(context(authority).wrap_socket, plain, server_hostname="127.0.0.1")
            await wait_on_loop(lambda: all(one.is_proven for one in listeners.connections), "the handshake")
            # A record that claims 16 KB, and three bytes of it.
            socket.socket.send(client, bytes.fromhex("1703034000") + b"abc")
            (connection,) = listeners.connections
            active = connection.last_active
            await asyncio.sleep(0.05)
            assert listeners.pool.lent_bytes == 0 and connection.last_active == active
            client.close()

    run(test)


def test_the_broker_sends_close_notify(authority: Authority) -> None:
    async def test() -> None:
        async with serving(authority) as (listeners, port):
            plain = socket.create_connection(("127.0.0.1", port))
            tls = context(authority)
            client = await asyncio.to_thread(
                tls.wrap_socket, plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False
            )
            await wait_on_loop(lambda: all(one.is_proven for one in listeners.connections), "the handshake")
            for connection in list(listeners.connections):
                connection.close()
            # Without close_notify this would be an SSLEOFError.
            assert await asyncio.to_thread(client.recv, 1) == b""
            client.close()

    run(test)


def test_a_silent_connection_costs_no_part_of_openssl(authority: Authority) -> None:
    async def test() -> None:
        async with serving(authority) as (listeners, port):
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            await wait_on_loop(lambda: len(listeners.connections) == 5, "the connections")
            assert not any(isinstance(one._sock, ssl.SSLSocket) for one in listeners.connections)
            for _, writer in silent:
                writer.close()

    run(test)


@pytest.mark.parametrize("part", [0, 1, 100, None])
def test_a_client_that_resets_the_connection_before_the_handshake_leaves_nothing(
    authority: Authority, part: int | None
) -> None:
    async def test() -> None:
        async with serving(authority) as (listeners, port):
            for _ in range(20):
                sock = socket.create_connection(("127.0.0.1", port))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(hello(authority)[:part])
                sock.close()
            await wait_on_loop(lambda: listeners.traffic.accepted == 20 and not listeners.connections, "their end")
            reader, writer = await connect(port, context(authority))
            writer.write(frame(b"in"))
            assert await read_frame(reader) == b"in"
            writer.close()

    run(test)


def test_a_flood_at_the_limit_does_not_search_the_list_for_every_connection() -> None:
    looked = 0

    class Silent:
        is_closed = False

        @property
        def is_proven(self) -> bool:
            nonlocal looked
            looked += 1
            return False

        def close(self) -> None:
            pass

    async def test() -> None:
        handshakes = Handshakes(asyncio.get_running_loop())
        for _ in range(10_000):
            handshakes.begin(Silent())
        assert handshakes.dropped == 10_000 - 1024
        handshakes.close()

    run(test)
    # Each search looks at 1,024 connections: one search for every 128 new connections at most.
    assert looked < 10_000 * (1 + 1024 / 128) * 1.1


def test_at_the_limit_of_half_open_connections_the_listener_accepts_slowly(authority: Authority) -> None:
    async def test() -> None:
        def few(loop: asyncio.AbstractEventLoop) -> Handshakes:
            return Handshakes(loop, limit=10)

        async with serving(authority, handshakes=few) as (listeners, port):
            watch = Stopwatch()
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(90)]
            await wait_on_loop(lambda: listeners.traffic.accepted == 90, "every connection")
            # 80 connections beyond the limit, four of them every ten milliseconds.
            watch.at_least(0.15)
            for _, writer in silent:
                writer.close()
            await wait_on_loop(lambda: not listeners.connections, "their end")
            reader, writer = await connect(port, context(authority))
            writer.write(frame(b"in"))
            assert await read_frame(reader) == b"in"
            writer.close()

    run(test)
