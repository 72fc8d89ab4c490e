"""Why a group rebalanced, in words."""

from __future__ import annotations

import pytest

from headrace.console.core.rebalances import Generation, Member, reason, rebalances
from headrace.coordinators.codec.rebalance_causes import CauseKind, RebalanceCause

ANN, BOB = Member("ann", "/10.0.0.1"), Member("bob", "/10.0.0.2")
STATIC = Member("ann", "/10.0.0.1", "till-1")


def generation(number: int, partitions: int | None = None, **members: Member) -> Generation:
    return Generation(number, number * 1000, members, partitions)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (generation(1, a=ANN), generation(2, a=ANN, b=BOB), "joined: bob (10.0.0.2)"),
        (generation(1, a=ANN, b=BOB), generation(2, a=ANN), "left, or the session expired: bob (10.0.0.2)"),
        (generation(1, a=ANN, b=BOB), generation(2), "left, or the session expired: ann (10.0.0.1), bob (10.0.0.2)"),
        (
            generation(1, a=ANN),
            generation(2, b=BOB),
            "joined: bob (10.0.0.2); left, or the session expired: ann (10.0.0.1)",
        ),
        (generation(1, a=STATIC), generation(2, b=STATIC), "restarted: till-1 (10.0.0.1)"),
        (
            generation(1, a=Member("ann", "h", None, frozenset({"tea", "cups"}))),
            generation(2, a=Member("ann", "h", None, frozenset({"tea", "pots"}))),
            "subscription of ann (h): +pots -cups",
        ),
        (generation(1, 2, a=ANN), generation(2, 4, a=ANN), "its topics have 4 partitions now, before 2"),
        (generation(1, 2, a=ANN), generation(2, 2, a=ANN), "a member joined again, or the topics of the group changed"),
        (generation(1, 2, a=ANN), generation(3, 2, a=ANN), "1 generation before it ended without an assignment"),
        (generation(1), generation(2, None, **{str(n): ANN for n in range(5)}), "joined: 5 members"),
    ],
)
def test_the_difference_of_two_generations_is_the_reason(before: Generation, after: Generation, expected: str) -> None:
    assert reason(before, after) == expected


def test_the_causes_that_the_coordinator_noted_are_named() -> None:
    before = generation(1, a=ANN, b=BOB, c=Member("cat", "h"), d=Member("dan", "h"), e=Member("eve", "h"))
    causes = [
        RebalanceCause(CauseKind.LEFT, "a", "the consumer is being closed."),
        RebalanceCause(CauseKind.SESSION_EXPIRED, "b"),
        RebalanceCause(CauseKind.TIMED_OUT, "c"),
        RebalanceCause(CauseKind.LEFT, "d"),
        RebalanceCause(CauseKind.SESSION_EXPIRED, "nobody of before"),
    ]
    assert reason(before, Generation(2, 2000, {}, causes=causes)) == (
        "left: dan (h); left: ann (10.0.0.1) (“the consumer is being closed”); session expired: bob (10.0.0.2); "
        "did not answer within the rebalance timeout: cat (h); left, or the session expired: eve (h)"
    )


def test_a_member_that_joined_again_is_named_with_its_words() -> None:
    again = [RebalanceCause(CauseKind.REJOINED, "a", "rebalance enforced by user")]
    after = Generation(2, 2000, {"a": ANN}, causes=again)
    assert reason(generation(1, a=ANN), after) == "joined again: ann (10.0.0.1) (“rebalance enforced by user”)"


def test_a_repeated_generation_is_no_rebalance_and_the_newest_is_first() -> None:
    found = rebalances([generation(1, a=STATIC), generation(1, b=STATIC), generation(2, b=STATIC, c=BOB)])
    assert [(one.generation, one.at_ms, one.reason) for one in found] == [
        (2, 2000, "joined: bob (10.0.0.2)"),
        (1, 1000, "joined first: till-1 (10.0.0.1)"),
    ]
    assert found[0].members == ("bob (10.0.0.2)", "till-1 (10.0.0.1)")


def test_a_new_group_without_members_had_no_rebalance_yet() -> None:
    assert rebalances([generation(0)]) == []
    assert [one.reason for one in rebalances([generation(0), generation(1, a=ANN)])] == ["joined: ann (10.0.0.1)"]


def test_a_log_that_begins_later_does_not_guess() -> None:
    assert rebalances([]) == []
    (only,) = rebalances([generation(7, a=ANN)])
    assert only.reason == "the log has no older generation to compare with"
