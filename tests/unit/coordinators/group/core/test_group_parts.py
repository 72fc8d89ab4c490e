"""The parts of groups against naive models: assignors, regular expressions, record codecs."""

from __future__ import annotations

import re
import time
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinators.codec import (
    classic_groups,
    consumer_groups,
    offsets,
    share_groups,
    share_state,
    transactions,
)
from headrace.coordinators.codec.primitives import UnreadableRecord
from headrace.coordinators.group.core.consumer.assignors import ASSIGNORS, AssignedMember, Target
from headrace.coordinators.group.core.consumer.regex import Regex
from headrace.coordinators.group.core.consumer.regex_syntax import BadRegex

TOPICS = [uuid.UUID(int=i + 1) for i in range(4)]

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
subscriptions = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3),
    st.frozensets(st.sampled_from(TOPICS), min_size=1),
    min_size=1,
    max_size=7,
)


def spread(target: Target) -> dict[tuple[uuid.UUID, int], str]:
    """Partition → member; a partition with two members is found here."""
    owners: dict[tuple[uuid.UUID, int], str] = {}
    for member, topics in target.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                assert (topic, partition) not in owners, "one partition, two members"
                owners[topic, partition] = member
    return owners


def assigned(name: str, members: dict[str, AssignedMember], partitions: dict[uuid.UUID, int]) -> Target:
    return ASSIGNORS[name](members, partitions, len({member.topics for member in members.values()}) == 1)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(members=subscriptions, partitions=counts)
def test_every_subscribed_partition_has_exactly_one_reader(
    name: str, members: dict[str, frozenset[uuid.UUID]], partitions: dict[uuid.UUID, int]
) -> None:
    target = assigned(name, {m: AssignedMember(topics) for m, topics in members.items()}, partitions)
    owners = spread(target)
    read = frozenset().union(*members.values())
    assert set(owners) == {(t, p) for t, count in partitions.items() if t in read for p in range(count)}
    assert all(topic in members[member] for (topic, _), member in owners.items())
    assert set(target) == set(members)


@given(members=subscriptions, partitions=counts)
def test_uniform_cannot_be_improved_by_moving_one_partition(
    members: dict[str, frozenset[uuid.UUID]], partitions: dict[uuid.UUID, int]
) -> None:
    target = assigned("uniform", {m: AssignedMember(topics) for m, topics in members.items()}, partitions)
    load = {member: sum(map(len, topics.values())) for member, topics in target.items()}
    for (topic, _), owner in spread(target).items():
        assert all(load[owner] <= load[m] + 1 for m in members if topic in members[m])


@given(members=subscriptions, partitions=counts, leaver=st.data())
def test_uniform_moves_as_few_partitions_as_possible(
    members: dict[str, frozenset[uuid.UUID]], partitions: dict[uuid.UUID, int], leaver: st.DataObject
) -> None:
    same = frozenset(TOPICS)
    first = assigned("uniform", {m: AssignedMember(same) for m in members}, partitions)
    again = assigned("uniform", {m: AssignedMember(same, None, first[m]) for m in members}, partitions)
    assert again == first
    gone = leaver.draw(st.sampled_from(sorted(members)))
    rest = {m: AssignedMember(same, None, first[m]) for m in members if m != gone}
    if rest:
        after = spread(assigned("uniform", rest, partitions))
        before = spread(first)
        assert all(after[tp] == owner for tp, owner in before.items() if owner != gone)


def test_range_assigns_topics_of_equal_size_alike() -> None:
    members = {m: AssignedMember(frozenset(TOPICS[:2])) for m in ("a", "b", "c")}
    target = assigned("range", members, {TOPICS[0]: 7, TOPICS[1]: 7})
    assert all(partitions[TOPICS[0]] == partitions[TOPICS[1]] for partitions in target.values())
    assert [sorted(target[m][TOPICS[0]]) for m in "abc"] == [[0, 1, 2], [3, 4], [5, 6]]


# Regular expressions

atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\.", "-", "(?:a|b)", "[a-c0-3]"])
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(pattern=patterns, name=st.text("ab1.-c", max_size=12))
def test_an_expression_matches_as_pythons_re_does(pattern: str, name: str) -> None:
    assert Regex(pattern).matches(name) == bool(re.fullmatch(pattern, name, re.ASCII))


