"""Brokers of a cluster on a real ZooKeeper: one controller, one image, and what happens when sessions end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from headrace.cluster.core.image import NO_LEADER, BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.loading import load_image
from headrace.cluster.membership import generated_broker_id
from headrace.cluster.view import ClusterView
from headrace.config import load_broker_config
from headrace.controller.core.config_changes import KeyChange
from headrace.controller.core.isr_changes import IsrReport
from headrace.controller.core.topics import NewTopic
from headrace.controller.ledger import Deposed
from headrace.controller.member import ClusterMember
from headrace.controller.topic_operations import Growth
from headrace.coordination.store import StoreFailed
from headrace.coordination.zookeeper import ZooKeeperStore
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.clock import PATIENCE_S, wait_on_loop
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.needs("zookeeper")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


# As long as the server grants: a busy machine may stand still for seconds, and no session shall end by itself where its
# end is not what a test is about.
SESSION_S = 10
SHORT_SESSION_S = 3


class Member:
    def __init__(
        self, connect: str, broker_id: int, port: int = 0, *, clean: bool = True, session_s: float = SESSION_S
    ) -> None:
        self.connect = connect
        self.config = load_broker_config({"broker.id": str(broker_id), "zookeeper.connect": connect})
        self.store = ZooKeeperStore(connect, session_timeout=session_s)
        self.view = ClusterView()
        endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", port or 1000 + broker_id, "PLAINTEXT"),)
        self.member = ClusterMember(
            self.store, self.view, lambda: self.config, BrokerInfo(broker_id, -1, endpoints), clean_start=clean
        )

    @property
    def image(self) -> ClusterImage:
        return self.view.current

    async def start(self) -> Member:
        await self.store.connect(PATIENCE_S)
        await self.store.make_chroot()
        await self.member.prepare()
        await self.member.start()
        return self

    async def stop(self) -> None:
        await self.member.close()
        await self.store.close()

    def end_session(self) -> None:
        """Ends the session as the ensemble does after the session timeout."""
        thief = KazooClient(
            hosts=self.store._client.hosts and ",".join(f"{h}:{p}" for h, p in self.store._client.hosts)
        )
        thief._session_id, thief._session_passwd = self.store._client.client_id
        thief.start(timeout=5)
        thief.stop()
        thief.close()

    async def sees(self, condition: Callable[[ClusterImage], bool], timeout: float = PATIENCE_S) -> None:
        assert await self.view.wait_until(condition, timeout), self.image


def cluster(
    server: ZooKeeperServer,
    size: int,
    use: Callable[[list[Member]], Awaitable[None]],
    session_s: float = SESSION_S,
) -> None:
    async def run() -> None:
        members: list[Member] = []
        tree = server.chroot()
        try:
            for broker_id in range(1, size + 1):
                member = Member(tree, broker_id, session_s=session_s)
                members.append(await member.start())
            await use(members)
        finally:
            for member in members:
                await member.stop()

    asyncio.run(run())


def test_the_first_broker_is_controller_and_all_see_the_same_image(server: ZooKeeperServer) -> None:
    async def use(members: list[Member]) -> None:
        first = members[0]
        assert [m.member.controller.is_active for m in members] == [True, False, False]
        with pytest.raises(Deposed):
            await members[1].member.controller.create_topics([NewTopic("a")])
        results = await first.member.controller.create_topics([NewTopic("a", 6, 3)])
        assert results[0].error is ErrorCode.none
        for member in members:
            await member.sees(lambda image: image.version >= first.image.version)
            assert member.image == first.image == await load_image(member.store)
        assert {info.leader for info in first.image.topics["a"].partitions} == {1, 2, 3}

    cluster(server, 3, use)


def test_when_the_controller_stops_another_takes_over_and_moves_its_leadership(server: ZooKeeperServer) -> None:
    async def use(members: list[Member]) -> None:
        await members[0].member.controller.create_topics([NewTopic("a", 6, 3)])
        gone = members.pop(0)
        await gone.stop()
        for member in members:
            await member.sees(lambda image: 1 not in image.brokers and image.controller_id in (2, 3))
            for info in member.image.topics["a"].partitions:
                assert info.leader in (2, 3) and set(info.isr) == {2, 3}
        back = await Member(gone.connect, 1).start()
        members.append(back)
        info = back.image.partition("a", 0)  # type: ignore[assignment]
        assert info is not None and 1 not in info.isr  # it joins by catching up, not by being there

    cluster(server, 3, use)


def test_allowing_unclean_elections_elects_leaders_for_all_topics(server: ZooKeeperServer) -> None:
    """At once, and counted; without leave the partition waits for the replica that holds everything."""

    async def use(members: list[Member]) -> None:
        first, second = members
        await first.member.controller.create_topics([NewTopic("a", assignments={0: [1, 2]})])
        alone = IsrReport("a", 0, 0, 0, [(1, first.member.epoch)])
        [answer] = await first.member.controller.alter_partitions(1, first.member.epoch, [alone])
        assert answer.error is ErrorCode.none
        await first.stop()
        await second.sees(lambda image: image.topics["a"].partitions[0].leader == NO_LEADER)
        await wait_on_loop(lambda: second.member.controller.is_active, "the second broker to be controller")
        assert second.member.controller.election_policy.unclean_elections == 0
        allow = [KeyChange("unclean.leader.election.enable", 0, "true")]
        [result] = await second.member.controller.change_configs([("broker", "", allow)])
        assert result.error is ErrorCode.none
        info = second.image.topics["a"].partitions[0]
        assert (info.leader, info.isr) == (2, (2,))
        assert second.member.controller.election_policy.unclean_elections == 1

    cluster(server, 2, use)


def test_a_controller_with_an_expired_session_is_replaced_and_registers_again(server: ZooKeeperServer) -> None:
    async def use(members: list[Member]) -> None:
        first = members[0]
        await first.member.controller.create_topics([NewTopic("a", 2, 2)])
        epoch = first.member.epoch
        await asyncio.to_thread(first.end_session)
        await members[1].sees(lambda image: image.controller_id == 2 and image.controller_epoch == 2)
        await first.sees(lambda image: 1 in image.brokers and image.brokers[1].epoch > epoch)
        assert first.member.epoch > epoch
        assert not first.member.controller.is_active
        assert first.member.lease_held()
        await first.sees(lambda image: image.version >= members[1].image.version)
        assert all(info.leader == 2 for info in first.image.topics["a"].partitions)

    cluster(server, 2, use)


def test_a_broker_id_in_use_is_refused_with_its_holder(server: ZooKeeperServer) -> None:
    async def use(members: list[Member]) -> None:
        listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        holder = await Member(members[0].connect, 7, port).start()
        twin = Member(members[0].connect, 7)
        with pytest.raises(Refused, match=f"broker.id=7 is already used by the broker at 127.0.0.1:{port}"):
            await twin.start()
        await twin.stop()
        assert holder.member.lease_held()
        await holder.stop()
        listener.close()

    cluster(server, 1, use)


def test_without_zookeeper_the_lease_ends_and_is_renewed_afterwards(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path / "own") as own:

        async def use(members: list[Member]) -> None:
            await members[0].member.controller.create_topics([NewTopic("a", 2, 2)])
            own.kill()
            await wait_on_loop(lambda: not any(member.member.lease_held() for member in members), "all leases to end")
            await asyncio.to_thread(own.start)
            await wait_on_loop(lambda: all(member.member.lease_held() for member in members), "all leases")
            await wait_on_loop(lambda: any(member.member.controller.is_active for member in members), "a controller")
            active = next(m for m in members if m.member.controller.is_active)
            assert (await active.member.controller.create_topics([NewTopic("b", 2, 2)]))[0].error is ErrorCode.none
            for member in members:
                await member.sees(lambda image: "b" in image.topics)

        cluster(own, 2, use, SHORT_SESSION_S)


def test_a_start_waits_for_zookeeper_and_then_fails_with_its_address() -> None:
    async def use() -> None:
        store = ZooKeeperStore("127.0.0.1:1", session_timeout=3)
        with pytest.raises(StoreFailed, match=r"ZooKeeper at 127\.0\.0\.1:1 does not answer within 0\.5 s"):
            await store.connect(0.5)

    asyncio.run(use())


def test_another_clusters_directory_is_refused(server: ZooKeeperServer) -> None:
    async def use(members: list[Member]) -> None:
        with pytest.raises(Refused, match=r"zookeeper\.connect"):
            await members[0].member.prepare("some-other-cluster")

    cluster(server, 1, use)


def test_brokers_without_an_id_get_different_ids(server: ZooKeeperServer) -> None:
    async def use(members: list[Member]) -> None:
        asked = [generated_broker_id(member.store, 1000) for member in members for _ in range(3)]
        assert sorted(await asyncio.gather(*asked)) == [1001, 1002, 1003, 1004, 1005, 1006]

    cluster(server, 2, use)


def test_large_topics_with_long_names_fit_the_ensembles_limits(server: ZooKeeperServer) -> None:
    async def use(members: list[Member]) -> None:
        controller = members[0].member.controller
        for name, partitions in (("x" * 249, 330), ("y" * 249, 900), ("z" * 10, 999), ("w", 3000)):
            results = await controller.create_topics([NewTopic(name, partitions, 2)])
            assert results[0].error is ErrorCode.none
        await controller.create_partitions([Growth("x" * 249, 1500)])
        await members[1].sees(lambda image: image.version >= members[0].image.version)
        assert members[1].image == await load_image(members[1].store)
        # Every partition moves at once.
        await members.pop().stop()
        await members[0].sees(lambda image: all(info.leader == 1 for _, _, info in image.partitions()))
        assert members[0].image == await load_image(members[0].store)
        await controller.delete_topics([(name, None) for name in members[0].image.topics])
        await controller.create_topics([NewTopic("probe")], validate_only=True)
        assert await members[0].store.children("/brokers/topics") == []

    cluster(server, 2, use)
