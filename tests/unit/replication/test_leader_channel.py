"""The channel to a leader that does not answer: every request has a deadline, and a timeout ends the channel."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace.client.errors import NoAnswer, Unreachable
from headrace.replication.core.fetch_session import SessionRequest
from headrace.replication.leader_channel import ReplicaFetch, WireChannel
from headrace.wire.replica_fetch import FetchLimits

REQUEST = ReplicaFetch((2, 7), FetchLimits(500, 1, 1 << 20), 1 << 20, SessionRequest(9, 1, {}, ()))
# No tags, no throttle time, no error, session 9, no topics, no tags.
EMPTY = b"\0" + struct.pack(">ihi", 0, 0, 9) + b"\1\0"


@asynccontextmanager
async def leader(answers: int) -> AsyncIterator[WireChannel]:
    """A channel to a leader that answers `answers` requests and then no more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(answers):
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(length)
            answer = request[4:8] + EMPTY
            writer.write(struct.pack(">i", len(answer)) + answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        channel = await WireChannel.open(host, port, client_id="broker-2-fetcher", timeout_s=30)
        try:
            yield channel
        finally:
            channel.close()


def test_a_request_without_an_answer_ends_the_channel() -> None:
    async def check() -> None:
        async with leader(answers=3) as channel:
            for _ in range(3):
                assert (await channel.fetch(REQUEST, 30)).session_id == 9
            # Earlier than the timer of the previous requests.
            with pytest.raises(NoAnswer, match=r"no answer to fetch within 0\.02 s"):
                await channel.fetch(REQUEST, 0.02)
            assert channel.closed
            with pytest.raises(Unreachable):
                await channel.fetch(REQUEST, 30)

    asyncio.run(check())


def test_later_deadline_survives_the_timer_of_an_earlier_one() -> None:
    async def check() -> None:
        async with leader(answers=0) as channel:
            waiting = asyncio.create_task(channel.fetch(REQUEST, 30))
            await asyncio.sleep(0)
            channel._look_at_deadline()  # as the timer of an earlier request does
            assert not channel.closed
            channel.close()
            with pytest.raises(Unreachable):
                await waiting

    asyncio.run(check())


def test_cancelled_request_closes_the_channel() -> None:
    async def check() -> None:
        async with leader(answers=0) as channel:
            waiting = asyncio.create_task(channel.fetch(REQUEST, 30))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert channel.closed

    asyncio.run(check())
