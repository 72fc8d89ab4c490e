"""Committed offsets on virtual time: rights to commit, visibility, transactions, deletion and expiry."""

from __future__ import annotations

import uuid

import pytest

from headrace.coordinators.group.core.classic.messages import LeavingMember
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.offsets.requests import NOT_COMMITTED, UNSTABLE, CommitRequest
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.offset_commit import PartitionCommit
from tests.support.group_driver import GroupDriver, topic_id

DAY_MS = 24 * 3_600_000


def commit(
    driver: GroupDriver,
    offset: int,
    *,
    member: str = "",
    generation: int = -1,
    topic: str = "orders",
    metadata: str = "",
    producer: tuple[int, int] | None = None,
    retention_ms: int = -1,
    version: int = 9,
    instance: str | None = None,
    partition: int = 0,
) -> set[tuple[str, int]]:
    topics = [TopicCommit(topic, topic_id(topic), [PartitionCommit(partition, offset, 5, metadata)])]
    request = CommitRequest("g", member, instance, generation, topics, retention_ms, version)
    if producer is None:
        result = driver.shard.commit_offsets(request, driver.now_ms)
    else:
        result = driver.shard.offsets.commit_transactional(request, producer, driver.now_ms)
    too_long: set[tuple[str, int]] = driver.apply(result)
    return too_long


def committed(driver: GroupDriver, topic: str = "orders", *, stable: bool = False) -> int | ErrorCode:
    found = driver.shard.offsets.fetch("g", [(topic, [0])], require_stable=stable)[topic][0]
    if found.value is None:
        return found.error if found.error is not ErrorCode.none else -1
    return found.value.offset


def stable_member(driver: GroupDriver) -> str:
    member = driver.join_twice("m")
    driver.advance(3_100)
    driver.sync("s", member, 1, assignments=[(member, b"")])
    return member


def refusal(call: object) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    return refused.value.code


def test_an_unknown_group_has_no_offsets_and_no_error() -> None:
    driver = GroupDriver()
    assert driver.shard.offsets.fetch("g", [("orders", [0, 1])], require_stable=True) == {
        "orders": {0: NOT_COMMITTED, 1: NOT_COMMITTED}
    }
    assert driver.shard.offsets.fetch("g", None, require_stable=False) == {}


def test_a_consumer_without_a_group_commits_and_finds_its_offset_after_a_restart() -> None:
    driver = GroupDriver()
    commit(driver, 42, metadata="état")
    driver.reload()
    found = driver.shard.offsets.fetch("g", None, require_stable=False)["orders"][0].value
    assert found is not None
    assert (found.offset, found.metadata, found.leader_epoch, found.topic_id) == (42, "état", 5, topic_id("orders"))


def test_only_members_of_the_current_generation_commit() -> None:
    driver = GroupDriver()
    assert refusal(lambda: commit(driver, 1, member="m", generation=1)) is ErrorCode.group_id_not_found
    assert refusal(lambda: commit(driver, 1, member="m", generation=1, version=8)) is ErrorCode.illegal_generation
    member = stable_member(driver)
    commit(driver, 1, member=member, generation=1)
    assert refusal(lambda: commit(driver, 9, member=member, generation=0)) is ErrorCode.illegal_generation
    assert refusal(lambda: commit(driver, 9, member="other", generation=1)) is ErrorCode.unknown_member_id
    assert refusal(lambda: commit(driver, 9)) is ErrorCode.unknown_member_id
    assert refusal(lambda: commit(driver, 9, member=member, generation=1, instance="i")) is ErrorCode.unknown_member_id
    assert committed(driver) == 1


def test_a_member_that_has_not_fetched_its_assignment_cannot_commit_yet() -> None:
    driver = GroupDriver()
    member = driver.join_twice("m")
    driver.advance(3_100)
    assert refusal(lambda: commit(driver, 1, member=member, generation=1)) is ErrorCode.rebalance_in_progress


