"""A coordinator whose broker lost its lease serves nothing: another broker may be the coordinator already.

It would answer with old offsets, keep members that the new coordinator does not know, and verify transactions that the
new coordinator has ended.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.cluster.core.image import BrokerInfo, Endpoint
from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.classic.group import ClassicGroup
from headrace.coordinators.group.core.classic.messages import JoinRequest, SyncRequest
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatRequest, ShareHeartbeatRequest
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.streams.messages import StreamsHeartbeatRequest
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.log import PartitionLog
from headrace.coordinators.runtime.runtime import Result, Timer, settled
from headrace.coordinators.share.state_coordinator import ShareStateCoordinator
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.core.queries import ListFilter
from headrace.coordinators.txn.core.shard import TransactionSettings
from headrace.coordinators.txn.producer_ids import ProducerIds
from headrace.handlers.dispatch.authorization import OPEN
from headrace.handlers.groups.find_coordinator import FindCoordinator
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import GROUP_METADATA_TOPIC, TopicPartition
from headrace.security.principal import ANONYMOUS
from tests.support.clock import wait_on_loop
from tests.support.coordinator_logs import MemoryLog
from tests.support.counting_shard import OnePartition, on_loop, put, runtime_on
from tests.support.group_driver import image_of

NOBODY = cast("Any", None)
KEY = ShareKey("g", uuid.UUID(int=1 << 64), 0)
JOIN = JoinRequest("g", "", None, "me", "here", 30_000, 30_000, "consumer", (("range", b""),))
BEAT = HeartbeatRequest("g", "m", 3, "me", "here")
COMMIT = CommitRequest("g", "", None, -1, ())

GROUPS: dict[str, Callable[[GroupCoordinator], Any]] = {
    "join": lambda groups: groups.join(JOIN),
    "sync": lambda groups: groups.sync(SyncRequest("g", 1, "m", None, None, None, ())),
    "heartbeat": lambda groups: groups.heartbeat("g", "m", None, 1),
    "leave": lambda groups: groups.leave("g", ()),
    "consumer_heartbeat": lambda groups: groups.consumer_heartbeat(BEAT, 1),
    "streams_heartbeat": lambda groups: groups.streams_heartbeat(StreamsHeartbeatRequest("g", "m", 3, "me", "here")),
    "describe_streams": lambda groups: groups.describe_streams("g"),
    "share_heartbeat": lambda groups: groups.share_heartbeat(ShareHeartbeatRequest("g", "m", 3, "me", "here")),
    "share_group": lambda groups: groups.share_group("g"),
    "begin_share_partitions": lambda groups: groups.begin_share_partitions("g", {}),
    "share_partitions_begun": lambda groups: groups.share_partitions_begun("g", {}),
    "end_share_partitions": lambda groups: groups.end_share_partitions("g", []),
    "share_partitions_ended": lambda groups: groups.share_partitions_ended("g", []),
    "commit_offsets": lambda groups: groups.commit_offsets(COMMIT),
    "commit_transactional_offsets": lambda groups: groups.commit_transactional_offsets(COMMIT, 7, 0),
    "complete_transaction": lambda groups: groups.complete_transaction(0, 7, 0, 5, True),
    "fetch_offsets": lambda groups: groups.fetch_offsets("g", None, require_stable=True),
    "delete_offsets": lambda groups: groups.delete_offsets("g", []),
    "delete_group": lambda groups: groups.delete_group("g"),
    "is_share_group": lambda groups: groups.is_share_group("g"),
    "end_share_group": lambda groups: groups.end_share_group("g"),
    "delete_share_group": lambda groups: groups.delete_share_group("g"),
    "list_groups": lambda groups: groups.list_groups((), ()),
    "describe_classic": lambda groups: groups.describe_classic("g"),
    "describe_consumer": lambda groups: groups.describe_consumer("g"),
}
TRANSACTIONS: dict[str, Callable[[TransactionCoordinator], Any]] = {
    "init_producer_id": lambda txns: txns.init_producer_id("t", 60_000, None),
    "add_partitions": lambda txns: txns.add_partitions("t", 7, 0, []),
    "verify_partitions": lambda txns: txns.verify_partitions("t", 7, 0, [TopicPartition("orders", 0)]),
    "end_transaction": lambda txns: txns.end_transaction("t", 7, 0, commit=True, client_version=4),
    "describe": lambda txns: txns.describe("t"),
    "transactions": lambda txns: txns.transactions(ListFilter()),
}
SHARES: dict[str, Callable[[ShareStateCoordinator], Any]] = {
    "initialize": lambda shares: shares.initialize(KEY, 0, 0),
    "read": lambda shares: shares.read(KEY, 0),
    "write": lambda shares: shares.write(KEY, 0, 0, 0, 0, ()),
    "delete": lambda shares: shares.delete(KEY),
    "summary": lambda shares: shares.summary(KEY),
}
NO_REQUESTS = {"settings_changed", "follow", "close", "require_streams", "server_version"}
LISTS = {"list_groups", "transactions"}


def on_log(coordinator: Any, log: MemoryLog) -> Any:
    """Its only shard is on `log`, and loaded."""
    coordinator.runtime._make_log = lambda *_: log
    coordinator.runtime.elect(0, leader_epoch=5)
    return coordinator


def groups_on(log: MemoryLog) -> GroupCoordinator:
    settings = GroupSettings(offers_streams=True)
    partitions = cast("Any", OnePartition(log))
    found: GroupCoordinator = on_log(GroupCoordinator(partitions, ClusterView(), 1, settings, partition_count=1), log)
    return found


def transactions_on(log: MemoryLog) -> TransactionCoordinator:
    around = cast("Any", SimpleNamespace(partitions=OnePartition(log), view=ClusterView(), broker_id=1))
    topic = InternalTopic("__transaction_state", 1)
    coordinator = TransactionCoordinator(around, ProducerIds(NOBODY), NOBODY, NOBODY, TransactionSettings(), topic)
    found: TransactionCoordinator = on_log(coordinator, log)
    return found


def shares_on(log: MemoryLog) -> ShareStateCoordinator:
    topic = InternalTopic("__share_group_state", 1)
    found: ShareStateCoordinator = on_log(ShareStateCoordinator(cast("Any", OnePartition(log)), 1, topic), log)
    return found


COORDINATORS: list[tuple[type, Callable[[MemoryLog], Any], dict[str, Any]]] = [
    (GroupCoordinator, groups_on, GROUPS),
    (TransactionCoordinator, transactions_on, TRANSACTIONS),
    (ShareStateCoordinator, shares_on, SHARES),
]


@pytest.mark.parametrize(
    ("kind", "coordinator_on", "operations"), COORDINATORS, ids=["groups", "transactions", "shares"]
)
def test_every_operation_is_refused(kind: type, coordinator_on: Any, operations: dict[str, Any]) -> None:
    public = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    assert set(operations) == public - NO_REQUESTS, "each operation is in the table, or is no request"

    async def answer(operation: Any, coordinator: Any) -> set[object]:
        try:
            reply = operation(coordinator)
            found = await reply if isinstance(reply, Coroutine) else await settled(reply)
        except Refused as refused:
            return {refused.code}
        return set(found.values()) if isinstance(found, dict) else {getattr(found, "error", found)}

    async def scenario() -> None:
        log = MemoryLog()
        coordinator = coordinator_on(log)
        log.is_led = False
        for name, operation in operations.items():
            wanted = ErrorCode.coordinator_not_available if name in LISTS else ErrorCode.not_coordinator
            assert await answer(operation, coordinator) == {wanted}, name
        assert not log.stored
        coordinator.close()

    on_loop(scenario)


@pytest.mark.parametrize("returns_before_the_end", [True, False])
def test_members_have_their_whole_session_again_when_the_lease_returns(returns_before_the_end: bool) -> None:
    """They could not reach the coordinator meanwhile."""

    async def scenario() -> None:
        log, fired, now = MemoryLog(), list[str](), asyncio.get_running_loop().time
        runtime = runtime_on(log)

        def timer(name: str, *, awaits_client: bool) -> Timer:
            def expire(now_ms: int) -> Result:
                fired.append(name)
                return Result()

            return Timer(name, 40, expire, retry_ms=1, awaits_client=awaits_client)

        timers = [timer("session", awaits_client=True), timer("other", awaits_client=False)]
        begun_at = now()
        runtime.submit("a", lambda shard, now_ms: Result(timers=timers))
        log.is_led = False
        await asyncio.sleep(0.02 if returns_before_the_end else 0.06)
        with pytest.raises(Refused):
            runtime.submit("a", put(b"k", b"1"))
        refused_at = now()
        assert not fired
        log.is_led = True
        assert await runtime.run("a", put(b"k", b"1")) == (None, b"1"), "the state is the same as before"
        await wait_on_loop(lambda: "other" in fired, "the other timer")
        assert now() - begun_at >= 0.039
        await wait_on_loop(lambda: "session" in fired, "the end of the session")
        assert now() - refused_at >= 0.039, "a timer may fire a millisecond early"

    on_loop(scenario)


def test_callers_that_wait_are_sent_to_the_new_coordinator() -> None:
    """Otherwise a JoinGroup has no answer until the client's rebalance timeout: it sends no heartbeat meanwhile."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = groups_on(log)
        first = await groups.join(JOIN)
        group = cast("ClassicGroup", groups.runtime.hosted(0).shard.groups["g"])
        for _ in range(2):  # the lease may return, and end again
            joining = asyncio.ensure_future(groups.join(replace(JOIN, member_id=first.member_id)))
            await wait_on_loop(lambda: group.awaiting_joins == 1, "the wait for other members")
            log.is_led = False
            with pytest.raises(Refused):
                await groups.heartbeat("g", "m", None, 1)
            assert (await joining).error is ErrorCode.not_coordinator
            log.is_led = True
        groups.close()

    on_loop(scenario)


