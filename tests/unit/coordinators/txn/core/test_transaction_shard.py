"""A shard of transactions: its records, when it sends markers, and what it does on timers."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.coordinators.runtime.result import Result, Timer
from headrace.coordinators.txn.core import shard as shard_module
from headrace.coordinators.txn.core.log_records import record_of, transaction_of, transactional_id_of
from headrace.coordinators.txn.core.queries import ListFilter
from headrace.coordinators.txn.core.shard import TransactionSettings, TransactionShard
from headrace.coordinators.txn.core.transaction import Transaction, TransactionState
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition

S = TransactionState
PLACE = TopicPartition("orders", 3)


class Markers:
    def __init__(self, at_once: bool = False) -> None:
        self.begun: list[Transaction] = []
        self.at_once = at_once
        self.forgotten = 0

    def begin(self, prepared: Transaction) -> bool:
        self.begun.append(prepared)
        return self.at_once

    def forget(self) -> None:
        self.forgotten += 1


class Harness:
    """Replays what a result writes, then tells it how the write went, as the runtime does."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.markers = Markers(at_once)
        self.shard = TransactionShard(TransactionSettings(), self.markers)
        self.now = 1_000
        self.timers: dict[Any, Timer] = {}

    def apply(self, result: Result, error: ErrorCode = ErrorCode.none) -> Any:
        for record in result.records:
            assert record.key is not None
            self.shard.replay(record.key, record.value, 0, -1, -1)
        self.timers |= {timer.key: timer for timer in result.timers}
        if result.then is not None:
            following = result.then(error, self.now)
            if following is not None:
                self.apply(following)
        return result.reply

    def fire(self, key: Any) -> None:
        timer = self.timers.pop(key)
        assert timer.fire is not None
        self.apply(timer.fire(self.now))

    def open_transaction(self, transactional_id: str = "t", producer_id: int = 7) -> None:
        self.apply(self.shard.init_producer_id(transactional_id, 60_000, None, producer_id, self.now))
        self.apply(self.shard.add_partitions(transactional_id, producer_id, 0, [PLACE], 2, self.now))

    @property
    def state(self) -> TransactionState:
        return self.shard.transactions["t"].state


def test_markers_are_sent_after_the_outcome_is_committed() -> None:
    harness = Harness()
    harness.open_transaction()
    result = harness.shard.end("t", 7, 0, True, 2, None, harness.now)
    assert not harness.markers.begun
    harness.apply(result)
    assert [t.state for t in harness.markers.begun] == [S.PREPARE_COMMIT]
    harness.apply(harness.shard.complete(harness.markers.begun[0], harness.now))
    assert harness.state is S.COMPLETE_COMMIT


def test_a_transaction_whose_markers_are_written_at_once_is_complete_in_the_same_step() -> None:
    harness = Harness(at_once=True)
    harness.open_transaction()
    harness.apply(harness.shard.end("t", 7, 0, False, 2, None, harness.now))
    assert harness.state is S.COMPLETE_ABORT


def test_a_failed_write_of_a_completion_is_retried() -> None:
    harness = Harness(at_once=True)
    harness.open_transaction()
    prepared = harness.shard.end("t", 7, 0, True, 2, None, harness.now)
    for record in prepared.records:
        harness.shard.replay(record.key or b"", record.value, 0, -1, -1)
    assert prepared.then is not None
    completion = prepared.then(ErrorCode.none, harness.now)
    assert completion is not None and completion.then is not None
    lost = completion.then(ErrorCode.not_enough_replicas, harness.now)
    assert lost is not None and harness.state is S.PREPARE_COMMIT
    harness.apply(lost)
    harness.fire(("complete", "t"))
    assert harness.state is S.COMPLETE_COMMIT and not harness.timers.get(("complete", "t"))


def test_timeouts_of_many_producers_are_written_in_several_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard_module, "_ABORT_BYTES_AT_ONCE", 300)
    harness = Harness(at_once=True)
    harness.apply(harness.shard.loaded(harness.now))
    for at in range(20):
        harness.open_transaction(f"t{at}", 7 + at)
    harness.now += 61_000
    portions = 0
    while any(t.state is S.ONGOING for t in harness.shard.transactions.values()):
        harness.fire("abort")
        portions += 1
    assert {t.state for t in harness.shard.transactions.values()} == {S.COMPLETE_ABORT}
    assert 1 < portions <= 20 and harness.timers["abort"].delay_ms == 10_000


