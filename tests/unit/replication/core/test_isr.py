"""The ISR: which replicas count towards a commit, which may join, and the effect of proposals in doubt."""

from __future__ import annotations

import pytest

from headrace.replication.core.isr import REFUSAL_PAUSE_MS, InSyncReplicas, IsrProposal

EPOCHS = {1: 101, 2: 102, 3: 103}


def leading(
    stored: tuple[int, ...] = (1, 2),
    log_end: int = 10,
    high_watermark: int = 0,
    replicas: tuple[int, ...] = (1, 2, 3),
    min_insync: int = 1,
) -> InSyncReplicas:
    isr = InSyncReplicas(
        leader=1,
        broker_epoch=101,
        leader_epoch=5,
        partition_epoch=7,
        replicas=replicas,
        stored=stored,
        log_end=log_end,
        high_watermark=high_watermark,
        max_lag_ms=100,
        min_insync=min_insync,
        now_ms=0,
    )
    isr.brokers_changed(EPOCHS)
    return isr


def fetch(isr: InSyncReplicas, follower: int, offset: int, now_ms: int = 0) -> bool:
    return isr.fetched(follower, EPOCHS[follower], offset, 0, now_ms)


def ids(proposal: IsrProposal | None) -> set[int]:
    assert proposal is not None
    return set(proposal.ids)


def test_single_replica_commits_at_the_append() -> None:
    isr = leading(stored=(1,), replicas=(1,))
    assert isr.high_watermark == 10
    assert isr.appended(12, now_ms=1)
    assert isr.high_watermark == 12


def test_high_watermark_waits_for_the_slowest_member() -> None:
    isr = leading(stored=(1, 2, 3))
    assert not fetch(isr, 2, 10)
    assert fetch(isr, 3, 6)
    assert isr.high_watermark == 6


def test_isr_shrink_has_no_effect_until_it_is_stored() -> None:
    isr = leading()
    fetch(isr, 2, 4)
    assert isr.high_watermark == 4
    assert ids(isr.propose(now_ms=200)) == {1}
    assert not isr.advance(now_ms=200)
    assert isr.stored_as((1,), 8, now_ms=200)
    assert isr.high_watermark == 10


def test_a_member_of_an_idle_partition_is_slow_only_after_the_next_append() -> None:
    isr = leading()
    fetch(isr, 2, 10)
    assert isr.propose(now_ms=5000) is None, "there is nothing that it lacks"
    isr.appended(11, now_ms=5000)
    isr.appended(12, now_ms=5090)
    assert isr.propose(now_ms=5100) is None, "it has the full time from the first record that it lacks"
    assert ids(isr.propose(now_ms=5101)) == {1}


def test_removed_member_does_not_hold_the_high_watermark_and_rejoins_by_fetching() -> None:
    isr = leading(stored=(1, 2, 3))
    fetch(isr, 2, 10)
    fetch(isr, 3, 10)
    isr.stored_as((1, 3), 8, now_ms=10)
    isr.appended(11, now_ms=11)
    assert fetch(isr, 3, 11, now_ms=12), "the mark does not wait for the one that was taken out"
    assert isr.propose(now_ms=12) is None, "what it said before is not enough to return"
    fetch(isr, 2, 11, now_ms=13)
    assert ids(isr.propose(now_ms=13)) == {1, 2, 3}


def test_isr_expansion_counts_from_the_proposal() -> None:
    isr = leading(stored=(1,), high_watermark=10)
    fetch(isr, 2, 10)
    assert ids(isr.propose(now_ms=0)) == {1, 2}
    assert not isr.appended(12, now_ms=500), "the follower that may already lead does not hold 10 and 11"
    assert fetch(isr, 2, 12, now_ms=501)


def test_proposal_has_the_broker_epochs_of_the_fetches() -> None:
    isr = leading(stored=(1, 3), high_watermark=10)
    fetch(isr, 2, 10)
    proposal = isr.propose(now_ms=0)
    assert proposal is not None
    assert proposal.members == ((1, 101), (2, 102), (3, -1))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 7)


def test_one_proposal_at_a_time() -> None:
    isr = leading(stored=(1,), high_watermark=10)
    fetch(isr, 2, 10)
    assert isr.propose(now_ms=0) is not None
    fetch(isr, 3, 10)
    assert isr.propose(now_ms=0) is None


def test_refused_expansion_counts_until_the_partition_epoch_changes() -> None:
    isr = leading(stored=(1,), high_watermark=10)
    fetch(isr, 2, 10)
    proposal = isr.propose(now_ms=0)
    assert proposal is not None
    isr.refused(proposal, now_ms=0)
    isr.appended(20, now_ms=1000)
    assert isr.high_watermark == 10, "a late copy of the refused proposal may still be taken"
    assert isr.propose(now_ms=REFUSAL_PAUSE_MS - 1) is None
    settling = isr.propose(now_ms=1000)
    assert ids(settling) == {1}
    assert isr.stored_as((1,), 8, now_ms=1000)
    assert isr.high_watermark == 20


