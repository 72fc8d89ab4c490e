"""Every transition of a transaction and every refused request, for both protocols."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.coordinators.txn.core.ending import (
    aborted_by_coordinator,
    completed,
    end_transaction,
    has_expired,
    has_timed_out,
)
from headrace.coordinators.txn.core.initialisation import init_producer_id
from headrace.coordinators.txn.core.membership import add_partitions, verify_partitions
from headrace.coordinators.txn.core.transaction import (
    MAX_EPOCH,
    NO_TIMEOUT_MS,
    Answer,
    Decision,
    Transaction,
    TransactionState,
)
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition

S = TransactionState
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOW = 1_000_000


def transaction(state: TransactionState = S.EMPTY, epoch: int = 5, **changes: object) -> Transaction:
    started = {} if state is S.EMPTY else {"started_at_ms": 900_000}
    open_ = {"partitions": frozenset({A0})} if state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT) else {}
    return Transaction("t", 70, epoch, 60_000, state, 950_000, **(started | open_ | changes))  # type: ignore[arg-type]


def init(
    current: Transaction | None, expected: tuple[int, int] | None = None, fresh: int | None = None, version: int = 2
) -> Decision:
    return init_producer_id(
        current, "t", timeout_ms=9, expected=expected, fresh_producer_id=fresh, server_version=version, now_ms=NOW
    )


def end(
    current: Transaction | None, commit: bool, epoch: int, version: int, *, pid: int = 70, fresh: int | None = None
) -> Decision:
    return end_transaction(
        current, pid, epoch, commit=commit, client_version=version, fresh_producer_id=fresh, now_ms=NOW
    )


# InitProducerId


def test_a_new_transactional_id_asks_for_a_producer_id_and_begins_at_epoch_0() -> None:
    assert init(None).needs_producer_id
    decision = init(None, fresh=8)
    assert decision.answer == Answer(ErrorCode.none, 8, 0)
    assert decision.after is not None
    assert (decision.after.state, decision.after.timeout_ms, decision.after.partitions) == (S.EMPTY, 9, frozenset())


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_new_producer_raises_the_epoch_and_drops_the_last_epoch(state: TransactionState) -> None:
    decision = init(transaction(state, last_producer_epoch=4))
    assert decision.answer == Answer(ErrorCode.none, 70, 6)
    assert decision.after is not None
    assert (decision.after.state, decision.after.last_producer_epoch, decision.after.started_at_ms) == (S.EMPTY, -1, -1)


def test_a_producer_that_recovers_keeps_its_id_and_may_repeat_the_request() -> None:
    decision = init(transaction(), expected=(70, 5))
    assert decision.answer == Answer(ErrorCode.none, 70, 6)
    again = init(decision.after, expected=(70, 5))
    assert again.answer == decision.answer


def test_a_fenced_producer_cannot_take_the_id_back() -> None:
    after_new_producer = init(transaction()).after
    assert init(after_new_producer, expected=(70, 5)).answer.error is ErrorCode.producer_fenced
    assert init(after_new_producer, expected=(71, 5)).answer.error is ErrorCode.producer_fenced
    assert init(after_new_producer, expected=(70, 5)).after is None


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_producer_waits_while_the_previous_transaction_ends(state: TransactionState) -> None:
    assert init(transaction(state)) == Decision(Answer(ErrorCode.concurrent_transactions))


@pytest.mark.parametrize(("version", "last"), [(2, 5), (1, -1)])
def test_an_open_transaction_is_aborted_before_a_new_producer_takes_over(version: int, last: int) -> None:
    decision = init(transaction(S.ONGOING), version=version)
    assert decision.answer.error is ErrorCode.concurrent_transactions
    after = decision.after
    assert after is not None
    assert (after.state, after.producer_epoch, after.last_producer_epoch) == (S.PREPARE_ABORT, 6, last)
    assert after.partitions == {A0}


def test_after_the_last_usable_epoch_the_producer_gets_a_new_id() -> None:
    worn = transaction(epoch=MAX_EPOCH - 1)
    assert init(worn).needs_producer_id
    decision = init(worn, expected=(70, MAX_EPOCH - 1), fresh=71)
    assert decision.answer == Answer(ErrorCode.none, 71, 0)
    assert decision.after is not None
    assert decision.after.previous_producer_id == 70
    # The answer with the new id was lost: the producer asks again with what it had.
    again = init(decision.after, expected=(70, MAX_EPOCH - 1))
    assert again.answer == Answer(ErrorCode.none, 71, 0)


def test_a_producer_whose_last_epoch_was_fenced_by_a_timeout_gets_a_new_id() -> None:
    aborted = aborted_by_coordinator(transaction(S.ONGOING, epoch=MAX_EPOCH - 1), 2, NOW)
    assert aborted.producer_epoch == MAX_EPOCH
    assert init(completed(aborted, NOW), expected=(70, MAX_EPOCH - 1), fresh=71).answer == Answer(ErrorCode.none, 71, 0)


def test_an_abort_by_the_coordinator_switches_to_a_new_id_when_epochs_run_out() -> None:
    worn = transaction(S.ONGOING, epoch=MAX_EPOCH - 1)
    assert init(worn).needs_producer_id
    fenced = init(worn, fresh=71)
    assert fenced.answer.error is ErrorCode.concurrent_transactions
    assert fenced.after is not None
    assert (fenced.after.producer_id, fenced.after.producer_epoch) == (70, MAX_EPOCH)
    over = completed(fenced.after, NOW)
    assert init(over).answer == Answer(ErrorCode.none, 71, 1)
    # The fenced producer, if it was only slow: its own abort, or its recovery, returns the new id.
    ended = end_transaction(over, 70, MAX_EPOCH - 1, commit=False, client_version=2, fresh_producer_id=None, now_ms=NOW)
    assert ended.answer == Answer(ErrorCode.none, 71, 0)
    assert init(over, expected=(70, MAX_EPOCH - 1)).answer == Answer(ErrorCode.none, 71, 0)


# Adding and verifying partitions


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_first_partition_opens_a_transaction(state: TransactionState) -> None:
    decision = add_partitions(transaction(state), 70, 5, [A0], client_version=0, now_ms=NOW)
    assert decision.answer.error is ErrorCode.none
    after = decision.after
    assert after is not None
    assert (after.state, after.partitions, after.started_at_ms) == (S.ONGOING, {A0}, NOW)


def test_adding_a_known_partition_writes_nothing() -> None:
    ongoing = transaction(S.ONGOING)
    assert add_partitions(ongoing, 70, 5, [A0], client_version=0, now_ms=NOW) == Decision(Answer())
    after = add_partitions(ongoing, 70, 5, [A1], client_version=2, now_ms=NOW).after
    assert after is not None
    assert (after.partitions, after.started_at_ms, after.client_version) == ({A0, A1}, 900_000, 2)


@pytest.mark.parametrize(
    ("current", "pid", "epoch", "error"),
    [
        (None, 70, 5, ErrorCode.invalid_producer_id_mapping),
        (transaction(), 71, 5, ErrorCode.invalid_producer_id_mapping),
        (transaction(), 70, 4, ErrorCode.producer_fenced),
        (transaction(), 70, 6, ErrorCode.producer_fenced),
        (transaction(S.PREPARE_COMMIT), 70, 5, ErrorCode.concurrent_transactions),
        (transaction(S.PREPARE_ABORT), 70, 5, ErrorCode.concurrent_transactions),
    ],
)
def test_wrong_producers_may_neither_add_nor_verify(
    current: Transaction | None, pid: int, epoch: int, error: ErrorCode
) -> None:
    decision = add_partitions(current, pid, epoch, [A0], client_version=0, now_ms=NOW)
    assert decision == Decision(Answer(error))
    assert verify_partitions(current, pid, epoch, [A0, A1]) == {A0: error, A1: error}


def test_verification_accepts_only_partitions_of_the_transaction() -> None:
    outcome = verify_partitions(transaction(S.ONGOING), 70, 5, [A0, A1])
    assert outcome == {A0: ErrorCode.none, A1: ErrorCode.transaction_abortable}


# EndTxn, classic


@pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
def test_a_classic_end_keeps_the_epoch(commit: bool, state: TransactionState) -> None:
    decision = end(transaction(S.ONGOING), commit, 5, 0)
    assert decision.answer == Answer()
    assert decision.after is not None
    assert (decision.after.state, decision.after.producer_epoch, decision.after.partitions) == (state, 5, {A0})


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        (S.EMPTY, ErrorCode.invalid_txn_state, ErrorCode.invalid_txn_state),
        (S.COMPLETE_COMMIT, ErrorCode.none, ErrorCode.invalid_txn_state),
        (S.COMPLETE_ABORT, ErrorCode.invalid_txn_state, ErrorCode.none),
        (S.PREPARE_COMMIT, ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions),
        (S.PREPARE_ABORT, ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions),
    ],
)
def test_a_classic_end_without_an_open_transaction(
    state: TransactionState, on_commit: ErrorCode, on_abort: ErrorCode
) -> None:
    assert end(transaction(state), True, 5, 0) == Decision(Answer(on_commit))
    assert end(transaction(state), False, 5, 0) == Decision(Answer(on_abort))


@pytest.mark.parametrize("version", [0, 2])
def test_only_the_current_producer_may_end_a_transaction(version: int) -> None:
    ongoing = transaction(S.ONGOING)
    assert end(None, True, 5, version).answer.error is ErrorCode.invalid_producer_id_mapping
    assert end(ongoing, True, 5, version, pid=71).answer.error is ErrorCode.invalid_producer_id_mapping
    assert end(ongoing, True, 4, version).answer.error is ErrorCode.producer_fenced
    assert end(ongoing, True, 6, version).answer.error is ErrorCode.producer_fenced


# EndTxn, version 2

FENCED, INVALID, NONE = ErrorCode.producer_fenced, ErrorCode.invalid_txn_state, ErrorCode.none


@pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
def test_a_version_2_end_raises_the_epoch_and_returns_it(commit: bool, state: TransactionState) -> None:
    decision = end(transaction(S.ONGOING), commit, 5, 2)
    assert decision.answer == Answer(NONE, 70, 6)
    after = decision.after
    assert after is not None
    assert (after.state, after.producer_epoch, after.last_producer_epoch, after.client_version) == (state, 6, 5, 2)


@pytest.mark.parametrize(
    ("state", "commit", "repeated", "error"),
    [
        (S.EMPTY, False, True, FENCED),
        (S.EMPTY, True, True, FENCED),
        (S.EMPTY, True, False, INVALID),
        (S.COMPLETE_ABORT, False, True, NONE),
        (S.COMPLETE_ABORT, True, True, INVALID),
        (S.COMPLETE_ABORT, True, False, INVALID),
        (S.COMPLETE_COMMIT, False, True, INVALID),
        (S.COMPLETE_COMMIT, True, True, NONE),
        (S.COMPLETE_COMMIT, True, False, INVALID),
    ],
)
def test_a_version_2_end_without_an_open_transaction(
    state: TransactionState, commit: bool, repeated: bool, error: ErrorCode
) -> None:
    decision = end(transaction(state, client_version=2), commit, 4 if repeated else 5, 2)
    assert decision.after is None
    assert decision.answer == (Answer(NONE, 70, 5) if error is NONE else Answer(error))


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_until_completion_a_producer_gets_concurrent_transactions_and_is_not_fenced(
    state: TransactionState,
) -> None:
    """The answer to the end came before: the producer may abort, or write in, its next transaction at once."""
    wait = Decision(Answer(ErrorCode.concurrent_transactions))
    running_out = transaction(state, epoch=MAX_EPOCH, client_version=2, next_producer_id=71)
    for current, pid, epoch in (
        (transaction(state, client_version=2), 70, 4),
        (transaction(state, client_version=2), 70, 5),
        (running_out, 71, 0),
    ):
        for commit in (True, False):
            assert end(current, commit, epoch, 2, pid=pid) == wait
        assert add_partitions(current, pid, epoch, [A0], client_version=2, now_ms=NOW) == wait
        assert init(current, expected=(pid, epoch), fresh=99) == wait


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_version_2_abort_without_partitions_raises_the_epoch(state: TransactionState) -> None:
    decision = end(transaction(state), False, 5, 2)
    assert decision.answer == Answer(NONE, 70, 6)
    assert decision.after is not None
    assert (decision.after.state, decision.after.partitions, decision.after.started_at_ms) == (
        S.PREPARE_ABORT,
        frozenset(),
        NOW,
    )


def test_when_epochs_run_out_the_end_returns_a_new_producer_id() -> None:
    worn = transaction(S.ONGOING, epoch=MAX_EPOCH - 1)
    assert end(worn, True, MAX_EPOCH - 1, 2).needs_producer_id
    decision = end(worn, True, MAX_EPOCH - 1, 2, fresh=71)
    assert decision.answer == Answer(NONE, 71, 0)
    prepared = decision.after
    assert prepared is not None
    # Markers still go out under the old id, with an epoch above everything the producer used.
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (70, MAX_EPOCH, 71)
    done = completed(prepared, NOW)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id, done.next_producer_id) == (71, 0, 70, -1)
    assert end(done, True, MAX_EPOCH - 1, 2).answer == Answer(NONE, 71, 0), "the same answer when it is asked again"
    assert end(done, False, MAX_EPOCH - 1, 2).answer.error is INVALID


# Completion, timeout, expiry


@pytest.mark.parametrize(
    ("state", "expected"), [(S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)]
)
def test_completion_clears_the_partitions(state: TransactionState, expected: TransactionState) -> None:
    done = completed(transaction(state), NOW)
    assert (done.state, done.partitions, done.producer_epoch) == (expected, frozenset(), 5)


def test_a_transaction_times_out_after_its_timeout_and_not_before() -> None:
    ongoing = transaction(S.ONGOING)
    assert not has_timed_out(ongoing, 960_000)
    assert has_timed_out(ongoing, 960_001)
    assert not has_timed_out(transaction(S.PREPARE_COMMIT), 960_001)
    assert not has_timed_out(replace(ongoing, timeout_ms=NO_TIMEOUT_MS), 2**40)


def test_an_unused_id_expires_but_an_open_transaction_never() -> None:
    assert has_expired(transaction(), 50_000, NOW)
    assert not has_expired(transaction(), 50_001, NOW)
    assert not has_expired(transaction(S.ONGOING), 0, NOW)
    assert not has_expired(transaction(S.PREPARE_ABORT), 0, NOW)


def test_an_illegal_transition_is_a_bug_and_raises() -> None:
    with pytest.raises(AssertionError):
        transaction(S.PREPARE_COMMIT).moved(S.ONGOING, NOW)
    with pytest.raises(AssertionError):
        transaction(S.EMPTY).moved(S.COMPLETE_COMMIT, NOW)
