"""The controller on the embedded store: an answered change is stored, and a stored change survives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.core.losses import ReplicaLosses
from headrace.cluster.loading import load_image
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig, load_broker_config
from headrace.controller import writes
from headrace.controller.core.config_changes import KeyChange
from headrace.controller.core.isr_changes import IsrReport
from headrace.controller.core.topics import NewTopic
from headrace.controller.ledger import Deposed
from headrace.controller.member import ClusterMember
from headrace.controller.topic_operations import Growth
from headrace.coordination import paths
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import BadVersion, Check, Create, Delete, Node, Op, Set
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition
from tests.support.clock import PATIENCE_S

NONE = ErrorCode.none


class Opened:
    """A lone broker's cluster membership, opened on a directory."""

    def __init__(self, directory: Path, *, clean: bool = True, **settings: str) -> None:
        self.config: BrokerConfig = load_broker_config({"broker.id": "1", **settings})
        self.store = EmbeddedStore(directory / "store")
        self.view = ClusterView()
        endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
        self.member = ClusterMember(
            self.store, self.view, lambda: self.config, BrokerInfo(1, -1, endpoints), clean_start=clean
        )
        self.controller = self.member.controller

    @property
    def image(self) -> ClusterImage:
        return self.view.current

    async def __aenter__(self) -> Opened:
        await self.member.prepare()
        await self.member.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.member.close()
        await self.store.close()


async def cleared(cluster: Opened) -> None:
    """The nodes of deleted topics go after the answer, before the next operation."""
    await cluster.controller.create_topics([NewTopic("probe")], validate_only=True)


async def active(cluster: Opened) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not cluster.controller.is_active:  # noqa: ASYNC110 (nobody announces it)
            await asyncio.sleep(0.01)


def run(directory: Path, use: Callable[[Opened], Awaitable[None]], **options: str) -> None:
    async def opened() -> None:
        async with Opened(directory, **options) as cluster:  # type: ignore[arg-type]
            await use(cluster)

    asyncio.run(opened())


def test_a_created_topic_is_in_the_image_when_the_answer_comes_and_after_a_restart(tmp_path: Path) -> None:
    async def create(cluster: Opened) -> None:
        results = await cluster.controller.create_topics(
            [NewTopic("a", 3, configs={"retention.ms": "1000"}), NewTopic("b", 1, 3), NewTopic("c"), NewTopic("c")]
        )
        assert [(r.name, r.error) for r in results] == [
            ("a", NONE),
            ("b", ErrorCode.invalid_replication_factor),
            ("c", ErrorCode.invalid_request),
        ]
        assert len(cluster.image.topics["a"].partitions) == 3
        assert cluster.image.topic_names[cluster.image.topics["a"].id] == "a"

    async def look(cluster: Opened) -> None:
        info = cluster.image.partition("a", 2)
        assert info is not None
        assert (info.leader, info.isr, info.leader_epoch) == (1, (1,), 1)
        assert cluster.image.config_of("topic", "a") == {"retention.ms": "1000"}
        assert cluster.image == await load_image(cluster.store)

    run(tmp_path, create)
    run(tmp_path, look)


def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        version = cluster.image.version
        results = await cluster.controller.create_topics([NewTopic("a", 3)], validate_only=True)
        assert results[0].error is NONE and results[0].topic is not None
        assert (cluster.image.topics, cluster.image.version) == ({}, version)

    run(tmp_path, use)


