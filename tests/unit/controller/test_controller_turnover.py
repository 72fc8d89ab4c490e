"""While the controller changes, a request gets its answer or a retriable error before the client times out.

On virtual time, with controllers that are silent, stopped or slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.errors import Unreachable
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.view import ClusterView
from headrace.controller.gateway import DEFAULT_TIMEOUT_SECONDS, ControllerGateway
from headrace.kernel.errors import ErrorCode, Refused
from headrace.testing.simulation import virtual_loop
from headrace.wire.apis import ApiKey

Answer = Callable[[], Awaitable[Any]]
MOST_CLIENTS_WAIT_SECONDS = 30.0


class Peer:
    """A connection to a broker whose `answer` may take its time."""

    def __init__(self, answer: Answer) -> None:
        self.closed = False
        self.asked = 0
        self._answer = answer

    async def request(self, api_key: int, body: dict[str, Any], *, timeout: float, **_: Any) -> Any:
        assert api_key == ApiKey.ALLOCATE_PRODUCER_IDS
        self.asked += 1
        async with asyncio.timeout(timeout):
            return await self._answer()

    async def close(self) -> None:
        self.closed = True


class Peers:
    """Who listens where: each port has one behaviour, and every connection to it is kept."""

    def __init__(self, **behaviours: Answer) -> None:
        self.opened: dict[str, list[Peer]] = {name: [] for name in behaviours}
        self._behaviours = behaviours

    async def connect(self, host: str, port: int, **_: Any) -> Peer:
        if host not in self._behaviours:
            raise Unreachable(f"cannot connect to {host}:{port}: refused")
        if self._behaviours[host] is silence and host == "unplugged":
            await silence()
        self.opened[host].append(Peer(self._behaviours[host]))
        return self.opened[host][-1]


async def silence() -> None:
    await asyncio.Event().wait()


def after(seconds: float) -> Answer:
    async def answer() -> Any:
        await asyncio.sleep(seconds)
        return SimpleNamespace(error_code=0, producer_id_start=7000, producer_id_len=1000)

    return answer


def image(version: int, controller: str | None) -> ClusterImage:
    """`controller`: the host of the one who is controller, with the version as its epoch."""
    hosts = ("silent", "unplugged", "dead", "well")
    brokers = {
        number: BrokerInfo(number, 100 + number, (Endpoint("INTERNAL", host, 9092, "PLAINTEXT"),))
        for number, host in enumerate(hosts, 1)
    }
    known = -1 if controller is None else hosts.index(controller) + 1
    return ClusterImage(version, "cluster", known, version, brokers)


def gateway(peers: Peers, view: ClusterView) -> ControllerGateway:
    inactive: Any = SimpleNamespace(is_active=False)
    connect: Any = peers.connect
    return ControllerGateway(inactive, view, "INTERNAL", lambda: (9, 1), connect)


async def ask(through: ControllerGateway, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> tuple[ErrorCode, float]:
    """(how it ended, after how many seconds)"""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        await through.allocate_producer_ids(timeout=timeout)
    except Refused as refused:
        return refused.code, round(loop.time() - began, 3)
    return ErrorCode.none, round(loop.time() - began, 3)


@pytest.mark.parametrize("former", ["silent", "unplugged", "dead", None])
def test_a_request_without_an_answer_is_repeated_at_the_next_controller(former: str | None) -> None:
    """Frozen with the request in hand, not to be connected to, refusing connections, or unknown to this broker."""

    async def main() -> None:
        peers = Peers(silent=silence, unplugged=silence, well=after(0.01))
        view = ClusterView(image(1, former))
        through = gateway(peers, view)
        asked = [asyncio.create_task(ask(through)) for _ in range(20)]
        await asyncio.sleep(19.0)  # the session of the former one, and an election
        view.publish(image(2, "well"))
        ended = await asyncio.gather(*asked)
        assert {code for code, _ in ended} == {ErrorCode.none}
        assert max(seconds for _, seconds in ended) < 19.0 + 2.0
        assert len(peers.opened["well"]) == 1
        assert all(peer.closed for peer in peers.opened["silent"])
        await through.close()

    virtual_loop.run(main)


@pytest.mark.parametrize("former", ["silent", "unplugged", "dead", None])
@pytest.mark.parametrize("timeout", [0.5, 5.0, DEFAULT_TIMEOUT_SECONDS])
def test_without_a_controller_clients_get_an_error_before_their_timeout(former: str | None, timeout: float) -> None:
    async def main() -> None:
        through = gateway(Peers(silent=silence, unplugged=silence), ClusterView(image(1, former)))
        ended = await asyncio.gather(*(ask(through, timeout) for _ in range(20)))
        assert {code for code, _ in ended} == {ErrorCode.request_timed_out}
        assert max(seconds for _, seconds in ended) < timeout
        await through.close()

    virtual_loop.run(main)
    assert DEFAULT_TIMEOUT_SECONDS < MOST_CLIENTS_WAIT_SECONDS


def test_a_request_with_a_short_deadline_does_not_close_the_shared_connection() -> None:
    async def main() -> None:
        peers = Peers(well=after(3.0))
        through = gateway(peers, ClusterView(image(1, "well")))
        patient, hasty = await asyncio.gather(ask(through), ask(through, 1.0))
        assert patient == (ErrorCode.none, 3.0)
        assert hasty[0] is ErrorCode.request_timed_out
        [connection] = peers.opened["well"]
        assert connection.asked == 2
        assert not connection.closed

    virtual_loop.run(main)


def test_an_answer_during_the_replacement_of_the_controller_still_counts() -> None:
    """Sent again, it could only find its own success: "topic already exists"."""

    async def main() -> None:
        peers = Peers(silent=after(1.5), well=after(0.0))
        view = ClusterView(image(1, "silent"))
        through = gateway(peers, view)
        asked = asyncio.create_task(ask(through))
        await asyncio.sleep(1.0)
        view.publish(image(2, "well"))
        assert await asked == (ErrorCode.none, 1.5)
        assert not peers.opened["well"]

    virtual_loop.run(main)


def test_the_connection_is_shared_and_reopened_after_a_loss() -> None:
    async def main() -> None:
        peers = Peers(well=after(0.01))
        through = gateway(peers, ClusterView(image(1, "well")))
        await asyncio.gather(*(ask(through) for _ in range(5)))
        peers.opened["well"][0].closed = True
        assert await ask(through) == (ErrorCode.none, 0.01)
        assert [peer.asked for peer in peers.opened["well"]] == [5, 1]

    virtual_loop.run(main)
