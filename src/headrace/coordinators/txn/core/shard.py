"""All transactional ids of one partition of `__transaction_state`: requests and timers in, records and answers out.

Only `replay` changes `transactions`. Every step that prepares an end starts, once its record is committed, the markers
of that transaction (`MarkerSender.begin`); loading starts those of transactions that a crash left prepared. When all
markers are written the sender calls `complete`.

If the commit of a prepared transaction's record is not confirmed (timeout, too few replicas), the record is still in
the log and may be committed at any moment. The coordinator sends its markers only after that, because an outcome that
could still be lost must not become visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from headrace.coordinators.runtime.result import NOTHING, Answer, Result, Timer
from headrace.coordinators.txn.core.ending import (
    aborted_by_coordinator,
    completed,
    end_transaction,
    has_expired,
    has_timed_out,
)
from headrace.coordinators.txn.core.initialisation import init_producer_id
from headrace.coordinators.txn.core.log_records import record_of, tombstone_of, transaction_of, transactional_id_of
from headrace.coordinators.txn.core.membership import add_partitions, verify_partitions
from headrace.coordinators.txn.core.transaction import Decision, Transaction
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record

_COMMIT_RETRY_MS: Final = 500
# One batch of tombstones stays well below any max.message.bytes that a coordinator's topic may have.
_EXPIRE_AT_ONCE: Final = 1_000
# Limit per round: many producers may die at the same moment.
_ABORT_BYTES_AT_ONCE: Final = 500_000


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expire_interval_ms: int = 3_600_000


class MarkerSender(Protocol):
    def begin(self, prepared: Transaction) -> bool:
        """Writes the markers of a prepared transaction. True: all are written already; else `complete` follows."""

    def forget(self) -> None:
        """The shard is unloaded or loaded again: stops sending its markers."""


class TransactionShard:
    def __init__(
        self,
        settings: TransactionSettings,
        markers: MarkerSender,
        server_version: Callable[[], int] = lambda: 2,
        fresh_producer_id: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._settings = settings
        self._markers = markers
        self._server_version = server_version
        self._fresh_producer_id = fresh_producer_id

    # The log

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int, producer_epoch: int) -> None:
        transactional_id = transactional_id_of(key)
        if transactional_id is None:
            return
        if value is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction_of(transactional_id, value)

    def replay_end_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """Nothing transactional is ever written to this topic."""

    def loaded(self, now_ms: int) -> Result:
        resumed = [t for t in self.transactions.values() if t.state.is_prepared]

        def resume(error: ErrorCode, at_ms: int) -> Result | None:
            return self._begin_markers(resumed, resume, error, at_ms)

        settings = self._settings
        return Result(
            timers=[
                Timer("abort", settings.abort_interval_ms, self._abort_timed_out),
                Timer("expire", settings.expire_interval_ms, self._expire),
            ],
            then=resume if resumed else None,
        )

    def unloaded(self) -> list[Answer]:
        self._markers.forget()
        return []

    def refuse_waiting(self) -> list[Answer]:
        return []

    # Requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        fresh_producer_id: int | None,
        now_ms: int,
    ) -> Result:
        decision = init_producer_id(
            self.transactions.get(transactional_id),
            transactional_id,
            timeout_ms=timeout_ms,
            expected=expected,
            fresh_producer_id=fresh_producer_id,
            server_version=self._server_version(),
            now_ms=now_ms,
        )
        return self._result(decision)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Result:
        current = self.transactions.get(transactional_id)
        decision = add_partitions(
            current, producer_id, producer_epoch, partitions, client_version=client_version, now_ms=now_ms
        )
        return self._result(decision)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        return verify_partitions(self.transactions.get(transactional_id), producer_id, producer_epoch, partitions)

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        client_version: int,
        fresh_producer_id: int | None,
        now_ms: int,
    ) -> Result:
        decision = end_transaction(
            self.transactions.get(transactional_id),
            producer_id,
            producer_epoch,
            commit=commit,
            client_version=client_version,
            fresh_producer_id=fresh_producer_id,
            now_ms=now_ms,
        )
        return self._result(decision)

    def complete(self, prepared: Transaction, now_ms: int) -> Result:
        """Every marker of `prepared` is written. A transaction that has changed since is not touched."""
        current = self.transactions.get(prepared.transactional_id)
        if current is None or current != prepared:
            return NOTHING
        return Result([record_of(completed(current, now_ms))])

    # From decision to result

    def _result(self, decision: Decision) -> Result:
        if decision.after is None:
            return Result(reply=decision)
        result = self._prepared([decision.after]) if decision.after.state.is_prepared else Result()
        result.records = [record_of(decision.after)]
        result.reply = decision
        return result

    def _prepared(self, transactions: list[Transaction]) -> Result:
        def begin(error: ErrorCode, now_ms: int) -> Result | None:
            return self._begin_markers(transactions, begin, error, now_ms)

        return Result(then=begin)

    def _begin_markers(
        self,
        prepared: list[Transaction],
        again: Callable[[ErrorCode, int], Result | None],
        error: ErrorCode,
        now_ms: int,
    ) -> Result | None:
        if error is not ErrorCode.none:
            # A Result without records waits for all records before it: it shows later whether the record is committed.
            key = ("begin", prepared[0].transactional_id)
            return Result(timers=[Timer(key, _COMMIT_RETRY_MS, lambda _: Result(then=again))])
        return self._completion([t for t in prepared if self._is_present(t) and self._markers.begin(t)], now_ms)

    def _completion(self, done: list[Transaction], now_ms: int) -> Result | None:
        """Completes transactions whose markers are all written; repeated until the records are in the log."""
        records = [record_of(completed(t, now_ms)) for t in done if self._is_present(t)]
        if not records:
            return None

        def then(error: ErrorCode, at_ms: int) -> Result | None:
            if error is ErrorCode.none:
                return None
            key = ("complete", done[0].transactional_id)
            return Result(timers=[Timer(key, _COMMIT_RETRY_MS, lambda at: self._completion(done, at) or NOTHING)])

        return Result(records, then=then, atomic=False)

    def _is_present(self, transaction: Transaction) -> bool:
        return self.transactions.get(transaction.transactional_id) == transaction

    # Timers

    def _abort_timed_out(self, now_ms: int) -> Result:
        version = self._server_version()
        aborted: list[Transaction] = []
        records: list[Record] = []
        size_bytes, delay_ms = 0, self._settings.abort_interval_ms
        for transaction in self.transactions.values():
            if not has_timed_out(transaction, now_ms):
                continue
            if size_bytes > _ABORT_BYTES_AT_ONCE:
                delay_ms = 0
                break
            fresh = self._fresh_producer_id() if transaction.epoch_is_exhausted else None
            aborted.append(aborted_by_coordinator(transaction, version, now_ms, fresh))
            records.append(record_of(aborted[-1]))
            size_bytes += len(records[-1].value or b"")
        result = self._prepared(aborted) if aborted else Result()
        result.records = records
        result.timers = [Timer("abort", delay_ms, self._abort_timed_out)]
        return result

    def _expire(self, now_ms: int) -> Result:
        kept_for_ms = self._settings.id_expiration_ms
        expired = [t.transactional_id for t in self.transactions.values() if has_expired(t, kept_for_ms, now_ms)]
        more = len(expired) > _EXPIRE_AT_ONCE
        delay_ms = 0 if more else self._settings.expire_interval_ms
        return Result(
            [tombstone_of(i) for i in expired[:_EXPIRE_AT_ONCE]],
            timers=[Timer("expire", delay_ms, self._expire)],
            atomic=False,
        )