def test_a_partition_counts_as_led_only_with_the_lease() -> None:
    lease = True
    around = SimpleNamespace(lease_held=lambda: lease)
    partition = SimpleNamespace(topic="t", index=0, isr=SimpleNamespace(has_enough_replicas=True), around=around)
    for lease in (True, False):
        log = PartitionLog(cast("Any", partition))
        assert log.is_led is lease and (log.refusal() is None) is lease


def test_find_coordinator_names_no_broker_without_its_lease() -> None:
    """The client would come back to this broker again and again; another broker knows the present coordinator."""

    image = replace(
        image_of(**{GROUP_METADATA_TOPIC: 1}), brokers={1: BrokerInfo(1, 5, (Endpoint("clients", "here", 9092, ""),))}
    )
    request = cast("Any", SimpleNamespace(key="g", key_type=0))
    context = cast("Any", SimpleNamespace(version=3, listener="clients", access=OPEN.access(ANONYMOUS, "", 10)))

    async def scenario() -> None:
        lease = True
        view, own = ClusterView(), SimpleNamespace(broker_id=1, lease_held=lambda: lease)
        view.publish(image)
        for lease in (True, False):
            answer = await FindCoordinator(view, NOBODY, own).serve(request, context)
            found = answer["error_code"], answer["node_id"]
            assert found == ((ErrorCode.none, 1) if lease else (ErrorCode.coordinator_not_available, -1))

    on_loop(scenario)