def test_metadata_may_be_4096_characters_and_no_more() -> None:
    driver = GroupDriver()
    assert commit(driver, 1, metadata="x" * 4_096) == set()
    assert commit(driver, 2, metadata="x" * 4_097) == {("orders", 0)}
    assert committed(driver) == 1


def test_a_transactional_offset_takes_effect_when_its_transaction_commits() -> None:
    driver = GroupDriver()
    commit(driver, 1)
    commit(driver, 5, producer=(7, 0))
    assert committed(driver) == 1
    assert committed(driver, stable=True) is ErrorCode.unstable_offset_commit
    driver.end_transaction(7, 0, commit=True)
    assert committed(driver, stable=True) == 5
    commit(driver, 9, producer=(7, 0))
    driver.end_transaction(7, 0, commit=False)
    assert committed(driver, stable=True) == 5
    driver.reload()
    assert committed(driver, stable=True) == 5


def test_a_pending_offset_survives_a_change_of_coordinator() -> None:
    driver = GroupDriver()
    commit(driver, 5, producer=(7, 0))
    driver.reload()
    assert driver.shard.offsets.fetch("g", [("orders", [0])], require_stable=True)["orders"][0] == UNSTABLE
    driver.end_transaction(7, 0, commit=True)
    assert committed(driver) == 5


def test_offsets_of_two_producers_are_unstable_until_both_have_ended() -> None:
    driver = GroupDriver()
    commit(driver, 1, partition=1)
    commit(driver, 5, producer=(7, 0))
    commit(driver, 6, producer=(8, 0))
    fetched = driver.shard.offsets.fetch("g", [("orders", [0, 1, 0])], require_stable=True)["orders"]
    assert fetched[0] == UNSTABLE and fetched[1].value is not None, "only the partition that may change waits"
    driver.end_transaction(8, 0, commit=True)
    assert committed(driver, stable=True) is ErrorCode.unstable_offset_commit and committed(driver) == 6
    driver.end_transaction(7, 0, commit=True)
    assert committed(driver, stable=True) == 6, "the later record counts, not the later marker"


def test_a_deleted_offset_is_not_pending() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    commit(driver, 5, producer=(7, 0))
    driver.apply(driver.shard.offsets.delete("g", [("orders", [0])]))
    assert committed(driver, stable=True) == -1
    driver.advance(1_200_000)
    assert "g" not in driver.shard.groups, "nothing holds the group"
    driver.end_transaction(7, 0, commit=True)
    assert committed(driver) == -1


def test_a_share_group_refuses_transactional_offsets() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.begin_share_partitions("g", {topic_id("orders"): ("orders", frozenset({0}))}))
    request = CommitRequest("g", "", None, -1, [TopicCommit("orders", None, [PartitionCommit(0, 1, -1, "")])])
    code = refusal(lambda: driver.shard.commit_transactional_offsets(request, (7, 0), driver.now_ms))
    assert code is ErrorCode.group_id_not_found and "g" not in driver.shard.groups


def test_the_later_record_wins_in_any_order_of_markers() -> None:
    driver = GroupDriver()
    commit(driver, 5, producer=(7, 0))
    commit(driver, 8)
    driver.end_transaction(7, 0, commit=True)
    assert committed(driver) == 8


def test_transactional_commits_are_checked_like_others_except_for_the_state_of_the_group() -> None:
    driver = GroupDriver()
    assert refusal(lambda: commit(driver, 1, member="m", generation=3, producer=(7, 0))) is ErrorCode.illegal_generation
    member = driver.join_twice("m")
    driver.advance(3_100)
    commit(driver, 1, member=member, generation=1, producer=(7, 0))
    commit(driver, 2, producer=(7, 0))
    assert refusal(lambda: commit(driver, 3, member="x", generation=1, producer=(7, 0))) is ErrorCode.unknown_member_id