def test_markers_wait_until_an_uncertain_outcome_is_committed() -> None:
    harness = Harness()
    harness.open_transaction()
    harness.apply(harness.shard.end("t", 7, 0, True, 2, None, harness.now), ErrorCode.request_timed_out)
    assert not harness.markers.begun
    harness.fire(("begin", "t"))
    assert [t.transactional_id for t in harness.markers.begun] == ["t"]


def test_loading_resumes_only_prepared_transactions() -> None:
    before = Harness()
    for name, pid in (("t", 7), ("open", 8)):
        before.open_transaction(name, pid)
    before.apply(before.shard.end("t", 7, 0, True, 2, None, before.now))
    after = Harness(at_once=True)
    for transaction in before.shard.transactions.values():
        after.apply(Result([record_of(transaction)]))
    after.apply(after.shard.loaded(after.now))
    assert [t.transactional_id for t in after.markers.begun] == ["t"]
    assert after.state is S.COMPLETE_COMMIT
    assert after.shard.transactions["open"].state is S.ONGOING


def test_a_transaction_that_runs_too_long_is_aborted_and_its_producer_fenced() -> None:
    harness = Harness(at_once=True)
    harness.open_transaction()
    harness.apply(harness.shard.loaded(harness.now))
    harness.fire("abort")
    assert harness.state is S.ONGOING
    harness.now += 60_001
    harness.fire("abort")
    assert harness.state is S.COMPLETE_ABORT
    refused = harness.apply(harness.shard.add_partitions("t", 7, 0, [PLACE], 2, harness.now))
    assert refused.answer.error is ErrorCode.producer_fenced


def test_a_transactional_id_expires_after_a_week_without_use() -> None:
    harness = Harness()
    harness.apply(harness.shard.init_producer_id("t", 60_000, None, 7, harness.now))
    harness.apply(harness.shard.loaded(harness.now))
    harness.now += 604_800_000
    harness.fire("expire")
    assert not harness.shard.transactions
    refused = harness.apply(harness.shard.add_partitions("t", 7, 0, [PLACE], 2, harness.now))
    assert refused.answer.error is ErrorCode.invalid_producer_id_mapping


def test_an_unloaded_shard_sends_no_more_markers() -> None:
    harness = Harness()
    assert harness.shard.unloaded() == []
    assert harness.markers.forgotten == 1


def test_completion_of_a_changed_transaction_changes_nothing() -> None:
    harness = Harness()
    harness.open_transaction()
    stale = harness.shard.transactions["t"]
    harness.apply(harness.shard.end("t", 7, 0, True, 2, None, harness.now))
    assert not harness.shard.complete(stale, harness.now).records


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ListFilter(), {"t", "empty"}),
        (ListFilter(frozenset({7})), {"t"}),
        (ListFilter(state_labels=["Ongoing"]), {"t"}),
        (ListFilter(state_labels=["Nonsense"]), set()),
        (ListFilter(longer_than_ms=500), {"empty"}),
        (ListFilter(longer_than_ms=-1), {"t", "empty"}),
    ],
)
def test_administrators_see_the_transactions_they_ask_for(wanted: ListFilter, found: set[str]) -> None:
    harness = Harness()
    harness.open_transaction()
    harness.apply(harness.shard.init_producer_id("empty", 60_000, None, 9, harness.now))
    listed = wanted.matching(harness.shard.transactions.values(), harness.now + 500)
    assert {t.transactional_id for t in listed} == found
    assert wanted.unknown_states == (["Nonsense"] if "Nonsense" in wanted.state_labels else [])


def test_a_transaction_survives_its_record() -> None:
    original = Transaction(
        "naïve",
        7,
        3,
        60_000,
        S.PREPARE_ABORT,
        2_000,
        1_000,
        frozenset({TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("a", 2)}),
        last_producer_epoch=2,
        previous_producer_id=6,
        next_producer_id=8,
        client_version=2,
    )
    record = record_of(original)
    assert record.key is not None and record.value is not None
    assert transaction_of(transactional_id_of(record.key) or "", record.value) == original
