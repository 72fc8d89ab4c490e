"""Of each transaction all or nothing is visible, in random histories of losses, delays and crashes.

One producer works against the real state machine and naive partitions. The network may lose an answer (the producer
then repeats or aborts, as its protocol says), deliver a request late, or twice. The coordinator may crash and be loaded
from its log at any moment; markers are written in any order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.coordinators.runtime.result import Result
from headrace.coordinators.txn.core.shard import TransactionSettings, TransactionShard
from headrace.coordinators.txn.core.transaction import Answer, Transaction, TransactionState
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record

PLACES = [TopicPartition("t", i) for i in range(3)]
TIMEOUT_MS = 5_000


class QueuedMarkers:
    """Markers that the test delivers, in any order."""

    def __init__(self) -> None:
        self.open: dict[Transaction, set[TopicPartition]] = {}

    def begin(self, prepared: Transaction) -> bool:
        if not prepared.partitions:
            return True
        self.open[prepared] = set(prepared.partitions)
        return False

    def forget(self) -> None:
        self.open.clear()


@dataclass
class NaivePartition:
    """What a partition leader does, without files: epochs fence, the first batch of a transaction is verified."""

    entries: list[tuple[int, int, int]] = field(default_factory=list)  # (producer id, transaction, batch)
    outcome: dict[int, bool] = field(default_factory=dict)  # index in entries -> committed
    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)

    def marker(self, producer_id: int, epoch: int, commit: bool) -> None:
        if self.epochs.get(producer_id, -1) > epoch:
            return
        self.epochs[producer_id] = epoch
        self.open.pop(producer_id, None)
        for at, (pid, _, _) in enumerate(self.entries):
            if pid == producer_id and at not in self.outcome:
                self.outcome[at] = commit

    def visible(self) -> list[tuple[int, int]]:
        return [(txn, batch) for at, (_, txn, batch) in enumerate(self.entries) if self.outcome.get(at)]


@dataclass(frozen=True)
class Produce:
    place: TopicPartition
    producer_id: int
    epoch: int
    transaction: int
    batch: int


class Transactions(RuleBasedStateMachine):
    version = 2

    @initialize()
    def start(self) -> None:
        self.now = 0
        self.log: list[Record] = []
        self.fresh = 100
        self.partitions = {place: NaivePartition() for place in PLACES}
        self.markers = QueuedMarkers()
        self.shard = self._new_shard()
        self.number = 0
        self.batch = 0
        self.acked: dict[int, set[tuple[TopicPartition, int]]] = {0: set()}
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.must_abort = False
        self.ending: bool | None = None  # the answer to commit (True) or abort (False) is still awaited
        self.late: list[Any] = []
        self.producer_id, self.epoch = -1, -1
        self._initialise(None)

    # The coordinator

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(TransactionSettings(), self.markers, lambda: 2)

    def _apply(self, result: Result) -> Any:
        for record in result.records:
            assert record.key is not None
            self.log.append(record)
            self.shard.replay(record.key, record.value, len(self.log), -1, -1)
        if result.then is not None:
            following = result.then(ErrorCode.none, self.now)
            if following is not None:
                self._apply(following)
        return result.reply

    def _ask(self, operation: Any) -> Answer:
        decision = self._apply(operation(None))
        if decision.needs_producer_id:
            self.fresh += 1
            decision = self._apply(operation(self.fresh))
        answer: Answer = decision.answer
        return answer

    def _finish_markers(self) -> None:
        while self.markers.open:
            prepared = next(iter(self.markers.open))
            self._write_marker(prepared, next(iter(self.markers.open[prepared])))

    def _write_marker(self, prepared: Transaction, place: TopicPartition) -> None:
        commit = prepared.state is TransactionState.PREPARE_COMMIT
        self.partitions[place].marker(prepared.producer_id, prepared.producer_epoch, commit)
        left = self.markers.open[prepared]
        left.discard(place)
        if not left:
            del self.markers.open[prepared]
            self._apply(self.shard.complete(prepared, self.now))

    # The producer

    def _initialise(self, expected: tuple[int, int] | None) -> None:
        for _ in range(3):
            answer = self._ask(lambda fresh: self.shard.init_producer_id("id", TIMEOUT_MS, expected, fresh, self.now))
            if answer.error is not ErrorCode.concurrent_transactions:
                break
            self._finish_markers()
        assert answer.error is ErrorCode.none, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def _next_transaction(self) -> None:
        self.number += 1
        self.acked[self.number] = set()
        self.must_abort, self.ending = False, None

    def _deliver_produce(self, request: Produce) -> bool:
        partition = self.partitions[request.place]
        if partition.epochs.get(request.producer_id, -1) > request.epoch:
            return False
        if partition.open.get(request.producer_id) != request.epoch:
            if self.version >= 2:
                error = self._ask(
                    lambda fresh: self.shard.add_partitions(
                        "id", request.producer_id, request.epoch, [request.place], 2, self.now
                    )
                ).error
            else:
                error = self.shard.verify_partitions("id", request.producer_id, request.epoch, [request.place])[
                    request.place
                ]
            if error is not ErrorCode.none:
                return False
            partition.open[request.producer_id] = request.epoch
        # Sequence numbers: a batch that is here already is acknowledged again, not appended again.
        entry = (request.producer_id, request.transaction, request.batch)
        if entry not in partition.entries:
            partition.entries.append(entry)
        partition.epochs[request.producer_id] = request.epoch
        return True

    @precondition(lambda self: self.ending is None and not self.must_abort)
    @rule(place=st.sampled_from(PLACES), fate=st.sampled_from(["ok", "ok", "ok", "lost answer", "late"]))
    def produce(self, place: TopicPartition, fate: str) -> None:
        if self.version < 2:
            error = self._ask(
                lambda fresh: self.shard.add_partitions("id", self.producer_id, self.epoch, [place], 0, self.now)
            ).error
            if error is ErrorCode.concurrent_transactions:
                self._finish_markers()
                return
            if error is not ErrorCode.none:
                self.must_abort = True
                return
        self.batch += 1
        request = Produce(place, self.producer_id, self.epoch, self.number, self.batch)
        if fate == "late":
            self.late.append(request)
            self.must_abort = True
            return
        accepted = self._deliver_produce(request)
        if accepted and fate == "ok":
            self.acked[self.number].add((place, self.batch))
        elif not self.markers.open:
            self.must_abort = True
        elif not accepted:
            self.batch -= 1
        else:
            self.must_abort = True

    @precondition(lambda self: self.ending is None)
    @rule(commit=st.booleans())
    def begin_to_end(self, commit: bool) -> None:
        commit = commit and not self.must_abort
        if (commit or self.version < 2) and not self.acked[self.number] and not self.must_abort:
            return
        self.ending = commit

    @precondition(lambda self: self.ending is not None)
    @rule(answer_lost=st.booleans(), again_later=st.booleans())
    def end(self, answer_lost: bool, again_later: bool) -> None:
        commit = self.ending
        producer_id, epoch = self.producer_id, self.epoch

        def request() -> Answer:
            return self._ask(
                lambda fresh: self.shard.end(
                    "id", producer_id, epoch, bool(commit), self.version if self.version >= 2 else 0, fresh, self.now
                )
            )

        answer = request()
        if answer.error is ErrorCode.concurrent_transactions:
            # The markers of this very transaction are under way: its outcome stands, the answer does not yet.
            return
        if self.version >= 2 and again_later:
            self.late.append(request)
        if answer.error is not ErrorCode.none:
            # Timed out and aborted meanwhile: the producer starts again.
            assert answer.error in (ErrorCode.producer_fenced, ErrorCode.invalid_txn_state), answer
            assert self.number not in self.committed
            self.aborted.add(self.number)
            self._initialise(None)
            self._next_transaction()
            return
        if answer_lost:
            return
        (self.committed if commit else self.aborted).add(self.number)
        if self.version >= 2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        elif self.must_abort:
            # A classic producer with batches of unknown outcome takes a new epoch before it continues.
            self._finish_markers()
            self._initialise((self.producer_id, self.epoch))
        self._next_transaction()

    # The world

    @precondition(lambda self: self.late)
    @rule(pick=st.integers(0, 1_000), keep=st.booleans())
    def a_late_request_arrives(self, pick: int, keep: bool) -> None:
        at = pick % len(self.late)
        request = self.late[at] if keep else self.late.pop(at)
        if isinstance(request, Produce):
            self._deliver_produce(request)
        else:
            request()

    @precondition(lambda self: self.markers.open)
    @rule(seed=st.integers(0, 1_000))
    def a_marker_is_written(self, seed: int) -> None:
        choice = random.Random(seed)
        prepared = choice.choice(sorted(self.markers.open, key=lambda t: t.producer_epoch))
        self._write_marker(prepared, choice.choice(sorted(self.markers.open[prepared])))

    @rule()
    def the_coordinator_crashes_and_is_loaded_again(self) -> None:
        self.shard.unloaded()
        before = dict(self.shard.transactions)
        self.shard = self._new_shard()
        for offset, record in enumerate(self.log):
            assert record.key is not None
            self.shard.replay(record.key, record.value, offset, -1, -1)
        assert self.shard.transactions == before, "the log is all there is"
        self._apply(self.shard.loaded(self.now))

    @rule()
    def time_passes_and_open_transactions_time_out(self) -> None:
        self.now += TIMEOUT_MS + 1
        self._apply(self.shard._abort_timed_out(self.now))

    @invariant()
    def all_or_nothing(self) -> None:
        if not hasattr(self, "partitions"):
            return
        seen: dict[int, set[tuple[TopicPartition, int]]] = {}
        for place, partition in self.partitions.items():
            visible = partition.visible()
            assert len(visible) == len(set(visible)), "a batch is visible twice"
            for txn, batch in visible:
                seen.setdefault(txn, set()).add((place, batch))
        assert not self.aborted & seen.keys(), "an aborted transaction is visible"
        for txn, batches in seen.items():
            assert batches <= self.acked[txn], "something visible that the producer never saw acknowledged"
        if not self.markers.open:
            for txn in self.committed:
                assert seen.get(txn, set()) == self.acked[txn], "a committed transaction is torn"

    def teardown(self) -> None:
        if not hasattr(self, "partitions"):
            return
        for request in self.late:
            if isinstance(request, Produce):
                self._deliver_produce(request)
            else:
                request()
        self._initialise(None)
        self._finish_markers()
        self.all_or_nothing()
        assert not any(p.open for p in self.partitions.values()), "a transaction that nobody will end"


class ClassicTransactions(Transactions):
    version = 1


@pytest.mark.parametrize("machine", [Transactions, ClassicTransactions])
def test_transactions_are_atomic_in_random_histories(machine: type[Transactions]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
