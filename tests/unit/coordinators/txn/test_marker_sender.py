"""Markers reach every partition of a transaction, however often leaders move and requests fail."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.coordinators.txn.core.transaction import Transaction, TransactionState
from headrace.coordinators.txn.marker_sender import ShardMarkers
from headrace.coordinators.txn.marker_writer import EndMarker
from headrace.coordinators.txn.verification_guards import VerificationGuards
from headrace.kernel.errors import ErrorCode, NotLeader, Refused
from headrace.kernel.ids import TopicPartition
from tests.support.clock import PATIENCE_S, wait_on_loop

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def image(version: int, leaders: list[int]) -> ClusterImage:
    partitions = tuple(PartitionInfo(leader, 0, 0, (1, 2), (1, 2)) for leader in leaders)
    return ClusterImage(version, topics={"t": TopicInfo("t", uuid.uuid4(), partitions)})


class World:
    """One broker's own partitions, the other broker, and the coordinator's log, each with its own failures."""

    def __init__(self, leaders: list[int]) -> None:
        self.view = ClusterView(image(1, leaders))
        self.written: list[tuple[TopicPartition, EndMarker]] = []
        self.sent: list[tuple[int, TopicPartition]] = []
        self.completed: list[Transaction] = []
        self.failures: list[Any] = []
        self.sender = ShardMarkers(
            self.view,
            1,
            self,  # type: ignore[arg-type]
            self,
            lambda: 4,
            self.completed.append,
        )

    def write(self, where: TopicPartition, marker: EndMarker) -> ErrorCode | asyncio.Future[ErrorCode]:
        if self.failures:
            failure = self.failures.pop(0)
            return failure if isinstance(failure, ErrorCode) else ErrorCode.unknown_server_error
        self.written.append((where, marker))
        return ErrorCode.none

    async def request(self, broker_id: int, api_key: int, body: Any, *, version: int | None = None) -> Any:
        assert api_key == 27
        failure = self.failures.pop(0) if self.failures else ErrorCode.none
        if isinstance(failure, Exception):
            raise failure
        (marker,) = body["markers"]
        assert marker["coordinator_epoch"] == 4
        topics = []
        for topic in marker["topics"]:
            results = []
            for index in topic["partition_indexes"]:
                if failure is ErrorCode.none:
                    self.sent.append((broker_id, TopicPartition(topic["name"], index)))
                results.append(SimpleNamespace(partition_index=index, error_code=int(failure)))
            topics.append(SimpleNamespace(name=topic["name"], partitions=results))
        return SimpleNamespace(markers=[SimpleNamespace(topics=topics)])

    async def finished(self) -> None:
        task = self.sender.pending("id")
        if task is not None:
            await asyncio.wait_for(task, PATIENCE_S)


def prepared(*places: TopicPartition) -> Transaction:
    return Transaction("id", 7, 3, 60_000, TransactionState.PREPARE_COMMIT, 0, 0, frozenset(places), client_version=2)


def test_partitions_led_here_are_written_before_begin_returns() -> None:
    async def scenario() -> None:
        world = World([1, 1])
        assert world.sender.begin(prepared(HERE, THERE))
        assert {where for where, _ in world.written} == {HERE, THERE}
        assert world.written[0][1] == EndMarker(7, 3, True, 4, 2)

    asyncio.run(scenario())


def test_markers_of_other_partitions_are_sent_to_their_leaders_before_completion() -> None:
    async def scenario() -> None:
        world = World([1, 2])
        assert not world.sender.begin(prepared(HERE, THERE))
        await world.finished()
        assert world.sent == [(2, THERE)]
        assert world.completed == [prepared(HERE, THERE)]

    asyncio.run(scenario())


def test_a_marker_follows_its_partition_to_a_new_leader() -> None:
    async def scenario() -> None:
        world = World([1, 2])
        world.failures = [NotLeader("gone"), ErrorCode.not_leader_or_follower]
        assert not world.sender.begin(prepared(THERE))
        await wait_on_loop(lambda: not world.failures, "both failures")
        world.view.publish(image(2, [1, 1]))
        await world.finished()
        assert [where for where, _ in world.written] == [THERE]
        assert not world.sent
        assert len(world.completed) == 1

    asyncio.run(scenario())


def test_a_deleted_topic_and_a_partition_with_a_newer_epoch_need_no_marker() -> None:
    async def scenario() -> None:
        world = World([1, 2])
        assert world.sender.begin(prepared(TopicPartition("deleted", 0)))
        world.failures = [ErrorCode.invalid_producer_epoch]
        assert world.sender.begin(prepared(HERE))

    asyncio.run(scenario())


def test_a_fenced_coordinator_stops_without_completing() -> None:
    async def scenario() -> None:
        world = World([1, 2])
        world.failures = [ErrorCode.transaction_coordinator_fenced]
        world.sender.begin(prepared(THERE))
        await world.finished()
        assert not world.completed

    asyncio.run(scenario())


def test_the_end_of_a_transaction_is_written_when_the_disk_has_room_again() -> None:
    """A write to a full disk fails with the error that an unloaded shard has, too: NOT_COORDINATOR."""

    async def scenario() -> None:
        world = World([1, 2])
        full = [Refused(ErrorCode.not_coordinator, "no space left on the disk") for _ in range(3)]

        def complete(transaction: Transaction) -> None:
            if full:
                raise full.pop()
            world.completed.append(transaction)

        world.sender = ShardMarkers(world.view, 1, world, world, lambda: 4, complete)  # type: ignore[arg-type]
        world.sender.begin(prepared(THERE))
        await world.finished()
        assert not full and world.completed == [prepared(THERE)]

    asyncio.run(scenario())


def test_an_unloaded_shard_leaves_its_markers_to_the_next_coordinator() -> None:
    async def scenario() -> None:
        world = World([1, 2])
        world.failures = [NotLeader("gone")] * 1_000
        world.sender.begin(prepared(THERE))
        task = world.sender.pending("id")
        assert task is not None
        world.sender.forget()
        await asyncio.wait([task])
        assert task.cancelled()
        assert not world.completed

    asyncio.run(scenario())


def test_a_marker_during_a_verification_makes_it_invalid() -> None:
    guards = VerificationGuards()
    first, other = guards.take(HERE, 7, 3), guards.take(HERE, 8, 3)
    guards.transaction_ended(HERE, 7, 3)
    assert not guards.give_back(HERE, 7, first)
    assert guards.give_back(HERE, 8, other)
    fresh = guards.take(HERE, 7, 3)
    assert guards.give_back(HERE, 7, fresh)


def test_a_marker_of_the_previous_transaction_does_not_invalidate_the_next() -> None:
    guards = VerificationGuards()
    of_the_next = guards.take(HERE, 7, ended_by_epoch=4)
    guards.transaction_ended(HERE, 7, 3)
    assert guards.give_back(HERE, 7, of_the_next)
