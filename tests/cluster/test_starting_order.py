"""A broker and its ZooKeeper start in any order: a server accepts connections before it serves, and may drop them."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headrace.broker.broker import CannotStart
from headrace.coordination.zookeeper import ZooKeeperStore
from headrace.testing import broker
from headrace.testing.in_process import RunningBroker
from headrace.testing.process import BrokerProcess
from tests.support.clock import Stopwatch, wait_for
from tests.support.cutting_proxy import Cut, CuttingProxy, SilentProxy
from tests.support.effort import rounds
from tests.support.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.needs("zookeeper"), pytest.mark.chaos]


@pytest.mark.timeout(3600)
def test_a_broker_that_starts_together_with_zookeeper_serves(tmp_path: Path) -> None:
    """`HEADRACE_ROUNDS=200 pytest tests/cluster/test_starting_order.py -k together` starts 200 pairs."""
    moments = random.Random()
    for number in range(rounds(short=3, long=200)):
        server = ZooKeeperServer(tmp_path / f"zookeeper-{number}", tick_ms=500)
        # The server listens about a second after its launch. The broker's first attempt is before, during and after
        # that moment.
        late = threading.Timer(moments.uniform(0, 1.5), server.launch)
        late.start()
        chroot = "/headrace" if number % 2 else ""
        settings = {"broker.id": "1", "zookeeper.connect": f"{server.connect}{chroot}"}
        running = None
        try:
            running = BrokerProcess(settings, tmp_path / f"broker-{number}")
            assert AdminClient({"bootstrap.servers": running.bootstrap}).list_topics(timeout=30).brokers.keys() == {1}
        finally:
            late.join()
            if running is not None:
                running.kill()
            server.stop()
        shutil.rmtree(server.directory)
        shutil.rmtree(tmp_path / f"broker-{number}")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def stood_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of a broker that moves its state to ZooKeeper at its next start."""
    directory = tmp_path_factory.mktemp("alone")
    with broker(data_dir=directory):
        pass
    return directory


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cut", Cut)
@pytest.mark.parametrize("before", ["new", "stood alone"])
def test_a_start_succeeds_when_zookeeper_drops_any_one_request(
    before: str, cut: Cut, zookeeper: ZooKeeperServer, stood_alone: Path, tmp_path: Path
) -> None:
    step = rounds(short=9, long=1)
    for at in itertools.count(1 + list(Cut).index(cut), step):
        directory = tmp_path / f"data-{at}"
        if before == "stood alone":
            shutil.copytree(stood_alone, directory)
        chroot = f"/{before.replace(' ', '-')}-{cut.name}-{at}"
        with CuttingProxy(zookeeper.port, at=at, cut=cut) as proxy:
            settings = {
                "broker.id": "0",
                "zookeeper.connect": f"127.0.0.1:{proxy.port}{chroot}",
                "zookeeper.session.timeout.ms": "6000",
            }
            running = RunningBroker(settings, directory)
            was_cut = proxy.has_cut
            running.stop()
        shutil.rmtree(directory)
        if not was_cut:
            break
    assert at > 30, "a start sends more than thirty requests, and the test drops each of them once"


@pytest.mark.parametrize("hangs_up", [True, False])
def test_error_names_a_port_that_accepts_but_never_serves(hangs_up: bool, tmp_path: Path) -> None:
    held: list[Any] = []

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                if hangs_up:
                    connection.close()
                else:
                    held.append(connection)

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        watch = Stopwatch()
        with pytest.raises(CannotStart, match=f"ZooKeeper at {address} does not answer within 1 s: is it running"):
            RunningBroker(
                {"broker.id": "1", "zookeeper.connect": address, "zookeeper.connection.timeout.ms": "1000"}, tmp_path
            )
        watch.at_least(1)
        watch.at_most(15, because="the session timeout, the next longer limit, is 18 s")
    for one in held:
        one.close()


@pytest.mark.parametrize("unanswered", [1, 2])
def test_a_start_succeeds_when_zookeeper_never_answers_its_first_connections(
    unanswered: int, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with SilentProxy(zookeeper.port) as proxy, ThreadPoolExecutor(1) as pool:
        settings = {"broker.id": "0", "zookeeper.connect": f"127.0.0.1:{proxy.port}/silent-{unanswered}"}
        watch = Stopwatch()
        starting = pool.submit(RunningBroker, settings, tmp_path)
        wait_for(lambda: proxy.unanswered >= unanswered, "a connection that stays without an answer")
        proxy.answer(now=True)
        starting.result().stop()
        watch.at_most(17, because="kazoo alone waits for 18 s, the session timeout, and the start ends then")


def test_a_session_survives_an_unanswered_first_reconnection(
    zookeeper: ZooKeeperServer,
) -> None:
    async def cut_and_come_back(proxy: SilentProxy) -> tuple[int, int]:
        store = ZooKeeperStore(f"127.0.0.1:{proxy.port}", session_timeout=10)
        proxy.answer(now=True)
        await store.connect(10)
        try:
            session = store.session_id
            proxy.answer(now=False)
            proxy.cut()
            await asyncio.to_thread(wait_for, lambda: proxy.unanswered, "a new connection without an answer")
            proxy.answer(now=True)
            await store.sync()
            return session, store.session_id
        finally:
            await store.close()

    with SilentProxy(zookeeper.port) as proxy:
        before, after = asyncio.run(cut_and_come_back(proxy))
    assert after == before


def test_a_broker_waits_for_a_zookeeper_that_starts_later(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "zookeeper")
    late = threading.Timer(3, server.launch)
    late.start()
    try:
        running = BrokerProcess({"broker.id": "1", "zookeeper.connect": server.connect}, tmp_path / "broker")
        wait_for(lambda: "registered as broker 1" in running.output, "the registration in the broker's log")
        running.kill()
    finally:
        late.join()
        server.stop()
