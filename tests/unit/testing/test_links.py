"""A cut link between two brokers of a test stays cut, whatever the brokers do at that moment."""

from __future__ import annotations

import asyncio

import pytest

from headrace.testing.clock import TurnedClock, TurnedLoop
from headrace.testing.in_process_cluster import Links


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_a_connection_that_is_made_during_the_cut_is_refused() -> None:
    links, transport, loop = Links(), Transport(), TurnedLoop(TurnedClock())
    links.owners = {9092: 2}
    link = links.check(1, 9092)
    assert link is not None
    links.sever(link)
    with pytest.raises(ConnectionRefusedError, match="brokers 1 and 2"):
        links.opened(transport, link, loop)
    assert transport.is_aborted
    loop.close()


def test_open_connections_are_closed_and_new_ones_refused() -> None:
    links, transport, loop = Links(), Transport(), TurnedLoop(TurnedClock())
    links.owners = {9092: 2}
    link = links.check(1, 9092)
    assert link is not None
    links.opened(transport, link, loop)
    links.sever(link)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert transport.is_aborted
    with pytest.raises(ConnectionRefusedError):
        links.check(1, 9092)
    loop.close()
