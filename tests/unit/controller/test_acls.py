"""ACLs at the controller: stored under Kafka's paths, durable, and a damaged node is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cluster.loading import load_image
from headrace.controller.core.acls import MAX_BYTES_OF_A_RESOURCE
from headrace.coordination.store import StoreFailed
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.filters import AclFilter, EntryFilter, PatternFilter
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.unit.controller.test_controller import Opened, active, run

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
NONE = ErrorCode.none


def acl(user: str, pattern: ResourcePattern = ORDERS, operation: Operation = Operation.READ, host: str = "*") -> Acl:
    return Acl(pattern, Entry(f"User:{user}", host, operation, Permission.ALLOW))


def by_user(user: str) -> AclFilter:
    return AclFilter(entry=EntryFilter(principal=f"User:{user}"))


def test_three_acls_of_a_resource_one_removed_cve_2024_27309(tmp_path: Path) -> None:
    """CVE-2024-27309: the other two ACLs hold, in the image, in the store and after a restart."""
    left = (acl("ann").entry, acl("cem").entry)

    async def change(cluster: Opened) -> None:
        await active(cluster)
        created = await cluster.controller.create_acls([acl("ann"), acl("bob"), acl("cem")])
        assert [one.error for one in created] == [NONE] * 3
        [deleted] = await cluster.controller.delete_acls([by_user("bob")])
        assert deleted.acls == (acl("bob"),)
        assert cluster.image.acls == {ORDERS: left}
        node = json.loads((await cluster.store.get("/kafka-acl/Topic/orders")).data)
        assert [row["principal"] for row in node["acls"]] == ["User:ann", "User:cem"]
        assert (await load_image(cluster.store)).acls == {ORDERS: left}

    async def look(cluster: Opened) -> None:
        assert cluster.image.acls == {ORDERS: left}

    run(tmp_path, change)
    run(tmp_path, look)


def test_deleting_the_last_acl_deletes_the_node(tmp_path: Path) -> None:
    async def change(cluster: Opened) -> None:
        await active(cluster)
        await cluster.controller.create_acls([acl("ann")])
        await cluster.controller.delete_acls([by_user("ann")])
        assert cluster.image.acls == {}
        assert await cluster.store.exists("/kafka-acl/Topic/orders") is None

    run(tmp_path, change)


def test_an_existing_acl_changes_nothing(tmp_path: Path) -> None:
    async def change(cluster: Opened) -> None:
        await active(cluster)
        await cluster.controller.create_acls([acl("ann"), acl("ann")])
        version = cluster.image.version
        [again] = await cluster.controller.create_acls([acl("ann")])
        assert again.error is NONE and cluster.image.version == version

    run(tmp_path, change)


def test_a_wrong_row_is_refused_and_the_others_are_created(tmp_path: Path) -> None:
    async def change(cluster: Opened) -> None:
        await active(cluster)
        rows = [
            acl("ann"),
            acl("ann", ResourcePattern(ResourceType.CLUSTER, "mine")),
            acl("ann", host="10.0.0.0/33"),
            acl("ann", operation=Operation.UNKNOWN),
            acl("ann", ResourcePattern(ResourceType.TOPIC, "")),
            Acl(ORDERS, Entry("ann", "*", Operation.READ, Permission.ALLOW)),
            acl("ann", host="10.0.0.0/8"),
        ]
        codes = [one.error for one in await cluster.controller.create_acls(rows)]
        assert codes == [NONE, *[ErrorCode.invalid_request] * 5, NONE]
        assert cluster.image.acls == {ORDERS: (acl("ann").entry, acl("ann", host="10.0.0.0/8").entry)}

    run(tmp_path, change)


def test_names_with_slashes_and_dots_stay_in_their_folder(tmp_path: Path) -> None:
    names = ["a/b", "..", "../../controller", "%2F", "/"]
    patterns = [ResourcePattern(ResourceType.GROUP, name, PatternType.PREFIXED) for name in names]

    async def change(cluster: Opened) -> None:
        await active(cluster)
        results = await cluster.controller.create_acls([acl("ann", pattern) for pattern in patterns])
        assert {one.error for one in results} == {NONE}
        assert len(await cluster.store.children("/kafka-acl-extended/prefixed/Group")) == len(names)
        assert set((await load_image(cluster.store)).acls) == set(patterns)

    run(tmp_path, change)


def test_an_unreadable_node_fails_the_read_of_the_image(tmp_path: Path) -> None:
    async def change(cluster: Opened) -> None:
        await active(cluster)
        await cluster.controller.create_acls([acl("ann")])
        await cluster.store.set("/kafka-acl/Topic/orders", b'{"acls":[{"principal":"User:ann"}]}')
        with pytest.raises(StoreFailed, match="/kafka-acl/Topic/orders"):
            await load_image(cluster.store)

    run(tmp_path, change)


def test_a_store_of_an_older_version_gets_the_nodes_of_acls(tmp_path: Path) -> None:
    async def older(cluster: Opened) -> None:
        for root in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
            for name in await cluster.store.children(root):
                await cluster.store.delete(f"{root}/{name}")
        for path in (
            "/kafka-acl",
            "/kafka-acl-extended/prefixed",
            "/kafka-acl-extended",
            "/kafka-acl-changes",
            "/kafka-acl-extended-changes",
        ):
            await cluster.store.delete(path)

    async def newer(cluster: Opened) -> None:
        await active(cluster)
        await cluster.controller.create_acls([acl("ann")])
        assert ORDERS in cluster.image.acls

    run(tmp_path, older)
    run(tmp_path, newer)


def test_a_resource_takes_no_more_acls_than_its_node_holds(tmp_path: Path) -> None:
    async def change(cluster: Opened) -> None:
        await active(cluster)
        rows = [acl(f"{'u' * 900}{number}") for number in range(300)]
        results = await cluster.controller.create_acls(rows)
        refused = [one for one in results if one.error is ErrorCode.invalid_request]
        assert 0 < len(refused) < 300 and "role" in str(refused[0].message)
        assert len((await cluster.store.get("/kafka-acl/Topic/orders")).data) < MAX_BYTES_OF_A_RESOURCE * 1.2

    run(tmp_path, change)


def test_one_request_deletes_ten_thousand_acls_at_most(tmp_path: Path) -> None:
    async def change(cluster: Opened) -> None:
        await active(cluster)
        for first in range(0, 10_001, 1000):
            patterns = [ResourcePattern(ResourceType.TOPIC, f"t{n}") for n in range(first, min(10_001, first + 1000))]
            await cluster.controller.create_acls([acl("ann", pattern) for pattern in patterns])
        with pytest.raises(Refused, match="more than 10000 acls"):
            await cluster.controller.delete_acls([AclFilter(PatternFilter(ResourceType.TOPIC))])
        assert len(cluster.image.acls) == 10_001
        [deleted] = await cluster.controller.delete_acls(
            [AclFilter(PatternFilter(ResourceType.TOPIC, "t0", PatternType.MATCH))]
        )
        assert len(deleted.acls) == 1 and len(cluster.image.acls) == 10_000

    run(tmp_path, change)
