"""A request to the controller through the store: answered once, by the current controller, and deleted.

On virtual time, with a store of sessions: one sender and two brokers that may be controller.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.errors import NoAnswer, Unreachable
from headrace.coordination import paths
from headrace.coordination.fallback_channel import (
    LARGEST_REQUEST_BYTES,
    ControllerChannel,
    FallbackConnection,
    FallbackRequests,
)
from headrace.coordination.fallback_reader import FallbackReader
from headrace.coordination.store import ensure_path
from headrace.testing.simulation import virtual_loop
from headrace.testing.simulation.network import SimulatedNetwork
from headrace.testing.simulation.store import STORE_NODE, SimulatedStore, SimulatedZooKeeper
from headrace.wire import codec
from tests.support.clock import PATIENCE_S

ALLOCATE_PRODUCER_IDS = 67


class Place:
    """A store with its sessions, and the readers that run."""

    def __init__(self) -> None:
        self.network = SimulatedNetwork(random.Random(3))
        self.server = SimulatedZooKeeper(random.Random(5), self.network)
        self.sender = SimulatedStore(self.server, 1, 6.0)
        self.letters = FallbackRequests(self.sender, 1)
        self.reading: list[asyncio.Task[None]] = []

    def read(self, broker: int, serve: Callable[[bytes], Awaitable[bytes]], in_office: Callable[[], bool]) -> None:
        reader = FallbackReader(SimulatedStore(self.server, broker, 6.0), serve, in_office)
        self.reading.append(asyncio.create_task(reader.run()))

    async def tidy(self) -> None:
        """Returns when no fallback request is left."""
        changed = asyncio.Event()
        async with asyncio.timeout(PATIENCE_S):
            while await self.sender.children(paths.FALLBACK_REQUESTS, watch=changed.set):
                await changed.wait()
                changed.clear()

    async def close(self) -> None:
        for task in self.reading:
            task.cancel()
        await asyncio.gather(*self.reading, return_exceptions=True)


def on_virtual_time(main: Callable[[Place], Awaitable[None]]) -> None:
    async def run() -> None:
        place = Place()
        try:
            await main(place)
        finally:
            await place.close()

    virtual_loop.run(run)


async def reversed_words(data: bytes) -> bytes:
    return data[::-1]


def always() -> bool:
    return True


def test_a_request_is_answered_and_deleted() -> None:
    async def main(place: Place) -> None:
        place.read(2, reversed_words, always)
        await asyncio.sleep(1.0)  # it makes the folder that an older cluster does not have
        assert await place.letters.ask(b"abc", 5.0) == b"cba"
        await place.tidy()

    on_virtual_time(main)


def test_a_request_waits_for_the_next_controller() -> None:
    async def main(place: Place) -> None:
        await ensure_path(place.sender, paths.FALLBACK_REQUESTS)
        asked = asyncio.create_task(place.letters.ask(b"abc", 20.0))
        await asyncio.sleep(8.0)
        place.read(2, reversed_words, always)
        assert await asked == b"cba"

    on_virtual_time(main)


def test_a_replaced_controller_does_not_answer() -> None:
    async def main(place: Place) -> None:
        in_office = True

        async def slow(_: bytes) -> bytes:
            nonlocal in_office
            in_office = False
            return b"what nobody should hear"

        place.read(2, slow, lambda: in_office)
        await asyncio.sleep(1.0)
        asked = asyncio.create_task(place.letters.ask(b"abc", 20.0))
        await asyncio.sleep(3.0)
        assert not in_office
        place.read(3, reversed_words, always)
        assert await asked == b"cba"

    on_virtual_time(main)


def test_concurrent_requests_get_their_own_answers() -> None:
    async def main(place: Place) -> None:
        async def slowly(data: bytes) -> bytes:
            await asyncio.sleep(int(data) / 10)
            return data

        place.read(2, slowly, always)
        await asyncio.sleep(1.0)
        words = [str(number).encode() for number in range(40)]
        assert await asyncio.gather(*(place.letters.ask(word, 60.0) for word in words)) == words
        await place.tidy()

    on_virtual_time(main)


def test_without_a_controller_a_request_fails_and_is_deleted() -> None:
    async def main(place: Place) -> None:
        await ensure_path(place.sender, paths.FALLBACK_REQUESTS)
        with pytest.raises(NoAnswer, match="within 3 s"):
            await place.letters.ask(b"abc", 3.0)
        await place.tidy()

    on_virtual_time(main)


def test_a_request_too_large_for_the_store_is_an_error() -> None:
    async def main(place: Place) -> None:
        with pytest.raises(Unreachable, match=f"{LARGEST_REQUEST_BYTES + 1} bytes is too large"):
            await place.letters.ask(b"a" * (LARGEST_REQUEST_BYTES + 1), 3.0)
        with pytest.raises(Unreachable, match="takes no fallback requests"):  # there was never a controller
            await place.letters.ask(b"abc", 3.0)

        async def much(_: bytes) -> bytes:
            return b"a" * (LARGEST_REQUEST_BYTES + 1)

        place.read(2, much, always)
        await asyncio.sleep(1.0)
        with pytest.raises(NoAnswer, match="answer is too large"):
            await place.letters.ask(b"abc", 3.0)

    on_virtual_time(main)


def test_an_answer_lost_by_the_store_is_written_again() -> None:
    """The controller is cut off from the store while it answers; the request is still there when it is back."""

    async def main(place: Place) -> None:
        served = 0

        async def serve(data: bytes) -> bytes:
            nonlocal served
            served += 1
            if served == 1:
                place.network.cut |= {(2, STORE_NODE), (STORE_NODE, 2)}
                asyncio.get_running_loop().call_later(2.0, place.network.cut.clear)
            return data[::-1]

        place.read(2, serve, always)
        await asyncio.sleep(1.0)
        assert await place.letters.ask(b"abc", 30.0) == b"cba"
        assert served == 2

    on_virtual_time(main)


class Wire:
    """Reaches the controller or not."""

    def __init__(self) -> None:
        self.is_cut = False

    async def open(self, host: str, port: int, **_: Any) -> Any:
        if self.is_cut:
            raise Unreachable(f"cannot connect to {host}:{port}")
        return SimpleNamespace(closed=False)


def test_the_wire_is_used_first_and_tried_again_after_a_fallback() -> None:
    async def producer_ids(data: bytes) -> bytes:
        header, at = codec.read_request_header(data)
        request = codec.read_request(header, data, at)
        answer = {"throttle_time": 0, "error_code": 0, "producer_id_start": request.broker_id, "producer_id_len": 10}
        return bytes(codec.encode_response(ALLOCATE_PRODUCER_IDS, header.api_version, 0, answer)[4:])

    async def main(place: Place) -> None:
        place.read(2, producer_ids, always)
        await asyncio.sleep(1.0)
        wire = Wire()
        reach = ControllerChannel(place.sender, 1, wire.open)
        assert not isinstance(await reach.open("two", 9092, client_id="one", timeout=10.0), FallbackConnection)
        wire.is_cut = True
        bridge = await reach.open("two", 9092, client_id="one", timeout=10.0)
        body = {"broker_id": 7, "broker_epoch": 3}
        answer = await bridge.request(ALLOCATE_PRODUCER_IDS, body, version=0, timeout=5.0)
        assert (answer.error_code, answer.producer_id_start) == (0, 7)
        assert not bridge.closed
        await asyncio.sleep(10.0)
        assert bridge.closed

    on_virtual_time(main)