def test_members_of_the_new_protocol_commit_with_their_epoch() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    commit(driver, 1, member="a", generation=2)
    assert refusal(lambda: commit(driver, 2, member="a", generation=3)) is ErrorCode.stale_member_epoch
    assert refusal(lambda: commit(driver, 2, member="b", generation=2)) is ErrorCode.unknown_member_id
    assert refusal(lambda: commit(driver, 2, member="a", generation=2, version=8)) is ErrorCode.unsupported_version
    assert refusal(lambda: commit(driver, 2)) is ErrorCode.unknown_member_id
    with pytest.raises(Refused):
        driver.shard.offsets.fetch("g", None, require_stable=False, member_id="a", member_epoch=9)
    driver.shard.offsets.fetch("g", None, require_stable=False, member_id="a", member_epoch=2)


def test_a_commit_in_flight_during_an_epoch_change_is_accepted_for_kept_partitions() -> None:
    driver = GroupDriver()
    driver.beat("a", 0)
    driver.beat("b", 0)
    driver.beat("a", 2)
    kept = set(driver.shard.consumer_group("g").members["a"].assigned_partitions[topic_id("orders")])
    driver.beat("a", 2, owned={topic_id("orders"): frozenset(kept)})
    driver.beat("b", 3)
    assert driver.shard.consumer_group("g").members["a"].epoch == 3
    mine, lost = min(kept), min({0, 1, 2, 3} - kept)
    commit(driver, 3, member="a", generation=2, partition=mine)
    code = refusal(lambda: commit(driver, 3, member="a", generation=2, partition=lost))
    assert code is ErrorCode.stale_member_epoch


def test_offsets_of_topics_that_a_group_reads_cannot_be_deleted() -> None:
    driver = GroupDriver()
    member = stable_member(driver)
    commit(driver, 1, member=member, generation=1)
    commit(driver, 1, member=member, generation=1, topic="other")
    errors = driver.apply(driver.shard.offsets.delete("g", [("orders", [0]), ("other", [0, 1])]))
    assert errors == {
        "orders": {0: ErrorCode.group_subscribed_to_topic},
        "other": {0: ErrorCode.none, 1: ErrorCode.none},
    }
    assert (committed(driver), committed(driver, "other")) == (1, -1)
    assert refusal(lambda: driver.shard.offsets.delete("nobody", [])) is ErrorCode.group_id_not_found


def test_offsets_of_other_protocols_cannot_be_deleted_while_members_are_there() -> None:
    driver = GroupDriver()
    driver.join_twice("w", protocol_type="connect", protocols=(("default", b""),))
    assert refusal(lambda: driver.shard.offsets.delete("g", [("orders", [0])])) is ErrorCode.non_empty_group


def test_deleting_a_group_deletes_its_offsets() -> None:
    driver = GroupDriver()
    member = stable_member(driver)
    commit(driver, 1, member=member, generation=1)
    commit(driver, 2, member=member, generation=1, producer=(7, 0))
    assert driver.apply(driver.shard.delete_groups(["g"])) == {"g": ErrorCode.non_empty_group}
    driver.apply(driver.shard.leave("g", [LeavingMember(member)], driver.now_ms))
    deleted = driver.apply(driver.shard.delete_groups(["g", "nobody"]))
    assert deleted == {"g": ErrorCode.none, "nobody": ErrorCode.group_id_not_found}
    driver.end_transaction(7, 0, commit=True)
    assert committed(driver) == -1
    driver.reload()
    assert committed(driver) == -1 and "g" not in driver.shard.groups


def test_offsets_of_a_deleted_topic_are_deleted() -> None:
    driver = GroupDriver()
    commit(driver, 1)
    commit(driver, 2, topic="other")
    commit(driver, 3, topic="other", producer=(7, 0))
    driver.apply(driver.shard.offsets.topics_deleted({"other": topic_id("other")}))
    driver.end_transaction(7, 0, commit=True)
    assert (committed(driver), committed(driver, "other")) == (1, -1)
    commit(driver, 4, topic="other")
    driver.apply(driver.shard.offsets.topics_deleted({"other": uuid.uuid4()}))
    assert committed(driver, "other") == 4, "of another topic that had its name"


# Expiry