def test_a_deleted_topic_leaves_no_nodes_and_its_name_can_be_used_again(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        await cluster.controller.create_topics([NewTopic("a", 3, configs={"retention.ms": "1000"})])
        first = cluster.image.topics["a"].id
        results = await cluster.controller.delete_topics([("a", None), ("a", None)])
        assert [r.error for r in results] == [ErrorCode.invalid_request]
        results = await cluster.controller.delete_topics([("a", None), ("no", None), (None, first)])
        assert [r.error for r in results] == [ErrorCode.invalid_request, ErrorCode.unknown_topic_or_partition]
        results = await cluster.controller.delete_topics([("a", None), ("no", None)])
        assert [r.error for r in results] == [NONE, ErrorCode.unknown_topic_or_partition]
        results = await cluster.controller.create_topics([NewTopic("a")])
        assert results[0].error is NONE
        assert cluster.image.topics["a"].id != first
        assert cluster.image.config_of("topic", "a") == {}
        await cluster.controller.delete_topics([(None, cluster.image.topics["a"].id)])
        await cleared(cluster)
        assert await cluster.store.children(paths.TOPICS) == []
        assert await cluster.store.children(paths.DELETE_TOPICS) == []
        assert await cluster.store.children("/config/topics") == []

    run(tmp_path, use)


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        await cluster.controller.create_topics([NewTopic("a")])
        results = await cluster.controller.delete_topics([("a", None)])
        assert results[0].error is ErrorCode.topic_deletion_disabled
        assert "a" in cluster.image.topics

    run(tmp_path, use, **{"delete.topic.enable": "false"})


def test_topics_too_large_for_one_write_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "OPS_PER_MULTI", 10)

    async def use(cluster: Opened) -> None:
        many = [NewTopic(f"t{i}", 2) for i in range(10)]
        results = await cluster.controller.create_topics([NewTopic("big", 33, configs={"retention.ms": "5"}), *many])
        assert {r.error for r in results} == {NONE}
        await cluster.controller.create_partitions([Growth("big", 40)])
        assert cluster.image == await load_image(cluster.store)
        await cluster.controller.delete_topics([("big", None), ("t3", None)])
        await cleared(cluster)
        assert cluster.image == await load_image(cluster.store)
        assert await cluster.store.children("/config/topics") == []

    run(tmp_path, use)

    async def crashed_half_way(cluster: Opened) -> None:
        await cluster.store.create(paths.topic("half"), b'{"version":3,"creating":true}')
        await cluster.store.create(paths.topic_partitions("half"), b"")
        await cluster.store.multi(
            [Create(paths.partition("half", 0), b""), Create(paths.partition_state("half", 0), b"")]
        )
        await cluster.controller.create_topics([NewTopic("going", 7, configs={"retention.ms": "5"})])
        await cluster.store.create(paths.delete_topic("going"), b"")
        await cluster.store.multi([Delete(paths.partition_state("going", 0)), Delete(paths.partition("going", 0))])

    async def finished_by_the_next(cluster: Opened) -> None:
        assert not {"half", "going"} & set(cluster.image.topics)
        assert not {"half", "going"} & set(await cluster.store.children(paths.TOPICS))
        anew = [NewTopic("half"), NewTopic("going", configs={"retention.ms": "6"})]
        assert {r.error for r in await cluster.controller.create_topics(anew)} == {NONE}
        assert cluster.image == await load_image(cluster.store)

    run(tmp_path, crashed_half_way)
    run(tmp_path, finished_by_the_next)


