"""The state of one transactional id, and its valid transitions.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit ─┐
      ▲          │                                          ├──► Ongoing | Empty | (TV2) PrepareAbort | Dead
      │          └──────► PrepareAbort ───► CompleteAbort ──┘
      └── InitProducerId

A `Transaction` is a value: an operation returns the next one, and replaying its record from `__transaction_state` makes
it current. Kafka keeps a pending state beside it because there the memory changes after the log. Here an operation sees
all records appended before it, and its answer is sent after they are committed, so there is no pending state. For the
same reason PrepareEpochFence does not persist: fencing an ongoing transaction goes straight to PrepareAbort with the
higher epoch. Dead means expired and is written as a tombstone. Both names stay, for filters of ListTransactions.

Two protocols share the states. *Classic* (transaction version 0 and 1): the epoch changes only when a producer is
initialised or fenced. *Version 2* (KIP-890): every end of a transaction raises the epoch, so that a delayed request
cannot reach the next transaction; when epochs run out, the answer to the end has a new producer id.

Mirrors Kafka's TransactionMetadata (4.1 and later: one raise per server-side abort, KAFKA-19367).
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Any, Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
MAX_EPOCH: Final = 32767
# Transaction versions from here on raise the epoch at every end and add partitions implicitly.
EPOCH_BUMP_VERSION: Final = 2
# A transaction with this timeout belongs to an external two-phase commit and never times out.
NO_TIMEOUT_MS: Final = 2**31 - 1


class TransactionState(IntEnum):
    """The numbers are those of the log; `label` is the name that tools print."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """No transaction is open: a new producer may begin, and the id may expire."""
        return self in _AT_REST


_LABELS: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
STATE_BY_LABEL: Final = {label: state for state, label in _LABELS.items()}
_AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

# Which states may come before each. PrepareAbort after a state at rest is version 2's abort of an empty transaction.
ALLOWED_BEFORE: Final = {
    TransactionState.EMPTY: _AT_REST,
    TransactionState.ONGOING: _AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}


@dataclass(frozen=True, slots=True)
class Transaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_at_ms: int
    started_at_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    # The previous epoch of the producer: distinguishes a repeated request from that of a fenced producer.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    # The previous producer id, and between prepare and complete the next one after epochs ran out.
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def epoch_is_exhausted(self) -> bool:
        """No producer gets the last epoch, so that the coordinator can always fence."""
        return self.producer_epoch >= MAX_EPOCH - 1

    @property
    def bumps_epochs(self) -> bool:
        return self.client_version >= EPOCH_BUMP_VERSION

    def moved(self, state: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        """The next value, with the invariants that hold for every step."""
        assert self.state in ALLOWED_BEFORE[state], f"{self.transactional_id}: {self.state.label} to {state.label}"
        after = replace(
            self, state=state, updated_at_ms=now_ms, **({"previous_producer_id": self.producer_id} | changes)
        )
        assert after.producer_id >= 0 and 0 <= after.producer_epoch <= MAX_EPOCH, after
        assert after.state is not TransactionState.EMPTY or not after.partitions, after
        return after


@dataclass(frozen=True, slots=True)
class Answer:
    error: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, and the transaction to write before it (None: no change).

    `needs_producer_id`: the caller must get a fresh producer id and decide again. Blocks of ids come from the
    controller, and a pure function cannot wait for one.
    """

    answer: Answer
    after: Transaction | None = None
    needs_producer_id: bool = False


def refusal(error: ErrorCode) -> Decision:
    return Decision(Answer(error))


NEEDS_PRODUCER_ID: Final = Decision(Answer(ErrorCode.coordinator_not_available), needs_producer_id=True)
