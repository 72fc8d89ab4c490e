"""A broker's registration: an unclean start stays unclean until the controller has processed it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from headrace.cluster import codecs
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.membership import Membership
from headrace.coordination import paths
from headrace.coordination.store import Create
from headrace.testing.simulation import virtual_loop
from headrace.testing.simulation.cluster import VirtualClock
from headrace.testing.simulation.network import SimulatedNetwork
from headrace.testing.simulation.store import STORE_NODE, SimulatedStore, SimulatedZooKeeper

SESSION_S = 3.0


class Registering:
    def __init__(self, *, clean_start: bool) -> None:
        self.network = SimulatedNetwork(random.Random(1))
        self.server = SimulatedZooKeeper(random.Random(1), self.network)
        for path in ("/brokers", paths.BROKER_IDS):
            self.server.write([Create(path, b"")], 0)
        broker = BrokerInfo(1, -1, (Endpoint("PLAINTEXT", "here", 1, "PLAINTEXT"),))
        self.membership = Membership(SimulatedStore(self.server, 1, SESSION_S), broker, clean_start=clean_start)

    @property
    def registered_as_clean(self) -> bool:
        node = self.server.tree.nodes[paths.broker_id(1)]
        return codecs.decode_registration(1, node.data, node.created_id)[1]

    def accept(self) -> None:
        """The controller publishes an image with this registration."""
        known = BrokerInfo(1, self.membership.epoch, ())
        self.membership.known_to(ClusterImage(version=1, brokers={1: known}))

    async def lose_session(self) -> None:
        before = self.membership.epoch
        self.network.cut.add((1, STORE_NODE))
        await asyncio.sleep(SESSION_S + 2)
        assert not self.membership.lease_held(), "the lease ends with the session"
        self.network.cut.clear()
        await asyncio.sleep(2)
        assert self.membership.epoch > before


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    with VirtualClock():
        virtual_loop.run(main)


def test_unclean_start_stays_unclean_if_its_first_registration_was_unseen() -> None:
    async def scenario() -> None:
        broker = Registering(clean_start=False)
        await broker.membership.start()
        assert not broker.registered_as_clean
        await broker.lose_session()
        assert not broker.registered_as_clean
        assert not broker.membership.is_clean, "and a stop now must not be marked as clean"

    run(scenario)


def test_after_acceptance_a_lost_session_registers_as_clean() -> None:
    async def scenario() -> None:
        broker = Registering(clean_start=False)
        await broker.membership.start()
        broker.accept()
        assert broker.membership.is_clean
        await broker.lose_session()
        assert broker.registered_as_clean

    run(scenario)


def test_image_with_an_older_registration_does_not_make_it_clean() -> None:
    async def scenario() -> None:
        broker = Registering(clean_start=False)
        await broker.membership.start()
        broker.membership.known_to(ClusterImage(version=1, brokers={1: BrokerInfo(1, 1, ())}))
        assert not broker.membership.is_clean

    run(scenario)


def test_the_epoch_is_unknown_until_a_registration_is_answered() -> None:
    """A broker that stops meanwhile may be registered: it must not claim an older epoch."""

    async def scenario() -> None:
        broker = Registering(clean_start=True)
        assert broker.membership.last_epoch is None
        broker.network.cut.add((1, STORE_NODE))
        starting = asyncio.ensure_future(broker.membership.start())
        await asyncio.sleep(0.1)
        assert broker.membership.last_epoch == -1
        broker.network.cut.clear()
        await starting
        assert broker.membership.last_epoch == broker.membership.epoch > 0

    run(scenario)
