"""State transitions of a partition: leaders, eligible replicas, epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.core.image import NO_LEADER, PartitionInfo
from headrace.cluster.core.losses import Loss
from headrace.controller.core.partition_states import Election, ElectionRules, PartitionDecision, settle

ALL = (1, 2, 3)


def info(leader: int = 1, isr: tuple[int, ...] = ALL, **more: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo(leader, 5, 7, isr, ALL, **more)


def rules(*alive: int, min_insync: int = 1, unclean: bool = False) -> ElectionRules:
    return ElectionRules(lambda broker: broker in alive, min_insync, unclean)


def settled(state: PartitionDecision | None) -> PartitionInfo:
    assert state is not None
    return state.info


def test_the_next_in_sync_replica_leads_when_the_leader_dies() -> None:
    after = settled(settle(info(), rules(2, 3), isr=(2, 3)))
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (2, (2, 3), 6, 8)


def test_a_dead_follower_leaves_and_the_leader_keeps_its_epoch() -> None:
    after = settled(settle(info(), rules(1, 2), isr=(1, 2)))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 5, 8)


def test_without_a_change_there_is_no_new_state() -> None:
    assert settle(info(), rules(*ALL)) is None


def test_a_replica_outside_the_in_sync_set_never_leads_by_itself() -> None:
    after = settled(settle(info(isr=(1,)), rules(2, 3), isr=()))
    assert after.leader == NO_LEADER
    assert after.eligible == (1,)
    assert after.last_known_eligible == (1,)


def test_a_replica_that_leaves_below_min_isr_stays_eligible_and_may_lead_later() -> None:
    one_left = settled(settle(info(isr=(1, 2)), rules(1), isr=(1,)))  # min 1: 2 is simply out
    assert one_left.eligible == ()
    below = settled(settle(info(isr=(1, 2)), rules(1, min_insync=2), isr=(1,)))
    assert below.eligible == (2,)
    nobody = settled(settle(below, rules(min_insync=2), isr=()))
    assert (nobody.leader, set(nobody.eligible)) == (NO_LEADER, {1, 2})
    back = settled(settle(nobody, rules(2, min_insync=2)))
    assert (back.leader, back.isr, back.eligible) == (2, (2,), (1,))


def test_a_leader_that_restarted_leads_in_a_new_epoch() -> None:
    """What it lost, and then writes, must not pass for records of its old epoch."""
    alone = info(isr=(1,))
    after = settled(settle(alone, rules(1), isr=(), restarted=frozenset({1})))
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), 6)


def test_a_leader_that_commits_alone_has_no_eligible_replicas() -> None:
    """What it acknowledges from now on, the others do not have."""
    nobody = info(leader=NO_LEADER, isr=(), eligible=(1, 3))
    assert settled(settle(nobody, rules(3, min_insync=1))).eligible == ()
    assert settled(settle(nobody, rules(3, min_insync=2))).eligible == (1,)


def test_enough_in_sync_replicas_make_the_others_ineligible() -> None:
    below = info(isr=(1,), eligible=(2, 3))
    after = settled(settle(below, rules(1, 2, min_insync=2), isr=(1, 2)))
    assert after.eligible == ()


def test_an_unclean_start_costs_eligibility() -> None:
    nobody = settled(settle(info(isr=(1, 2)), rules(min_insync=2), isr=()))
    after = settled(settle(nobody, rules(2, min_insync=2), restarted_uncleanly=frozenset({2})))
    assert (after.leader, after.eligible) == (NO_LEADER, (1,))


def test_without_eligible_replicas_the_last_known_leader_may_return() -> None:
    alone = info(leader=2, isr=(2,))
    gone = settled(settle(alone, rules(1, 3), isr=()))
    state = settle(gone, rules(1, 2, 3), restarted_uncleanly=frozenset({2}))
    assert state is not None
    assert state.from_last_known
    assert (state.info.leader, state.info.isr) == (2, (2,))


def test_an_unclean_election_needs_permission_and_is_marked() -> None:
    gone = settled(settle(info(isr=(1,)), rules(2, 3), isr=()))
    assert settle(gone, rules(2, 3)) is None
    allowed = settle(gone, rules(2, 3, unclean=True))
    asked = settle(gone, rules(2, 3), election=Election.UNCLEAN)
    assert allowed is not None and asked is not None
    assert allowed.unclean and asked.unclean
    assert allowed.info.leader == asked.info.leader == 2
    assert allowed.info.isr == (2,)


def test_preferred_leadership_returns_only_to_a_replica_in_sync() -> None:
    assert settled(settle(info(leader=2), rules(*ALL), election=Election.PREFERRED)).leader == 1
    assert settle(info(leader=2, isr=(2, 3)), rules(*ALL), election=Election.PREFERRED) is None


def test_a_reassignment_ends_when_the_added_replicas_are_in_sync() -> None:
    moving = PartitionInfo(1, 5, 7, (1, 2), (3, 1, 2), adding=(3,), removing=(1,))
    assert settle(moving, rules(*ALL)) is None
    after = settled(settle(moving, rules(*ALL), isr=(1, 2, 3)))
    assert (after.replicas, after.adding, after.removing, after.isr) == ((3, 2), (), (), (2, 3))
    assert after.leader == 3
    assert after.leader_epoch == 6


@given(
    isr=st.sets(st.sampled_from(ALL)),
    eligible=st.sets(st.sampled_from(ALL)),
    alive=st.sets(st.sampled_from(ALL)),
    target=st.sets(st.sampled_from(ALL)),
    unclean=st.sets(st.sampled_from(ALL)),
    min_insync=st.integers(1, 3),
    election=st.sampled_from(Election),
    allowed=st.booleans(),
)
def test_without_unclean_elections_a_leader_has_all_committed_records(
    isr: set[int],
    eligible: set[int],
    alive: set[int],
    target: set[int],
    unclean: set[int],
    min_insync: int,
    election: Election,
    allowed: bool,
) -> None:
    leader = min(isr) if isr else NO_LEADER
    before = PartitionInfo(leader, 1, 1, tuple(isr), ALL, eligible=tuple(eligible - isr))
    new_isr = target & isr  # only shrinking: growth is the leaders' report
    after = settle(
        before,
        rules(*alive, min_insync=min_insync, unclean=allowed),
        isr=sorted(new_isr - unclean),
        restarted_uncleanly=frozenset(unclean),
        election=election,
    )
    if after is None:
        return
    assert after.info.partition_epoch == 2
    assert (after.info.leader_epoch == 2) == (after.info.leader != leader)
    if after.info.leader not in (NO_LEADER, leader):
        assert after.info.leader in alive
        if not after.unclean and not after.from_last_known:
            assert after.info.leader in (isr | eligible) - unclean


def test_the_last_in_sync_replica_keeps_leading_while_it_stops() -> None:
    """Also after other changes: no other replica could lead."""
    leaving = ElectionRules(can_lead=lambda _: False, may_stay=lambda broker: broker == 1)
    info = PartitionInfo(1, 5, 7, (1,), (1, 2), adding=(2,))
    state = settle(info, leaving, replicas=(1,), adding=())
    assert state is not None
    assert state.info.leader == 1


def test_the_last_in_sync_replica_of_a_leaderless_partition_is_recorded() -> None:
    info = PartitionInfo(NO_LEADER, 5, 7, (3,), (3, 1, 2))
    gone = settle(info, ElectionRules(can_lead=lambda _: False), isr=())
    assert gone is not None
    assert (gone.info.eligible, gone.info.last_known_eligible) == ((3,), (3,))
    back = settle(gone.info, ElectionRules(can_lead=lambda broker: broker == 3), restarted_uncleanly=frozenset({3}))
    assert back is not None
    assert back.from_last_known
    assert (back.info.leader, back.info.isr) == (3, (3,))


LOST_LOG = info(leader=NO_LEADER, isr=(), last_known_eligible=(2,))


def lossy(*alive: int, unclean: bool = False, **losses: Loss) -> ElectionRules:
    """`losses` by names like `b2`."""
    by_id = {int(name[1:]): loss for name, loss in losses.items()}
    return replace(rules(*alive, min_insync=2, unclean=unclean), losses=by_id)


@pytest.mark.parametrize("loss", [Loss.INCOMPLETE, Loss.MISSING, Loss.OFFLINE])
def test_a_last_leader_that_lacks_records_is_not_elected_by_any_event(loss: Loss) -> None:
    """The others would remove the records that it lacks."""
    for restarted in (frozenset[int](), frozenset({1}), frozenset({2}), frozenset({1, 2, 3})):
        for eligible in ((), (3,)):
            before = replace(LOST_LOG, eligible=eligible)
            after = settle(before, lossy(*ALL, b2=loss), restarted=restarted, restarted_uncleanly=restarted)
            assert after is None or after.info.leader in (NO_LEADER, 3)
            assert after is None or after.info.leader == NO_LEADER or 3 not in restarted
    back = settle(LOST_LOG, rules(*ALL), restarted=frozenset({2}), restarted_uncleanly=frozenset({2}))
    assert back is not None and back.from_last_known and back.info.leader == 2, "its log is there again"


def test_a_replica_that_lacks_records_is_neither_in_sync_nor_eligible() -> None:
    after = settled(settle(info(), lossy(*ALL, b1=Loss.MISSING), isr=(2, 3)))
    assert (after.leader, after.isr, after.eligible) == (2, (2, 3), ())
    waits = settled(settle(info(isr=(1,)), lossy(*ALL, b1=Loss.INCOMPLETE), isr=()))
    assert (waits.leader, waits.eligible) == (NO_LEADER, ())
    fetched = settled(settle(after, lossy(*ALL, b1=Loss.MISSING), isr=(2, 3, 1)))
    assert fetched.isr == (2, 3, 1), "the leader knows that it has fetched the records"


# The losses of live replicas, who leads if a setting allows unclean elections, and who after a request for one.
@pytest.mark.parametrize(
    ("rules_now", "by_setting", "by_request"),
    [
        (lossy(1, 2, 3, b2=Loss.MISSING), 1, 1),
        (lossy(2, 3, b2=Loss.MISSING), 3, 3),
        (lossy(2, 3, b2=Loss.INCOMPLETE), 3, 3),
        (lossy(2, 3, b2=Loss.INCOMPLETE, b3=Loss.MISSING), NO_LEADER, 2),
        (lossy(2, 3, b2=Loss.MISSING, b3=Loss.INCOMPLETE), NO_LEADER, 3),
        (lossy(1, 2, b1=Loss.OFFLINE, b2=Loss.MISSING), NO_LEADER, 2),
        (lossy(2, b2=Loss.INCOMPLETE), NO_LEADER, 2),
        (lossy(2, b2=Loss.MISSING), NO_LEADER, 2),
        (lossy(2, b2=Loss.OFFLINE), NO_LEADER, NO_LEADER),
    ],
)
def test_an_unclean_election_takes_the_replica_that_lacks_least(
    rules_now: ElectionRules, by_setting: int, by_request: int
) -> None:
    asked = settle(LOST_LOG, rules_now, election=Election.UNCLEAN)
    assert (NO_LEADER if asked is None else asked.info.leader) == by_request
    allowed = settle(LOST_LOG, replace(rules_now, unclean_allowed=True))
    assert (NO_LEADER if allowed is None else allowed.info.leader) == by_setting
    assert all(one is None or one.unclean for one in (asked, allowed))


def test_an_unclean_election_does_not_begin_with_a_replica_that_is_just_added() -> None:
    """It has no log yet. The replica that has one is only down."""
    moving = PartitionInfo(NO_LEADER, 5, 7, (), (2, 3), adding=(2,), removing=(3,), eligible=(3,))
    assert settle(moving, rules(2, unclean=True, min_insync=2)) is None
    back = settle(moving, rules(2, 3, unclean=True, min_insync=2))
    assert back is not None and not back.unclean and back.info.leader == 3
    asked = settle(moving, rules(2, min_insync=2), election=Election.UNCLEAN)
    assert asked is not None and asked.unclean and asked.info.leader == 2


def test_the_last_leader_leads_when_the_eligible_replicas_return_uncleanly() -> None:
    waits = info(leader=NO_LEADER, isr=(), eligible=(3,), last_known_eligible=(2,))
    after = settle(waits, rules(2, 3), restarted=frozenset({3}), restarted_uncleanly=frozenset({3}))
    assert after is not None and after.from_last_known and after.info.leader == 2
