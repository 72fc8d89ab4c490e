"""One partition of a coordinator's topic, hosted: its shard of state, what is being written, and who waits for it.

The picture. An operation is decided, its records are written as one batch and then replayed; the reply leaves when the
high watermark has passed the batch. On a shard where several operations came in the last turn of the event loop, those
of a turn are replayed one after the other, so each sees what the one before it did, and their records are gathered and
written at the end of the turn together: a thousand commits that arrive together cost a handful of appends.

The good side of writing first, that a failed append changes nothing, is bought back differently while gathering:
whether the log takes writes at all is asked before the operation, and when an append fails nevertheless (a disk error),
the shard is thrown away and loaded again from what is on disk.

Invariants: durable state = replay of the log + the gathered records; a reply never leaves before its records are
committed; records of one operation are in one batch.
Owned by the event loop. Mirrors Kafka's CoordinatorRuntime; differs in having no snapshots: a reader waits until what
it sees is committed instead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.coordinators.runtime_log import CoordinatorLog
from headrace.coordinators.runtime_result import DEFERRED, Result
from headrace.coordinators.runtime_timers import Timers
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.records.batch import batches
from headrace.records.builder import Record, build_batch
from headrace.records.control import ControlType, build_end_txn_marker, read_control
from headrace.records.reader import read_records

_log = logging.getLogger(__name__)

_RECORD_OVERHEAD_BYTES: Final = 32  # varints and lengths around a record's key and value, rounded up
_BATCH_OVERHEAD_BYTES: Final = 61
_LOAD_SLICE_SECONDS: Final = 0.01  # how long loading may hold the event loop before others get a turn

# What a failed write means to a client of a coordinator (Kafka's table): ask again, or look for the coordinator again.
_WRITE_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


class Shard(Protocol):
    """The state machine of one partition. Only `replay` and `replay_end_marker` change its durable state."""

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int, producer_epoch: int) -> None:
        """One record; producer_id is -1 outside transactions."""

    def replay_end_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None: ...

    def loaded(self, now_ms: int) -> Result:
        """Everything has been replayed and requests may come: set the timers that the state asks for."""

    def unloaded(self) -> list[tuple[Any, Any]]:
        """The shard is given up: the answers for everyone who still waits (usually NOT_COORDINATOR)."""


S = TypeVar("S", bound=Shard)


class Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


@dataclass(slots=True)
class _Waiting:
    """Someone to be told once the log is committed up to `end_offset`."""

    end_offset: int
    deadline: float
    tell: Callable[[ErrorCode], None]


def coordinator_error(error: ErrorCode) -> ErrorCode:
    return _WRITE_ERRORS.get(error, error)


class HostedShard(Generic[S]):
    def __init__(
        self,
        name: str,
        leader_epoch: int,
        log: CoordinatorLog,
        make_shard: Callable[[], S],
        clock: Callable[[], int],
        write_timeout_ms: int,
    ) -> None:
        self.name = name
        self.leader_epoch = leader_epoch
        self.phase = Phase.LOADING
        self.shard = make_shard()
        self._make_shard = make_shard
        self._log = log
        self._clock = clock
        self._write_timeout_ms = write_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._timers = Timers(self._loop, self._fire)
        self._gathered: list[Record] = []
        self._gathered_bytes = 0
        self._gathered_tell: list[Callable[[ErrorCode], None]] = []
        self._turn_is_open = False
        self._operations_this_turn = 0
        self._gathers = False
        self._waiting: deque[_Waiting] = deque()
        self._drain_task: asyncio.Task[None] | None = None
        self._load_task: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Replay the log; an empty one is ready before this returns."""
        if self._log.end_offset == 0:
            self._become_active()
            return
        self._load_task = self._loop.create_task(self._load())

    async def wait_loaded(self) -> None:
        while self.phase is Phase.LOADING and self._load_task is not None:
            await asyncio.wait([self._load_task])

    async def _load(self) -> None:
        started = time.monotonic()
        count = 0
        try:
            slice_ends = time.monotonic() + _LOAD_SLICE_SECONDS
            for chunk in self._log.read_from_start():
                for batch in batches(memoryview(chunk)):
                    records = read_records(batch)
                    producer_id = batch.producer_id if batch.is_transactional else -1
                    if batch.is_control:
                        for record in records:
                            self._replay_control(record, batch.producer_id, batch.producer_epoch)
                    else:
                        for record in records:
                            if record.key is not None:
                                self.shard.replay(
                                    record.key, record.value, record.offset, producer_id, batch.producer_epoch
                                )
                    count += len(records)
                    if time.monotonic() > slice_ends:
                        await asyncio.sleep(0)
                        slice_ends = time.monotonic() + _LOAD_SLICE_SECONDS
                    if self.phase is not Phase.LOADING:
                        return
            self._become_active()
            _log.info("%s: loaded %d records in %.3f s", self.name, count, time.monotonic() - started)
        except Exception:
            _log.exception("%s: cannot be loaded; its groups answer NOT_COORDINATOR", self.name)
            self.close()

    def _replay_control(self, record: Record, producer_id: int, producer_epoch: int) -> None:
        marker = read_control(record)
        if marker.ends_transaction:
            self.shard.replay_end_marker(producer_id, producer_epoch, marker.type is ControlType.COMMIT)

    def _become_active(self) -> None:
        self.phase = Phase.ACTIVE
        self._accept(self.shard.loaded(self._clock()))

    def close(self) -> None:
        """Leadership is lost (or the broker stops): everyone who waits is told to look for the coordinator again."""
        if self.phase is Phase.CLOSED:
            return
        self.phase = Phase.CLOSED
        self._abandon(ErrorCode.not_coordinator)

    def _abandon(self, error: ErrorCode) -> None:
        self._timers.clear()
        self._gathered.clear()
        self._gathered_bytes = 0
        waiting, self._waiting = self._waiting, deque()
        gathered, self._gathered_tell = self._gathered_tell, []
        for entry in waiting:
            entry.tell(error)
        for tell in gathered:
            tell(error)
        self._answer(self.shard.unloaded())

    def _reload(self, error: ErrorCode) -> None:
        """An append failed after its records were replayed: the state is ahead of the log, so it is built anew."""
        self.phase = Phase.LOADING
        self._abandon(error)
        self.shard = self._make_shard()
        self.load()

    # --- operations ---------------------------------------------------------------------------------------------

    def require_active(self) -> None:
        if self.phase is Phase.LOADING:
            raise Refused(ErrorCode.coordinator_load_in_progress, f"{self.name} is being loaded: try again")
        if self.phase is Phase.CLOSED:
            raise Refused(ErrorCode.not_coordinator, f"{self.name} is not led by this broker")

    def submit(self, operation: Callable[[S, int], Result]) -> Any:
        """Run one operation. Gives its reply, or a future of it where the reply must wait for a commit.

        Raises the operation's Fault, or why it cannot run. A DEFERRED reply is given back as it is.
        """
        self.require_active()
        refusal = self._log.refusal()
        if refusal is not None:
            raise Refused(coordinator_error(refusal.code), refusal.message)
        result = operation(self.shard, self._clock())
        if result.records:
            self._write(result)
        for timer in result.timers:
            self._timers.apply(timer)
        if not self._uncommitted:
            self._conclude(result, None, ErrorCode.none)
            return result.reply
        future = None if result.reply is DEFERRED else self._loop.create_future()
        self._tell_when_written(lambda error: self._conclude(result, future, error))
        return result.reply if future is None else future

    def read(self, operation: Callable[[S, int], Any]) -> Any:
        """A question: its answer, or a future of it while something it may have seen is not committed yet."""
        self.require_active()
        reply = operation(self.shard, self._clock())
        if not self._uncommitted:
            return reply
        future = self._loop.create_future()
        self._tell_when_written(_settle(future, reply))
        return future

    def complete_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> asyncio.Future[None]:
        """Write the end marker and let the shard act on it; done when the marker is committed."""
        self.require_active()
        self._flush()
        self.require_active()
        now_ms = self._clock()
        marker = build_end_txn_marker(commit, coordinator_epoch, producer_id, producer_epoch, now_ms)
        end_offset = self._log.append(bytearray(marker), now_ms, transaction_version)
        self.shard.replay_end_marker(producer_id, producer_epoch, commit)
        future: asyncio.Future[None] = self._loop.create_future()
        self._wait_for(end_offset, [_settle(future, None)])
        return future

    @property
    def _uncommitted(self) -> bool:
        return bool(self._gathered or self._waiting) or self._log.committed_offset < self._log.end_offset

    def _fire(self, fire: Callable[[int], Result]) -> None:
        if self.phase is not Phase.ACTIVE:
            return
        try:
            self._accept(fire(self._clock()))
        except Exception:
            _log.exception("%s: a timer failed", self.name)

    def _accept(self, result: Result) -> None:
        """A result that nobody called for: of a timer, of loading, of what follows a commit."""
        if result.records:
            try:
                self._write(result)
            except Refused as refused:
                _log.warning("%s: what a timer asked for was not written: %s", self.name, refused.message)
                self._answer([(token, refused) for token, _ in result.answers])
                return
        for timer in result.timers:
            self._timers.apply(timer)
        if self._uncommitted:
            self._tell_when_written(lambda error: self._conclude(result, None, error))
        else:
            self._conclude(result, None, ErrorCode.none)

    def _conclude(self, result: Result, future: asyncio.Future[Any] | None, error: ErrorCode) -> None:
        """The records of `result` are committed, or (error) they never will be."""
        if future is not None and not future.done() and result.reply is not DEFERRED:
            if error is ErrorCode.none:
                future.set_result(result.reply)
            else:
                future.set_exception(Refused(coordinator_error(error), f"{self.name}: the write failed ({error.name})"))
        if error is ErrorCode.none:
            self._answer(result.answers)
        else:
            failure = Refused(coordinator_error(error), f"{self.name}: the write failed ({error.name})")
            self._answer([(token, failure) for token, _ in result.answers])
        if result.then is not None and self.phase is Phase.ACTIVE:
            following = result.then(error, self._clock())
            if following is not None:
                self._accept(following)

    def _answer(self, answers: Any) -> None:
        for token, reply in answers:
            if token is None or token.done():
                continue
            if isinstance(reply, Fault):
                token.set_exception(reply)
            else:
                token.set_result(reply)

    # --- writing ------------------------------------------------------------------------------------------------

    def _write(self, result: Result) -> None:
        """Write the records now or with the others of this turn. Raises Refused; then nothing of them is left."""
        records = result.records
        size = _BATCH_OVERHEAD_BYTES
        for record in records:
            size += len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        if size > self._log.max_batch_bytes:
            raise Refused(ErrorCode.unknown_server_error, f"{self.name}: {size} bytes do not fit in one batch")
        if not self._turn_is_open:
            self._turn_is_open = True
            self._loop.call_soon(self._end_turn)
        self._operations_this_turn += 1
        if result.producer is not None:
            self._flush()
            self.require_active()
            self._write_now(result, size)
        elif self._gathered or self._gathers:
            if self._gathered_bytes + size > self._log.max_batch_bytes:
                self._flush()
                self.require_active()
            self._gather(result, size)
        else:
            self._write_now(result, size)

    def _write_now(self, result: Result, size: int) -> None:
        now_ms = self._clock()
        records = result.records
        _stamp(records, now_ms)
        first = self._log.end_offset
        producer_id, producer_epoch = result.producer or (-1, -1)
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=producer_epoch, transactional=result.producer is not None
        )
        try:
            self._log.append(bytearray(batch), now_ms)
        except Fault as fault:
            if not result.replay:
                # The operation has changed the memory already: it is built anew from what is on disk.
                self._reload(fault.code)
            raise Refused(coordinator_error(fault.code), fault.message) from fault
        if result.replay:
            self._replay(records, first, producer_id, producer_epoch)

    def _gather(self, result: Result, size: int) -> None:
        if result.replay:
            self._replay(result.records, self._log.end_offset + len(self._gathered), -1, -1)
        self._gathered.extend(result.records)
        self._gathered_bytes += size

    def _replay(self, records: Sequence[Record], first: int, producer_id: int, producer_epoch: int) -> None:
        for at, record in enumerate(records):
            assert record.key is not None, "a coordinator's record always has a key"
            self.shard.replay(record.key, record.value, first + at, producer_id, producer_epoch)

    def _end_turn(self) -> None:
        self._turn_is_open = False
        self._gathers = self._operations_this_turn > 1
        self._operations_this_turn = 0
        self._flush()

    def _flush(self) -> None:
        if not self._gathered:
            return
        records, self._gathered, self._gathered_bytes = self._gathered, [], 0
        tell, self._gathered_tell = self._gathered_tell, []
        now_ms = self._clock()
        _stamp(records, now_ms)
        try:
            end_offset = self._log.append(bytearray(build_batch(records)), now_ms)
        except Fault as fault:
            _log.warning("%s: %d records could not be written: %s", self.name, len(records), fault.message)
            self._gathered_tell = tell
            self._reload(fault.code)
            return
        self._wait_for(end_offset, tell)

    def _tell_when_written(self, tell: Callable[[ErrorCode], None]) -> None:
        if self._gathered:
            self._gathered_tell.append(tell)
        else:
            self._wait_for(self._log.end_offset, [tell])

    def _wait_for(self, end_offset: int, tell: list[Callable[[ErrorCode], None]]) -> None:
        if self._log.committed_offset >= end_offset and not self._waiting:
            for each in tell:
                each(ErrorCode.none)
            return
        deadline = self._loop.time() + self._write_timeout_ms / 1000
        self._waiting.extend(_Waiting(end_offset, deadline, each) for each in tell)
        if self._drain_task is None or self._drain_task.done():
            self._drain_task = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        """One task waits for commits, however many wait: the first in the queue is always the next to be committed."""
        while self._waiting:
            first = self._waiting[0]
            left_ms = max(round((first.deadline - self._loop.time()) * 1000), 1)
            error = await self._log.wait_committed(first.end_offset, left_ms)
            committed = self._log.committed_offset
            while self._waiting and self._waiting[0].end_offset <= committed:
                self._waiting.popleft().tell(ErrorCode.none)
            if error is ErrorCode.none:
                continue
            # The records are written and may well be committed later; only these waits are over (as in Kafka).
            timed_out = error is ErrorCode.request_timed_out
            now = self._loop.time()
            while self._waiting and (not timed_out or self._waiting[0].deadline <= now + 0.001):
                self._waiting.popleft().tell(error)


def _stamp(records: Any, now_ms: int) -> None:
    for record in records:
        if record.timestamp_ms < 0:
            record.timestamp_ms = now_ms


def _settle(future: asyncio.Future[Any], reply: Any) -> Callable[[ErrorCode], None]:
    def tell(error: ErrorCode) -> None:
        if future.done():
            return
        if error is ErrorCode.none:
            future.set_result(reply)
        else:
            future.set_exception(Refused(coordinator_error(error), f"the write was not committed ({error.name})"))

    return tell
