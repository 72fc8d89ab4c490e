"""zookeeper.set.acl: every client may read, only the cluster's own user may change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl

from headrace.config import ConfigError, load_broker_config
from headrace.coordination.store import Create, StoreFailed
from headrace.coordination.zookeeper import open_zookeeper
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.needs("zookeeper")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def test_every_client_reads_guarded_nodes_and_only_the_cluster_changes_them(server: ZooKeeperServer) -> None:
    settings = {
        "zookeeper.connect": f"{server.connect}/guarded",
        "zookeeper.set.acl": "true",
        "zookeeper.digest.user": "headrace",
        "zookeeper.digest.password": "secret",
    }

    async def use() -> None:
        one = await open_zookeeper(load_broker_config(settings))
        other = await open_zookeeper(load_broker_config(settings))
        await one.make_chroot()
        await one.create("/a", b"1")
        await other.set("/a", b"2")
        stranger = KazooClient(hosts=server.connect)
        await asyncio.to_thread(stranger.start)
        assert stranger.get("/guarded/a")[0] == b"2"
        with pytest.raises(NoAuthError):
            stranger.set("/guarded/a", b"3")
        await asyncio.to_thread(stranger.stop)
        for wrong in (
            {"zookeeper.digest.password": "wrong"},
            {"zookeeper.set.acl": "false", "zookeeper.digest.user": ""},
        ):
            somebody = await open_zookeeper(load_broker_config({**settings, **wrong}))
            with pytest.raises(StoreFailed, match=r"/a: .*zookeeper\.digest\.user and .* must name the user"):
                await somebody.set("/a", b"4")
            await somebody.close()
        await one.close()
        await other.close()

    asyncio.run(use())


def test_cve_2019_0201_and_2024_23944_only_the_cluster_reads_what_may_hold_credentials(server: ZooKeeperServer) -> None:
    settings = {
        "zookeeper.connect": f"{server.connect}/private",
        "zookeeper.set.acl": "true",
        "zookeeper.digest.user": "headrace",
        "zookeeper.digest.password": "secret",
    }
    paths = (
        "/config/users",
        "/config/users/erin",
        "/cluster/changes/1",
        "/cluster/letters/1-2-3",
        "/delegation_token/x",
    )

    async def use() -> None:
        store = await open_zookeeper(load_broker_config(settings))
        await store.make_chroot()
        for parent in ("/config", "/cluster", "/cluster/changes", "/cluster/letters", "/delegation_token"):
            await store.create(parent, b"")
        for path in paths[:2]:
            await store.create(path, b"StoredKey")
        await store.multi([Create(path, b"StoredKey") for path in paths[2:]])
        stranger = KazooClient(hosts=server.connect)
        await asyncio.to_thread(stranger.start)
        for path in paths:
            with pytest.raises(NoAuthError):
                stranger.get(f"/private{path}")
            with pytest.raises(NoAuthError):
                stranger.get_children(f"/private{path}")
        await asyncio.to_thread(stranger.stop)
        await store.close()

    asyncio.run(use())


def test_credentials_in_nodes_that_everyone_reads_are_warned_about(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    secured = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "zookeeper.connect": server.connect,
    }
    guarded = {"zookeeper.set.acl": "true", "zookeeper.digest.user": "a", "zookeeper.digest.password": "b"}

    async def use(settings: dict[str, str]) -> None:
        await (await open_zookeeper(load_broker_config(settings))).close()

    for settings, warns in (
        (secured | guarded, False),
        ({"zookeeper.connect": server.connect}, False),
        (secured | {"zookeeper.set.acl": "false"}, True),
    ):
        caplog.clear()
        asyncio.run(use(settings))
        assert ("can read and change the SCRAM credentials" in caplog.text) == warns


def test_nodes_from_before_are_guarded_when_the_setting_is_turned_on(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    before = {"zookeeper.connect": f"{server.connect}/later", "zookeeper.set.acl": "false"}
    user = {"zookeeper.digest.user": "headrace", "zookeeper.digest.password": "secret"}
    nodes = ("/config", "/config/users", "/config/users/erin", "/brokers", "/brokers/topics", "/brokers/topics/orders")

    async def use() -> None:
        store = await open_zookeeper(load_broker_config(before))
        await store.make_chroot()
        for node in nodes:
            await store.create(node, b"StoredKey")
        await store.create("/other-program", b"")
        await store.close()
        guarded = await open_zookeeper(load_broker_config({**before, **user, "zookeeper.set.acl": "true"}))
        assert "6 nodes were open to every client" in caplog.text
        stranger = KazooClient(hosts=server.connect)
        await asyncio.to_thread(stranger.start)
        assert stranger.get("/later/brokers/topics/orders")[0] == b"StoredKey"
        for path in nodes:
            with pytest.raises(NoAuthError):
                stranger.set(f"/later{path}", b"mine")
        for path in nodes[1:3]:
            with pytest.raises(NoAuthError):
                stranger.get(f"/later{path}")
        stranger.set("/later/other-program", b"still mine")
        await asyncio.to_thread(stranger.stop)
        await guarded.set(nodes[2], b"changed")
        await guarded.close()
        caplog.clear()
        await (await open_zookeeper(load_broker_config({**before, **user, "zookeeper.set.acl": "true"}))).close()
        assert "nodes were open" not in caplog.text

    asyncio.run(use())


def test_an_existing_chroot_works_under_a_parent_without_create_rights(server: ZooKeeperServer) -> None:
    """An administrator created the chroot, and allows no other nodes beside it."""
    owner = make_digest_acl("admin", "secret", all=True)
    admin = KazooClient(hosts=server.connect, auth_data=[("digest", "admin:secret")])
    admin.start(15)
    try:
        admin.create("/orders", b"", acl=[make_digest_acl("headrace", "secret", all=True)])
        admin.set_acls("/", [owner, *READ_ACL_UNSAFE])
    finally:
        admin.stop()
    settings = {"zookeeper.digest.user": "headrace", "zookeeper.digest.password": "secret"}

    async def use() -> None:
        store = await open_zookeeper(load_broker_config({**settings, "zookeeper.connect": f"{server.connect}/orders"}))
        await store.make_chroot()
        await store.create("/a", b"1")
        await store.close()
        other = await open_zookeeper(load_broker_config({**settings, "zookeeper.connect": f"{server.connect}/others"}))
        with pytest.raises(StoreFailed, match=r"/others: .*zookeeper\.digest\.user"):
            await other.make_chroot()
        await other.close()

    asyncio.run(use())


def test_guarding_without_a_user_is_refused() -> None:
    config = load_broker_config({"zookeeper.connect": "127.0.0.1:1", "zookeeper.set.acl": "true"})
    with pytest.raises(ConfigError, match=r"zookeeper\.digest\.user"):
        asyncio.run(open_zookeeper(config))