def test_partitions_grow(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        await cluster.controller.create_topics([NewTopic("a", 2)])
        results = await cluster.controller.create_partitions([Growth("a", 5), Growth("x", 5)])
        assert [r.error for r in results] == [NONE, ErrorCode.unknown_topic_or_partition]
        assert len(cluster.image.topics["a"].partitions) == 5
        assert cluster.image == await load_image(cluster.store)

    run(tmp_path, use)


def test_settings_quotas_and_levels_are_kept(tmp_path: Path) -> None:
    async def change(cluster: Opened) -> None:
        controller = cluster.controller
        await controller.create_topics([NewTopic("a")])
        results = await controller.change_configs(
            [
                ("topic", "a", [KeyChange("cleanup.policy", 2, "compact")]),
                ("topic", "a", [KeyChange("nope", 0, "1")]),
                ("topic", "missing", [KeyChange("nope", 0, "1")]),
                ("topic", "missing", [KeyChange("retention.ms", 0, "1")]),
                ("broker", "", [KeyChange("log.cleaner.threads", 0, "2")]),
                ("broker", "one", [KeyChange("log.cleaner.threads", 0, "2")]),
                ("group", "g/1", [KeyChange("consumer.session.timeout.ms", 0, "50000")]),
            ]
        )
        assert [r.error for r in results] == [
            NONE,
            ErrorCode.invalid_config,
            ErrorCode.invalid_config,
            ErrorCode.unknown_topic_or_partition,
            NONE,
            ErrorCode.invalid_request,
            NONE,
        ]
        await controller.alter_quotas(
            [([("user", "ann/1"), ("client-id", None)], [("producer_byte_rate", 9.0, False)])]
        )
        assert (await controller.update_features([("group.version", 0, 2)]))[0].error is NONE
        assert (await controller.update_features([("nope", 1, 1)]))[0].error is ErrorCode.invalid_update_version

    async def look(cluster: Opened) -> None:
        image = cluster.image
        assert image.config_of("topic", "a") == {"cleanup.policy": "delete,compact"}
        stored = {"min.insync.replicas": "1"}  # from the cluster's birth on
        assert image.config_of("broker", "") == {"log.cleaner.threads": "2", **stored}
        assert image.config_of("group", "g/1") == {"consumer.session.timeout.ms": "50000"}
        assert image.quotas == {(("client-id", None), ("user", "ann/1")): {"producer_byte_rate": 9.0}}
        assert "group.version" not in image.features and image.features["transaction.version"] == 2
        refused, *_ = await cluster.controller.replace_configs([("broker", "", {}), ("topic", "a", {})])
        assert refused.error is ErrorCode.invalid_config and "min.insync.replicas" in (refused.message or "")
        await cluster.controller.replace_configs([("broker", "", stored)])
        assert image.configs != cluster.image.configs
        assert dict(cluster.image.configs).keys() == {("group", "g/1"), ("broker", "")}
        assert cluster.image.config_of("broker", "") == stored
        assert cluster.image == await load_image(cluster.store)

    run(tmp_path, change)
    run(tmp_path, look)


def test_producer_ids_are_never_allocated_twice(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    async def take(cluster: Opened) -> None:
        epoch = cluster.member.epoch
        seen.extend(await asyncio.gather(*(cluster.controller.allocate_producer_ids(1, epoch) for _ in range(3))))
        with pytest.raises(Refused) as caught:
            await cluster.controller.allocate_producer_ids(1, epoch - 1)
        assert caught.value.code is ErrorCode.stale_broker_epoch

    run(tmp_path, take)
    run(tmp_path, take)
    assert seen == [(first, 1000) for first in range(0, 6000, 1000)]


def test_a_standalone_broker_answers_elections_and_reassignments(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        from headrace.controller.core.partition_states import Election

        await cluster.controller.create_topics([NewTopic("a")])
        a, x = TopicPartition("a", 0), TopicPartition("x", 0)
        results = await cluster.controller.elect_leaders(Election.PREFERRED, [a, x])
        assert [r.error for r in results] == [ErrorCode.election_not_needed, ErrorCode.unknown_topic_or_partition]
        assert await cluster.controller.elect_leaders(Election.PREFERRED, None) == []
        targets = {a: [2], x: [1]}
        results = await cluster.controller.alter_reassignments(targets)
        assert [r.error for r in results] == [
            ErrorCode.invalid_replica_assignment,
            ErrorCode.unknown_topic_or_partition,
        ]
        assert (await cluster.controller.alter_reassignments({a: [1]}))[0].error is NONE
        assert (await cluster.controller.alter_reassignments({a: None}))[
            0
        ].error is ErrorCode.no_reassignment_in_progress

    run(tmp_path, use)


def test_a_replaced_controller_writes_nothing(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        # Somebody else was elected: the epoch moved on, and with it the key to every write.
        await cluster.store.set(paths.CONTROLLER_EPOCH, b"99")
        with pytest.raises(Deposed):
            await cluster.controller.create_topics([NewTopic("a")])
        assert await cluster.store.children(paths.TOPICS) == []
        assert not cluster.controller.is_active
        # It detects that, and as the only candidate wins the next election.
        await active(cluster)
        assert cluster.image.controller_epoch == 100
        assert (await cluster.controller.create_topics([NewTopic("a")]))[0].error is NONE

    run(tmp_path, use)


CONTROLLERS_WRITES: dict[str, Callable[[Opened], Awaitable[object]]] = {
    "new topic": lambda c: c.controller.create_topics([NewTopic("new", configs={"retention.ms": "1"})]),
    "new topic in steps": lambda c: c.controller.create_topics([NewTopic("wide", 40)]),
    "growth": lambda c: c.controller.create_partitions([Growth("a", 3)]),
    "growth in steps": lambda c: c.controller.create_partitions([Growth("a", 60)]),
    "settings": lambda c: c.controller.change_configs([("topic", "a", [KeyChange("retention.ms", 0, "5")])]),
    "all settings": lambda c: c.controller.replace_configs([("topic", "a", {"retention.ms": "6"})]),
    "quotas": lambda c: c.controller.alter_quotas([([("user", "ann")], [("producer_byte_rate", 9.0, False)])]),
    "feature level": lambda c: c.controller.update_features([("group.version", 0, 2)]),
    "producer ids": lambda c: c.controller.allocate_producer_ids(1, c.member.epoch),
    "in-sync set": lambda c: c.controller.alter_partitions(
        1, c.member.epoch, [IsrReport("a", 0, 0, c.image.topics["a"].partitions[0].partition_epoch, [(1, -1)])]
    ),
    "failed disk": lambda c: c.controller.report_replicas(
        1, c.member.epoch, ReplicaLosses(frozenset({(c.image.topics["a"].id, 0)}))
    ),
    "stopping broker": lambda c: c.controller.controlled_shutdown(1, c.member.epoch),
    "deletion": lambda c: c.controller.delete_topics([("a", None)]),
}


@pytest.mark.parametrize("what", CONTROLLERS_WRITES)
def test_every_write_of_the_controller_is_fenced_by_its_epoch(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operation of a replaced controller, feature levels included: nothing is stored, and the error has the
    cause. The same with the office in hand is stored, every step of it under the check."""
    monkeypatch.setattr(writes, "OPS_PER_MULTI", 20)
    written: list[list[Op]] = []

    async def use(cluster: Opened) -> None:
        await cluster.controller.create_topics([NewTopic("a")])
        stored = await tree_of(cluster.store)
        await cluster.store.set(paths.CONTROLLER_EPOCH, b"99")
        with pytest.raises(Deposed):
            await CONTROLLERS_WRITES[what](cluster)
        left = await tree_of(cluster.store)
        assert {path: data for path, data in left.items() if not path.startswith("/controller")} == {
            path: data for path, data in stored.items() if not path.startswith("/controller")
        }
        await active(cluster)
        multi = cluster.store.multi

        async def recorded(ops: Sequence[Op]) -> None:
            written.append(list(ops))
            await multi(ops)

        monkeypatch.setattr(cluster.store, "multi", recorded)
        version = (await cluster.store.get(paths.CONTROLLER_EPOCH)).version
        await CONTROLLERS_WRITES[what](cluster)
        await cleared(cluster)
        assert await tree_of(cluster.store) != stored
        assert written
        assert all(ops[0] == Check(paths.CONTROLLER_EPOCH, version) for ops in written)

    run(tmp_path, use)


async def tree_of(store: EmbeddedStore, path: str = "/") -> dict[str, bytes]:
    found = {} if path == "/" else {path: (await store.get(path)).data}
    for name in await store.children(path):
        found |= await tree_of(store, f"{path.rstrip('/')}/{name}")
    return found


def test_a_replaced_controller_does_not_delete_its_successors_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session ended, and another broker was elected, between its look at the node and its making way."""

    async def use(cluster: Opened) -> None:
        exists = cluster.store.exists

        async def just_before(path: str, watch: Callable[[], None] | None = None) -> Node | None:
            found = await exists(path, watch)
            if path == paths.CONTROLLER and watch is None:
                await cluster.store.set(paths.CONTROLLER_EPOCH, b"99")
            return found

        monkeypatch.setattr(cluster.store, "exists", just_before)
        with pytest.raises(BadVersion):
            await cluster.member._leadership._make_way(cluster.store.session_id)
        assert await exists(paths.CONTROLLER) is not None

    run(tmp_path, use)


def test_a_controller_reads_everything_again_if_the_store_differs(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        await cluster.controller.create_topics([NewTopic("a")])
        version = cluster.image.version
        await cluster.store.multi(
            [
                Create(paths.change(version + 1), b'[1,[["feature","transaction.version",1]]]'),
                Set(paths.IMAGE, b'{"version":%d}' % (version + 1)),
            ]
        )
        with pytest.raises(Refused, match="contradicts"):
            await cluster.controller.create_topics([NewTopic("b")])
        await active(cluster)
        assert cluster.image.features["transaction.version"] == 1
        assert (await cluster.controller.create_topics([NewTopic("b")]))[0].error is NONE

    run(tmp_path, use)


def test_another_clusters_directory_is_refused(tmp_path: Path) -> None:
    async def use(cluster: Opened) -> None:
        with pytest.raises(Refused, match="belongs to cluster other"):
            await cluster.member.prepare("other")
        assert await cluster.member.prepare(cluster.image.cluster_id) == cluster.image.cluster_id

    run(tmp_path, use)