def test_offsets_expire_seven_days_after_the_group_became_empty() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    member = stable_member(driver)
    commit(driver, 1, member=member, generation=1)
    for _ in range(100):
        driver.heartbeat(member, 1)
        driver.advance(60_000 // 10)
    driver.advance(60_000)
    assert "g" in driver.shard.groups
    driver.advance(6 * DAY_MS)
    assert committed(driver) == 1
    driver.advance(DAY_MS + 1_200_000)
    assert committed(driver) == -1 and "g" not in driver.shard.groups
    driver.reload()
    assert "g" not in driver.shard.groups


def test_offsets_without_a_group_expire_seven_days_after_their_commit() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    commit(driver, 1)
    driver.advance(5 * DAY_MS)
    commit(driver, 2)
    driver.advance(6 * DAY_MS)
    assert committed(driver) == 2
    driver.advance(2 * DAY_MS)
    assert committed(driver) == -1


def test_an_active_group_loses_the_offsets_of_unsubscribed_topics() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    member = stable_member(driver)
    for topic in ("orders", "other"):
        commit(driver, 1, member=member, generation=1, topic=topic)
    driver.now_ms += 6 * DAY_MS
    commit(driver, 2, member=member, generation=1, topic="recent")
    driver.now_ms += DAY_MS
    driver.apply(driver.shard.clean_up(driver.now_ms))
    assert committed(driver) == 1 and committed(driver, "recent") == 2 and committed(driver, "other") == -1


def test_an_active_consumer_group_loses_the_offsets_of_unsubscribed_topics() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    epoch = driver.beat("m", 0).epoch
    for topic in ("orders", "other"):
        commit(driver, 1, member="m", generation=epoch, topic=topic)
    driver.now_ms += 7 * DAY_MS
    driver.apply(driver.shard.clean_up(driver.now_ms))
    assert committed(driver) == 1 and committed(driver, "other") == -1


def test_an_active_group_of_another_protocol_keeps_all_its_offsets() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    member = driver.join_twice("w", protocol_type="connect", protocols=(("default", b""),))
    driver.advance(3_100)
    driver.sync("s", member, 1, assignments=[(member, b"")], protocol_type="connect", protocol_name="default")
    commit(driver, 1, member=member, generation=1)
    driver.now_ms += 30 * DAY_MS
    driver.apply(driver.shard.clean_up(driver.now_ms))
    assert committed(driver) == 1


def test_the_retention_of_an_old_client_is_applied() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    commit(driver, 1, retention_ms=3_600_000, version=2)
    driver.reload()
    driver.advance(3_000_000)
    assert committed(driver) == 1
    driver.advance(2_000_000)
    assert committed(driver) == -1


@pytest.mark.parametrize(("retention_ms", "kept"), [((1 << 63) - 1, True), (-2, False), (-(1 << 63), False)])
def test_an_extreme_retention_does_not_overflow(retention_ms: int, kept: bool) -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    commit(driver, 1, retention_ms=retention_ms, version=2)
    driver.advance(30 * DAY_MS)
    assert committed(driver) == (1 if kept else -1)


def test_pending_transactional_offsets_do_not_expire() -> None:
    driver = GroupDriver()
    driver.apply(driver.shard.loaded(driver.now_ms))
    commit(driver, 1)
    commit(driver, 2, producer=(7, 0))
    driver.advance(30 * DAY_MS)
    assert committed(driver) == 1
    driver.end_transaction(7, 0, commit=False)
    driver.advance(1_200_000)
    assert committed(driver) == -1


def test_a_transactional_commit_with_only_refused_offsets_creates_its_group() -> None:
    driver = GroupDriver()
    too_long = [TopicCommit("orders", None, [PartitionCommit(0, 1, -1, "x" * 5_000)])]
    request = CommitRequest("g", "", None, -1, too_long)
    assert driver.apply(driver.shard.commit_transactional_offsets(request, (7, 0), driver.now_ms)) == {("orders", 0)}
    late = CommitRequest("g", "", None, 3, too_long)
    code = refusal(lambda: driver.shard.commit_transactional_offsets(late, (7, 0), driver.now_ms))
    assert code is ErrorCode.unknown_member_id
