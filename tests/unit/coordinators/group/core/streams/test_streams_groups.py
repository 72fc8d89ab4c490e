"""Streams groups on virtual time: topology, internal topics, targets, revocation, fencing, expiry, other types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec.streams_topology import (
    CopartitionGroup,
    InternalTopicInfo,
    StreamsTopology,
    Subtopology,
)
from headrace.coordinators.group.core.classic.messages import JoinReply
from headrace.coordinators.group.core.descriptions import list_groups
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import CommitRequest
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.streams.group import StreamsGroup
from headrace.coordinators.group.core.streams.messages import (
    StreamsHeartbeatReply,
    StreamsHeartbeatRequest,
    check_streams_heartbeat,
)
from headrace.coordinators.group.core.streams.partition_counts import StatusCode
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.offset_commit import PartitionCommit
from tests.support.group_driver import GroupDriver, image_of

AT_ONCE = GroupSettings(streams_assignment_interval_ms=0, streams_initial_rebalance_delay_ms=0)
STORE = "store-changelog"
FITTING = {"orders": 4, STORE: 4}
STATEFUL = StreamsTopology(1, [Subtopology("0", ("orders",), changelog_topics=(InternalTopicInfo(STORE),))])


def driver_of(topics: Mapping[str, int] = FITTING, groups: GroupSettings = AT_ONCE) -> GroupDriver:
    return GroupDriver(groups, image(1, topics))


def image(version: int, topics: Mapping[str, int]) -> ClusterImage:
    return replace(image_of(**topics), version=version)


def request_of(member: str, epoch: int, **changes: Any) -> StreamsHeartbeatRequest:
    values: dict[str, Any] = {"client_id": "c", "client_host": "/h"}
    if epoch == 0:
        values |= {"rebalance_timeout_ms": 30_000, "topology": STATEFUL, "process_id": f"p-{member}", "client_tags": ()}
        values |= {"active": {}, "standby": {}, "warmup": {}}
    request = StreamsHeartbeatRequest("s", member, epoch, **{**values, **changes})
    check_streams_heartbeat(request)
    return request


def beat(driver: GroupDriver, member: str, epoch: int, **changes: Any) -> StreamsHeartbeatReply:
    request = request_of(member, epoch, **changes)
    reply: StreamsHeartbeatReply = driver.apply(driver.shard.streams_heartbeat(request, driver.now_ms))
    return reply


def owning(driver: GroupDriver, member: str, **changes: Any) -> StreamsHeartbeatReply:
    """A heartbeat of a member that has done what its last answer said."""
    known = group(driver).members[member]
    tasks = {
        "active": {name: frozenset(numbers) for name, numbers in known.assigned.active.items()},
        "standby": known.assigned.standby,
        "warmup": known.assigned.warmup,
    }
    return beat(driver, member, known.epoch, **{**tasks, **changes})


def group(driver: GroupDriver) -> StreamsGroup:
    return driver.shard.streams_group("s")


def active(driver: GroupDriver, member: str) -> set[int]:
    return set(group(driver).members[member].assigned.active.get("0", ()))


def refusal(call: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.code, refused.value.message


def codes(reply: StreamsHeartbeatReply) -> list[StatusCode]:
    return [code for code, _ in reply.statuses]


# Topology and topics


def test_missing_internal_topics_are_named_with_their_counts_and_the_tasks_follow_when_they_exist() -> None:
    driver = driver_of({"orders": 3})
    reply = beat(driver, "a", 0)
    assert reply.statuses == ((StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {STORE}"),)
    assert reply.missing_topics == {STORE: InternalTopicInfo(STORE, 3)}
    assert reply.assigned is not None and not any(reply.assigned)
    assert group(driver).state_name == "NotReady"
    driver.set_image(image(2, {"orders": 3, STORE: 3}))
    reply = owning(driver, "a")
    assert reply.statuses == () and active(driver, "a") == {0, 1, 2}
    assert group(driver).state_name == "Stable"


@pytest.mark.parametrize(
    ("subtopologies", "topics", "expected"),
    [
        ([Subtopology("0", ("x", "y"))], {"z": 1}, (1, "Source topics x, y are missing.")),
        (
            [Subtopology("0", tuple("abcde"))],
            {"z": 1},
            (1, "Source topics a, b, c and 2 additional topics are missing."),
        ),
        (
            [Subtopology("0", ("x", "y"), copartition_groups=(CopartitionGroup((0, 1)),))],
            {"x": 1, "y": 2},
            (2, "Following topics do not have the same number of partitions: [{x=1, y=2}]"),
        ),
        (
            [Subtopology("0", ("x",), changelog_topics=(InternalTopicInfo("log"),))],
            {"x": 2, "log": 3},
            (2, "Existing topic log has different number of partitions: expected 2, found 3"),
        ),
        (
            [
                Subtopology("0", ("y",), repartition_sink_topics=("r",)),
                Subtopology(
                    "1",
                    ("x",),
                    repartition_source_topics=(InternalTopicInfo("r", 5),),
                    copartition_groups=(CopartitionGroup((0,), (), (0,)),),
                ),
            ],
            {"x": 2, "y": 3},
            (
                2,
                "Number of partitions [5] of repartition topic [r] doesn't match number of partitions [2] of the "
                "source topic.",
            ),
        ),
    ],
)
def test_topics_that_do_not_fit_are_a_status(
    subtopologies: list[Subtopology], topics: dict[str, int], expected: tuple[int, str]
) -> None:
    driver = driver_of(topics)
    reply = beat(driver, "a", 0, topology=StreamsTopology(0, subtopologies))
    assert reply.statuses == (expected,)
    assert reply.missing_topics == {} and group(driver).state_name == "NotReady"


def test_repartition_topics_get_the_largest_count_of_their_writers_also_through_other_repartition_topics() -> None:
    topology = StreamsTopology(
        0,
        [
            Subtopology("2", repartition_source_topics=(InternalTopicInfo("r2"),)),
            Subtopology("1", repartition_sink_topics=("r2",), repartition_source_topics=(InternalTopicInfo("r1"),)),
            Subtopology("0", ("x", "y"), repartition_sink_topics=("r1",)),
        ],
    )
    reply = beat(driver_of({"x": 2, "y": 5}), "a", 0, topology=topology)
    assert reply.missing_topics == {"r1": InternalTopicInfo("r1", 5), "r2": InternalTopicInfo("r2", 5)}


def test_copartitioned_repartition_topics_follow_the_source_topics() -> None:
    topology = StreamsTopology(
        0,
        [
            Subtopology("0", ("y",), repartition_sink_topics=("r",)),
            Subtopology(
                "1",
                ("x",),
                changelog_topics=(InternalTopicInfo("log"),),
                repartition_source_topics=(InternalTopicInfo("r"),),
                copartition_groups=(CopartitionGroup((0,), (), (0,)),),
            ),
        ],
    )
    reply = beat(driver_of({"x": 2, "y": 5}), "a", 0, topology=topology)
    assert reply.missing_topics == {"r": InternalTopicInfo("r", 2), "log": InternalTopicInfo("log", 2)}


@pytest.mark.parametrize(
    "subtopologies",
    [
        [Subtopology("0", repartition_sink_topics=("r",), repartition_source_topics=(InternalTopicInfo("r"),))],
        [Subtopology("0", ("orders",), repartition_source_topics=(InternalTopicInfo("r"),))],
        [Subtopology("0", ("orders",)), Subtopology("1")],
    ],
    ids=["a loop", "a repartition topic without a writer", "a subtopology without input"],
)
def test_a_topology_that_fits_no_topics_is_rejected(subtopologies: list[Subtopology]) -> None:
    driver = driver_of()
    code, _ = refusal(lambda: beat(driver, "a", 0, topology=StreamsTopology(0, subtopologies)))
    assert code is ErrorCode.streams_invalid_topology and not driver.log


def test_a_member_with_an_older_topology_epoch_is_stale_and_another_topology_is_rejected() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    older = StreamsTopology(0, [Subtopology("0", ("other",))])
    assert codes(beat(driver, "b", 0, topology=older)) == [StatusCode.STALE_TOPOLOGY]
    newer = StreamsTopology(2, STATEFUL.subtopologies)
    assert refusal(lambda: beat(driver, "c", 0, topology=newer)) == (
        ErrorCode.invalid_request,
        "Topology updates are not supported yet.",
    )


def test_a_topic_that_grows_gets_a_new_target() -> None:
    driver = driver_of({"orders": 2, STORE: 2})
    beat(driver, "a", 0)
    assert active(driver, "a") == {0, 1}
    driver.set_image(image(2, {"orders": 3, STORE: 2}))
    reply = owning(driver, "a")
    assert codes(reply) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS], "the changelog topic is too small now"
    driver.set_image(image(3, {"orders": 3, STORE: 3}))
    owning(driver, "a")
    owning(driver, "a")
    assert active(driver, "a") == {0, 1, 2}


# Targets and reconciliation


def test_a_task_moves_only_after_its_owner_has_revoked_it() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    assert active(driver, "a") == {0, 1, 2, 3}
    beat(driver, "b", 0)
    assert active(driver, "b") == set(), "a still processes all tasks"
    before = group(driver).members["a"]
    reply = beat(driver, "a", before.epoch)
    assert reply.assigned is not None and len(reply.assigned.active["0"]) == 2
    beat(driver, "b", group(driver).members["b"].epoch)
    assert active(driver, "b") == set(), "a has not said that it revoked them"
    owning(driver, "a")
    beat(driver, "b", group(driver).members["b"].epoch)
    assert active(driver, "a") | active(driver, "b") == {0, 1, 2, 3}
    assert len(active(driver, "a")) == len(active(driver, "b")) == 2
    assert group(driver).state_name == "Stable"


def test_standby_tasks_are_on_other_processes_and_take_over() -> None:
    driver = driver_of(
        groups=GroupSettings(
            streams_assignment_interval_ms=0, streams_initial_rebalance_delay_ms=0, streams_num_standby_replicas=1
        )
    )
    for member in "ab":
        beat(driver, member, 0)
    for _ in range(4):
        for member in "ab":
            owning(driver, member)
    a, b = (group(driver).members[m].assigned for m in "ab")
    assert set(a.standby["0"]) == set(b.active["0"]) and set(b.standby["0"]) == set(a.active["0"])
    beat(driver, "a", -1)
    for _ in range(3):
        owning(driver, "b")
    assert active(driver, "b") == {0, 1, 2, 3}


def test_the_first_target_waits_for_more_members() -> None:
    driver = driver_of(groups=GroupSettings(streams_initial_rebalance_delay_ms=3_000, streams_assignment_interval_ms=0))
    for member in "ab":
        reply = beat(driver, member, 0)
        assert codes(reply) == [StatusCode.ASSIGNMENT_DELAYED] and reply.epoch == 1
    driver.advance(2_999)
    assert group(driver).target == {}
    driver.advance(1)
    assert sorted(len(tasks.active["0"]) for tasks in group(driver).target.values()) == [2, 2]
    for member in "ab":
        owning(driver, member)
    assert len(active(driver, "a")) == len(active(driver, "b")) == 2, "nothing moved"


def not_written(driver: GroupDriver, request: StreamsHeartbeatRequest) -> None:
    """The log refuses the records of this heartbeat. The runtime then sets none of its timers."""
    result = driver.shard.streams_heartbeat(request, driver.now_ms)
    assert result.records and result.then is not None
    following = result.then(ErrorCode.not_enough_replicas, driver.now_ms)
    if following is not None:
        driver.apply(following)


def test_the_first_target_is_made_although_the_first_heartbeat_was_not_written() -> None:
    driver = driver_of(groups=GroupSettings(streams_initial_rebalance_delay_ms=3_000, streams_assignment_interval_ms=0))
    not_written(driver, request_of("a", 0))
    assert codes(beat(driver, "a", 0)) == [StatusCode.ASSIGNMENT_DELAYED]
    driver.advance(3_000)
    assert group(driver).target["a"].active == {"0": frozenset(range(4))}


def test_a_member_whose_heartbeats_are_not_written_stays() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    for number in range(3):
        driver.advance(40_000)
        not_written(driver, request_of("a", 2, client_host=f"/{number}"))
    assert set(group(driver).members) == {"a"}
    driver.advance(45_000)
    assert group(driver).is_empty


def test_a_new_target_is_computed_only_after_the_interval() -> None:
    driver = driver_of(groups=GroupSettings(streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=1_000))
    beat(driver, "a", 0)
    assert codes(beat(driver, "b", 0)) == [StatusCode.ASSIGNMENT_DELAYED]
    driver.advance(1_000)
    assert codes(owning(driver, "b")) == []
    assert group(driver).target["b"].active


def test_all_members_are_asked_to_shut_down() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    beat(driver, "b", 0)
    beat(driver, "b", -1, shutdown_application=True)
    assert codes(owning(driver, "a")) == [StatusCode.SHUTDOWN_APPLICATION]
    beat(driver, "a", -1)
    assert codes(beat(driver, "a", 0)) == [], "a new start of the application"


# Fencing and expiry


def test_members_with_a_wrong_epoch_are_fenced_and_a_lost_answer_is_not() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    epoch = group(driver).members["a"].epoch
    assert refusal(lambda: beat(driver, "a", epoch + 1))[0] is ErrorCode.fenced_member_epoch
    assert refusal(lambda: beat(driver, "a", epoch - 1))[0] is ErrorCode.fenced_member_epoch
    assert refusal(lambda: beat(driver, "x", epoch))[0] is ErrorCode.unknown_member_id
    beat(driver, "b", 0)
    beat(driver, "b", -1)
    owning(driver, "a")
    assert group(driver).members["a"].epoch > epoch
    assert beat(driver, "a", group(driver).members["a"].previous_epoch, active={}, standby={}, warmup={}).epoch > epoch


def test_a_silent_member_and_one_that_does_not_revoke_are_removed() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    beat(driver, "b", 0)
    beat(driver, "a", group(driver).members["a"].epoch)  # must revoke two tasks now
    for _ in range(3):
        driver.advance(10_000)
        for member in [m for m in "ab" if m in group(driver).members]:
            beat(driver, member, group(driver).members[member].epoch)
    assert set(group(driver).members) == {"b"}
    driver.advance(45_000)
    assert group(driver).state_name == "Empty"


def test_another_broker_continues_from_the_log() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    beat(driver, "b", 0)
    beat(driver, "a", group(driver).members["a"].epoch)
    before = group(driver)
    driver.reload()
    after = group(driver)
    assert after is not before
    assert (after.members, after.target, after.topology, after.epoch, after.assignment_epoch) == (
        before.members,
        before.target,
        before.topology,
        before.epoch,
        before.assignment_epoch,
    )
    owning(driver, "a")
    owning(driver, "b")
    assert active(driver, "a") | active(driver, "b") == {0, 1, 2, 3}
    driver.advance(45_000)
    assert group(driver).is_empty, "the sessions run on the new broker"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["join", "own", "beat", "leave", "wait"])), max_size=30)
)
def test_no_task_is_ever_active_twice(steps: list[tuple[str, str]]) -> None:
    driver = driver_of()
    for member, step in steps:
        known = member in driver.shard.groups["s"].members if "s" in driver.shard.groups else False
        if step == "wait":
            driver.advance(7_000)
        elif step == "join" or not known:
            beat(driver, member, 0, process_id=f"p{ord(member) % 2}")
        elif step == "leave":
            beat(driver, member, -1)
        elif step == "own":
            owning(driver, member)
        else:
            beat(driver, member, group(driver).members[member].epoch)
        if "s" not in driver.shard.groups:
            continue
        held = [
            task
            for each in group(driver).members.values()
            for tasks in (each.assigned, each.pending_revocation)
            for task in tasks.active.get("0", ())
        ]
        assert len(held) == len(set(held)), held
    for _ in range(8):
        for member in list(driver.shard.groups["s"].members if "s" in driver.shard.groups else ()):
            owning(driver, member)
    if "s" in driver.shard.groups and group(driver).members:
        assert sorted(task for m in group(driver).members for task in active(driver, m)) == [0, 1, 2, 3]
        assert group(driver).state_name == "Stable"


# Offsets and other groups


def commit(driver: GroupDriver, member: str, epoch: int, topic: str = "orders", partition: int = 0) -> Any:
    topics = [TopicCommit(topic, None, [PartitionCommit(partition, 7, -1, "")])]
    return driver.apply(driver.shard.commit_offsets(CommitRequest("s", member, None, epoch, topics), driver.now_ms))


def test_a_member_commits_with_its_epoch_or_with_one_since_it_has_the_task() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    first = group(driver).members["a"].epoch
    assert commit(driver, "a", first) == set()
    beat(driver, "b", 0)
    beat(driver, "b", -1)
    owning(driver, "a")
    assert group(driver).members["a"].epoch > first
    assert commit(driver, "a", first) == set(), "it has the task since then"
    assert refusal(lambda: commit(driver, "a", first - 1))[0] is ErrorCode.stale_member_epoch
    assert refusal(lambda: commit(driver, "a", first, topic="other"))[0] is ErrorCode.stale_member_epoch
    assert refusal(lambda: commit(driver, "a", first, partition=9))[0] is ErrorCode.stale_member_epoch
    assert refusal(lambda: commit(driver, "x", first))[0] is ErrorCode.unknown_member_id


def test_an_empty_group_changes_its_type_and_a_group_with_members_does_not() -> None:
    driver = driver_of()
    commit(driver, "", -1)
    beat(driver, "a", 0)
    assert driver.shard.offsets.fetch("s", [("orders", [0])], require_stable=False)["orders"][0].value is not None
    reply = driver.join("t1", "s")
    assert isinstance(reply, JoinReply) and reply.error is ErrorCode.inconsistent_group_protocol
    code, message = refusal(lambda: driver.apply(driver.shard.heartbeat("s", "a", None, 1)))
    assert code is ErrorCode.unknown_member_id and message
    beat(driver, "a", -1)
    member = driver.join_twice("t2", "s")
    assert member in driver.shard.groups["s"].members
    assert refusal(lambda: beat(driver, "a", 0)) == (
        ErrorCode.group_id_not_found,
        "Group s is not a streams group.",
    )


def test_a_group_without_members_can_be_deleted_and_is_listed_by_type() -> None:
    driver = driver_of()
    beat(driver, "a", 0)
    assert [tuple(each) for each in list_groups(driver.shard.groups, (), ("Streams",))] == [
        ("s", "streams", "Stable", "streams")
    ]
    assert driver.apply(driver.shard.delete_groups(["s"])) == {"s": ErrorCode.non_empty_group}
    beat(driver, "a", -1)
    assert driver.apply(driver.shard.delete_groups(["s"])) == {"s": ErrorCode.none}
    assert "s" not in driver.shard.groups
    driver.reload()
    assert "s" not in driver.shard.groups
