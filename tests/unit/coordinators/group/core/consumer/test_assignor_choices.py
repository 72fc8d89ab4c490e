"""Among equally balanced targets the assignors choose the one that Apache Kafka 4.3.0 chose (see
tests/differential).
"""

from __future__ import annotations

import uuid

from headrace.coordinators.group.core.consumer.assignors import AssignedMember, assign_uniform
from headrace.coordinators.group.core.consumer.java_order import (
    ids_in_java_order,
    in_java_order,
    java_hash,
    numbers_in_java_order,
)

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
BOTH = frozenset({T, U})


def test_a_new_member_gets_the_last_partitions_of_members_with_too_many() -> None:
    has_all = {T: frozenset({0, 1}), U: frozenset({0, 1, 2})}
    target = assign_uniform({"d": AssignedMember(BOTH), "e": AssignedMember(BOTH, None, has_all)}, {T: 2, U: 3}, True)
    assert target == {"d": {U: frozenset({1, 2})}, "e": {T: frozenset({0, 1}), U: frozenset({0})}}


def test_members_are_filled_one_after_the_other() -> None:
    target = assign_uniform({m: AssignedMember(frozenset({T})) for m in "ab"}, {T: 4}, True)
    assert target == {"a": {T: frozenset({0, 1})}, "b": {T: frozenset({2, 3})}}


def test_mixed_subscriptions_move_partitions_from_the_most_to_the_least_loaded() -> None:
    members = {
        "b1": AssignedMember(frozenset({U}), None, {U: frozenset({0, 1, 2})}),
        "d": AssignedMember(frozenset({T}), None, {T: frozenset({0, 1})}),
        "e2": AssignedMember(BOTH),
    }
    target = assign_uniform(members, {T: 2, U: 3}, False)
    assert target == {"b1": {U: frozenset({0, 1})}, "d": {T: frozenset({0, 1})}, "e2": {U: frozenset({2})}}


def test_tables_are_iterated_in_java_order() -> None:
    assert [java_hash(text) for text in ("", "a", "range", "é𝄞")] == [0, 97, 108280125, 1996307]
    assert in_java_order(["range", "uniform", "sticky"]) == ["uniform", "sticky", "range"]
    assert ids_in_java_order([uuid.UUID(int=18), uuid.UUID(int=3)]) == [uuid.UUID(int=18), uuid.UUID(int=3)]
    assert numbers_in_java_order([17, 2, 33]) == [17, 33, 2]