def test_anchors_flags_and_quotes() -> None:
    assert Regex("^orders$").matches("orders") and not Regex("^orders$").matches("orders-eu")
    assert Regex("(?i)Orders").matches("oRDERS")
    assert Regex(r"\Qa.b\E.").matches("a.bc") and not Regex(r"\Qa.b\E.").matches("axbc")
    assert Regex("").matches("") and not Regex("").matches("a")


def test_an_expression_with_exponential_backtracking_matches_fast() -> None:
    started = time.process_time()
    hostile = Regex("(a+)+(a|aa)*b")
    assert not any(hostile.matches("a" * 249) for _ in range(200))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "bad", ["(", ")", "[a", "a{3,1}", r"(a)\1", "(?=a)", "(?<!a)b", "*", "a" * 5_000, "((a{900}){900})"]
)
def test_expressions_without_a_time_bound_are_refused(bad: str) -> None:
    with pytest.raises(BadRegex):
        Regex(bad)


# Codecs

texts = st.text(max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
ids = st.uuids()
maybe = st.none() | texts


@given(texts, texts, st.integers(0, 2**31 - 1))
def test_offset_keys_round_trip(group: str, topic: str, partition: int) -> None:
    assert offsets.read_offset_key(offsets.offset_key(group, topic, partition)) == (group, topic, partition)


@given(st.builds(offsets.OffsetValue, int64s, int32s, texts, int64s, st.just(-1), st.none() | ids))
def test_offset_values_round_trip(value: offsets.OffsetValue) -> None:
    assert offsets.read_offset_value(offsets.offset_value(value)) == value


def test_offset_values_of_every_version_are_read() -> None:
    v0 = b"\0\0" + (7).to_bytes(8, "big") + b"\0\1m" + (9).to_bytes(8, "big")
    assert offsets.read_offset_value(v0) == (7, -1, "m", 9, -1, None)
    v1 = offsets.offset_value(offsets.OffsetValue(7, -1, "m", 9, 99))
    assert v1[:2] == b"\0\1" and offsets.read_offset_value(v1).expire_timestamp_ms == 99
    v3 = b"\0\3" + (7).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"\0\1m" + (9).to_bytes(8, "big")
    assert offsets.read_offset_value(v3) == (7, 2, "m", 9, -1, None)
    with pytest.raises(UnreadableRecord):
        offsets.read_offset_value(b"\0\x09")
    with pytest.raises(UnreadableRecord):
        offsets.read_offset_value(v3[:12])


members = st.builds(
    classic_groups.ClassicMemberValue, texts, maybe, texts, texts, st.integers(0, 9), int32s, st.binary(), st.binary()
)


@given(st.builds(classic_groups.GroupMetadataValue, texts, int32s, maybe, maybe, int64s, st.lists(members).map(tuple)))
def test_classic_groups_round_trip(value: classic_groups.GroupMetadataValue) -> None:
    assert classic_groups.read_group_metadata_value(classic_groups.group_metadata_value(value)) == value


classic = st.none() | st.builds(
    consumer_groups.ClassicMemberMetadata, int32s, st.lists(st.tuples(texts, st.binary())).map(tuple)
)
about = st.builds(
    consumer_groups.MemberMetadata,
    maybe,
    maybe,
    texts,
    texts,
    st.lists(texts).map(tuple),
    maybe.map(lambda regex: regex or None),
    int32s,
    maybe,
    classic,
)
epoched = st.dictionaries(ids, st.dictionaries(st.integers(0, 99), st.integers(0, 99), min_size=1), max_size=3)


@given(about)
def test_consumer_members_round_trip(value: consumer_groups.MemberMetadata) -> None:
    assert consumer_groups.read_member_metadata_value(consumer_groups.member_metadata_value(value)) == value


def test_a_member_record_marks_the_classic_protocol_as_absent() -> None:
    written = b"\0\0\0\2r\x04one\x0b/127.0.0.1\2\2t\1\0\0'\x10\x06range\1\0\1\0"
    value = consumer_groups.MemberMetadata(None, "r", "one", "/127.0.0.1", ("t",), None, 10_000, "range")
    assert consumer_groups.read_member_metadata_value(written) == value
    assert consumer_groups.member_metadata_value(value) == written


@given(st.builds(consumer_groups.CurrentAssignment, int32s, int32s, st.integers(0, 127), epoched, epoched))
def test_current_assignments_round_trip(value: consumer_groups.CurrentAssignment) -> None:
    assert consumer_groups.read_current_assignment_value(consumer_groups.current_assignment_value(value)) == value


@given(st.dictionaries(ids, st.frozensets(st.integers(0, 99)), max_size=3), int32s, int64s, st.frozensets(texts))
def test_small_consumer_records_round_trip(
    partitions: dict[uuid.UUID, frozenset[int]], epoch: int, number: int, topics: frozenset[str]
) -> None:
    c = consumer_groups
    assert c.read_target_member_value(c.target_member_value(partitions)) == partitions
    assert c.read_group_metadata_value(c.group_metadata_value(epoch, number)) == (epoch, number)
    assert c.read_target_metadata_value(c.target_metadata_value(epoch, number)) == (epoch, number)
    assert c.read_regular_expression_value(c.regular_expression_value(topics, number, number)) == (
        topics,
        number,
        number,
    )


@given(
    st.builds(
        transactions.TransactionLogValue,
        int64s,
        st.integers(-1, 2**15 - 1),
        int32s,
        st.integers(0, 7),
        st.none() | st.lists(st.tuples(texts, st.lists(int32s).map(tuple))).map(tuple),
        int64s,
        int64s,
        int64s,
        int64s,
        st.integers(0, 2),
        st.integers(-1, 2**15 - 1),
    )
)
def test_transactions_round_trip(value: transactions.TransactionLogValue) -> None:
    assert transactions.read_transaction_log_value(transactions.transaction_log_value(value, flexible=True)) == value
    old = transactions.read_transaction_log_value(transactions.transaction_log_value(value, flexible=False))
    assert (old.producer_id, old.partitions, old.status) == (value.producer_id, value.partitions, value.status)


batches = st.lists(
    st.builds(share_state.StateBatch, int64s, int64s, st.integers(0, 4), st.integers(0, 99)), max_size=3
).map(tuple)


@given(
    st.builds(share_state.ShareSnapshot, int32s, int32s, int32s, int64s, int64s, int64s, batches, st.integers(-1, 99)),
    st.builds(share_state.ShareUpdate, int32s, int32s, int64s, batches, st.integers(-1, 99)),
    st.builds(share_state.ShareKey, texts, ids, st.integers(0, 99)),
)
def test_share_state_round_trips(
    snapshot: share_state.ShareSnapshot, update: share_state.ShareUpdate, key: share_state.ShareKey
) -> None:
    assert share_state.read_share_snapshot_value(share_state.share_snapshot_value(snapshot)) == snapshot
    assert share_state.read_share_update_value(share_state.share_update_value(update)) == update
    assert share_state.read_share_key(share_state.share_key(share_state.SHARE_UPDATE, key)) == key


named = st.dictionaries(ids, st.tuples(texts, st.frozensets(st.integers(0, 99))), max_size=3)


@given(
    st.builds(share_groups.StatePartitionMetadata, named, named, st.dictionaries(ids, texts, max_size=3)),
    st.builds(share_groups.ShareMemberMetadata, maybe, texts, texts, st.lists(texts).map(tuple)),
)
def test_share_groups_round_trip(
    state: share_groups.StatePartitionMetadata, member: share_groups.ShareMemberMetadata
) -> None:
    s = share_groups
    assert s.read_state_partition_metadata_value(s.state_partition_metadata_value(state)) == state
    assert s.read_member_metadata_value(s.member_metadata_value(member)) == member


@given(st.binary(max_size=60))
def test_invalid_bytes_raise_unreadable_record(data: bytes) -> None:
    for read in (
        offsets.read_offset_value,
        classic_groups.read_group_metadata_value,
        consumer_groups.read_current_assignment_value,
        consumer_groups.read_member_metadata_value,
        share_state.read_share_snapshot_value,
        transactions.read_transaction_log_value,
    ):
        try:
            read(data)
        except (UnreadableRecord, UnicodeDecodeError):
            pass
