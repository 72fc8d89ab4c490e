"""Pending answers: order, overlap, drop and failure, as a client sees them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.net.buffers import BufferPool
from headrace.net.connection import Connection
from headrace.net.replies import CLOSE, Pending, Reply
from headrace.net.traffic import Traffic
from tests.support.clock import PATIENCE_S, wait_on_loop


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@contextmanager
def served(serve: Callable[[bytes], Reply]) -> Iterator[tuple[socket.socket, Connection]]:
    """The client's end, and the connection that answers it."""
    client, ours = socket.socketpair()
    for one in (client, ours):
        one.setblocking(False)
    connection = Connection(
        ours,
        ("client", 1),
        listener="PLAINTEXT",
        loop=asyncio.get_running_loop(),
        pool=BufferPool(1 << 20),
        traffic=Traffic(),
        serve=lambda request, _: serve(bytes(request)),
        max_frame_bytes=1 << 20,
        on_closed=lambda _: None,
    )
    with client:
        yield client, connection
        connection.close()


async def received(client: socket.socket, size: int) -> bytes:
    loop, got = asyncio.get_running_loop(), b""
    while len(got) < size:
        more = await loop.sock_recv(client, 4096)
        if not more:
            break
        got += more
    return got


def run(test: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


@pytest.mark.parametrize("at_once", [False, True])
def test_pending_answers_are_sent_in_request_order(at_once: bool) -> None:
    async def test() -> None:
        pendings = {body: Pending(overlapping=True, at_once=at_once) for body in (b"a", b"b")}
        everything = asyncio.Event()

        def serve(body: bytes) -> Reply:
            if body == b"c":
                everything.set()
            return pendings.get(body, frame(body))

        with served(serve) as (client, _):
            client.send(frame(b"a") + frame(b"b") + frame(b"c"))
            await everything.wait()
            pendings[b"b"].give(frame(b"B"))
            pendings[b"a"].give(frame(b"A"))
            pendings[b"a"].give(frame(b"again"))
            assert await received(client, 15) == frame(b"A") + frame(b"B") + frame(b"c")

    run(test)


def test_no_request_is_served_behind_a_pending_without_overlap() -> None:
    async def test() -> None:
        pending = Pending(at_once=True)
        asked: list[bytes] = []
        begun = asyncio.Event()

        def serve(body: bytes) -> Reply:
            asked.append(body)
            begun.set()
            return pending if body == b"wait" else frame(body)

        with served(serve) as (client, _):
            client.send(frame(b"wait") + frame(b"next"))
            await begun.wait()
            assert asked == [b"wait"]
            pending.give(frame(b"done"))
            assert await received(client, 16) == frame(b"done") + frame(b"next")

    run(test)


def test_a_pending_given_before_it_is_taken_is_sent() -> None:
    async def test() -> None:
        def serve(body: bytes) -> Reply:
            pending = Pending(at_once=True)
            pending.give(frame(body))
            return pending

        with served(serve) as (client, _):
            client.send(frame(b"a") + frame(b"b"))
            assert await received(client, 10) == frame(b"a") + frame(b"b")

    run(test)


def test_a_pending_of_a_closed_connection_is_dropped_once() -> None:
    async def test() -> None:
        dropped: list[str] = []
        pending = Pending(dropped=lambda: dropped.append("dropped"))
        begun = asyncio.Event()

        def serve(body: bytes) -> Reply:
            begun.set()
            return pending

        with served(serve) as (client, connection):
            client.send(frame(b"wait"))
            await begun.wait()
            connection.close()
            pending.give(frame(b"too late"))
            assert await received(client, 1) == b""
        assert dropped == ["dropped"]

    run(test)


def test_a_coroutine_that_fails_after_a_disconnect_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The dispatcher says what is a bug. A refusal is none, and leaves no trace in the log."""

    class Record:
        def __init__(self) -> None:
            self.settlements = 0
            self.explained: list[str] = []

        def settled(self) -> None:
            self.settlements += 1

        def explain(self, error: Exception) -> bytes:
            self.explained.append(str(error))
            return frame(b"refused")

    async def test() -> None:
        record, fails = Record(), asyncio.Event()

        async def fail() -> bytes:
            await fails.wait()
            raise ValueError("this controller was closed")

        pending = Pending.of(fail())
        pending.keeper = record
        begun = asyncio.Event()

        def serve(body: bytes) -> Reply:
            begun.set()
            return pending

        with served(serve) as (client, connection):
            client.send(frame(b"wait"))
            await begun.wait()
            connection.close()
            fails.set()
            await wait_on_loop(lambda: record.explained, "the explanation")
        assert record.explained == ["this controller was closed"]
        assert record.settlements == 1
        assert pending.keeper is None

    run(test)
    assert not caplog.records


def test_a_close_comes_after_earlier_answers() -> None:
    async def test() -> None:
        pendings = [Pending(overlapping=True), Pending(overlapping=True)]
        waiting = iter(pendings)
        all_asked = asyncio.Event()

        def serve(body: bytes) -> Reply:
            if body == b"b":
                all_asked.set()
            return next(waiting)

        with served(serve) as (client, _):
            client.send(frame(b"a") + frame(b"b"))
            await all_asked.wait()
            pendings[1].give(CLOSE)
            pendings[0].give(frame(b"a"))
            assert await received(client, 100) == frame(b"a")

    run(test)


def test_a_pending_can_be_awaited_and_raises_what_it_failed_with() -> None:
    async def test() -> None:
        kept, broken, given = Pending(), Pending(), Pending()
        loop = asyncio.get_running_loop()
        loop.call_soon(kept.give, b"kept")
        loop.call_soon(broken.fail, ValueError("broken"))
        given.give(b"given")
        assert await kept == b"kept"
        assert await given == b"given"
        with pytest.raises(ValueError, match="broken"):
            await broken

    run(test)