def test_follower_below_the_epoch_start_does_not_join() -> None:
    isr = leading(stored=(1,), replicas=(1, 2), log_end=10, high_watermark=3, min_insync=2)
    fetch(isr, 2, 5)
    assert isr.high_watermark == 3
    assert isr.propose(now_ms=0) is None, "records 5 to 9 came from the leader before and may be committed"
    fetch(isr, 2, 10)
    assert ids(isr.propose(now_ms=0)) == {1, 2}


def test_follower_with_an_old_broker_epoch_does_not_join() -> None:
    isr = leading(stored=(1,), high_watermark=10)
    fetch(isr, 2, 10)
    isr.brokers_changed({1: 101, 2: 999})
    assert isr.propose(now_ms=0) is None
    assert not isr.knows(2, 102), "its old fetches no longer count"
    assert isr.knows(2, 999)
    isr.fetched(2, 999, 10, 0, now_ms=1)
    proposal = isr.propose(now_ms=1)
    assert proposal is not None
    assert (2, 999) in proposal.members


def test_follower_that_is_not_alive_does_not_join() -> None:
    isr = leading(stored=(1,), high_watermark=10)
    fetch(isr, 2, 10)
    isr.brokers_changed({1: 101, 3: 103})
    assert isr.propose(now_ms=0) is None


def test_high_watermark_does_not_move_below_min_insync() -> None:
    isr = leading(stored=(1, 2), min_insync=2)
    fetch(isr, 2, 10)
    assert isr.high_watermark == 10
    isr.stored_as((1,), 8, now_ms=0)
    isr.appended(20, now_ms=500)
    assert isr.high_watermark == 10
    assert not isr.has_enough_replicas


def test_effective_min_insync_is_at_most_the_number_of_replicas() -> None:
    isr = leading(stored=(1,), replicas=(1,), min_insync=2)
    assert isr.has_enough_replicas
    assert isr.high_watermark == 10


def test_under_steady_load_a_follower_a_little_behind_still_joins() -> None:
    isr = leading(stored=(1,), high_watermark=10, log_end=10)
    fetch(isr, 2, 10, now_ms=0)  # caught up once; not proposed yet
    isr.appended(20, now_ms=1)
    assert isr.high_watermark == 10, "it is about to join, so the mark waits for it"
    fetch(isr, 2, 15, now_ms=2)
    assert ids(isr.propose(now_ms=2)) == {1, 2}


def test_a_member_that_always_catches_up_with_the_last_fetch_stays() -> None:
    isr = leading(stored=(1, 2), replicas=(1, 2), log_end=10)
    for step in range(1, 10):
        fetch(isr, 2, 10 * step, now_ms=60 * step)
        isr.appended(10 * step + 10, now_ms=60 * step + 1)
    assert isr.propose(now_ms=60 * 9 + 50) is None


def test_member_with_all_records_is_not_slow_after_a_long_pause() -> None:
    isr = leading(stored=(1, 2), replicas=(1, 2))
    fetch(isr, 2, 10, now_ms=0)
    assert isr.propose(now_ms=10_000) is None


def test_an_older_partition_epoch_changes_nothing() -> None:
    isr = leading()
    assert not isr.stored_as((1,), 7, now_ms=0)
    assert isr.stored == {1, 2}


def test_reassignment_adds_unknown_replicas_and_drops_removed_ones_from_the_high_watermark() -> None:
    isr = leading(stored=(1, 2), replicas=(1, 2))
    isr.replicas_assigned((1, 3))
    isr.stored_as((1,), 8, now_ms=0)
    assert isr.high_watermark == 10
    assert isr.knows(3, 103)
    assert not isr.knows(2, 102)


def test_isolated_leader_proposes_the_isr_without_itself() -> None:
    isr = leading(stored=(1,), min_insync=2)
    assert isr.resign({2: 40, 3: 0}, now_ms=120) is None, "one was heard within the last 100 ms"
    assert ids(isr.resign({2: 40, 3: 0}, now_ms=141)) == set()
    assert isr.proposal is not None
    isr.refused(isr.proposal, now_ms=150)
    assert isr.resign({}, now_ms=150 + REFUSAL_PAUSE_MS - 1) is None, "asked again only after a while"
    assert ids(isr.resign({}, now_ms=150 + REFUSAL_PAUSE_MS)) == set()


@pytest.mark.parametrize(
    ("isr", "live"),
    [
        (leading(stored=(1, 2), min_insync=3), EPOCHS),  # a follower is in sync
        (leading(stored=(1,), min_insync=1), EPOCHS),  # it commits alone
        (leading(stored=(1,), min_insync=2), {1: 101, 2: 102}),  # the others could not commit either
        (leading(stored=(1,), min_insync=2, replicas=(1, 2)), EPOCHS),
    ],
)
def test_leader_does_not_resign_if_that_would_not_help(isr: InSyncReplicas, live: dict[int, int]) -> None:
    isr.brokers_changed(live)
    assert isr.resign({}, now_ms=1000) is None


def test_leader_does_not_resign_while_an_expansion_is_in_flight() -> None:
    """The expansion may be stored already; with it the leader commits again."""
    isr = leading(stored=(1,), min_insync=2)
    fetch(isr, 2, 10, now_ms=5)
    assert ids(isr.propose(5)) == {1, 2}
    assert isr.resign({}, now_ms=1000) is None
