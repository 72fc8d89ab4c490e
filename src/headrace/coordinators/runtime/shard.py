"""One hosted partition of a coordinator's topic: its state, the records in progress, and the replies that wait for
them.

The runtime decides an operation, writes its records as one batch and replays them. It sends the reply when the high
watermark has passed the batch. If several operations arrive in one turn of the event loop, it replays each one at once,
so the next sees its result, and writes their records together at the end of the turn: a thousand commits that arrive
together need a handful of appends.

With write-then-replay a failed append changes nothing. The gathered operations are replayed before they are written, so
the runtime checks before each operation that the log accepts writes. If an append fails nevertheless (a disk error),
the runtime discards the shard and loads it again from the disk.

Invariants: durable state = replay of the log + the gathered records; a reply is never sent before its records are
committed; records of one operation are in one batch. Owned by the event loop. Mirrors Kafka's CoordinatorRuntime but
has no snapshots: a read waits until the state it sees is committed.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.coordinators.runtime.commits import CommitQueue, Reply, Tell, settle
from headrace.coordinators.runtime.loading import Replays, replay_log
from headrace.coordinators.runtime.log import CoordinatorLog, coordinator_error
from headrace.coordinators.runtime.result import DEFERRED, Answer, Result, Timer
from headrace.coordinators.runtime.timers import Timers
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_writable_batch, records_section
from headrace.records.compression import Codec
from headrace.records.control import build_end_txn_marker

_log = logging.getLogger(__name__)

_RECORD_OVERHEAD_BYTES: Final = 32  # varints and lengths around a record's key and value, rounded up
# How often a shard that does not gather checks whether it should: a check costs a tenth of a commit.
_WRITES_BETWEEN_LOOKS: Final = 8


class Shard(Replays, Protocol):
    """The state machine of one partition. Only `replay` and `replay_end_marker` change its durable state."""

    def loaded(self, now_ms: int) -> Result:
        """All records are replayed and requests may come: sets the timers of the state."""

    def unloaded(self) -> list[Answer]:
        """The shard is unloaded: returns the answers for waiting callers (usually NOT_COORDINATOR)."""

    def refuse_waiting(self) -> list[Answer]:
        """The shard stays, but another broker may coordinate: returns NOT_COORDINATOR for all waiting callers."""


S = TypeVar("S", bound=Shard)


class Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class HostedShard(Generic[S]):
    def __init__(
        self,
        name: str,
        leader_epoch: int,
        log: CoordinatorLog,
        make_shard: Callable[[], S],
        clock: Callable[[], int],
        write_timeout_ms: int,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.name = name
        self.leader_epoch = leader_epoch
        self.phase = Phase.LOADING
        self.shard = make_shard()
        self._make_shard = make_shard
        self._log = log
        self._codec = codec
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timers = Timers(self._loop, self._fire)
        self._gathered: list[Record] = []
        self._gathered_bytes = 0
        self._gathered_tell: list[Tell] = []
        self._turn_is_open = False
        self._unwatched_writes = _WRITES_BETWEEN_LOOKS
        self._operations_this_turn = 0
        self._gathers = False
        self._commits = CommitQueue(log, write_timeout_ms)
        # When this broker was last seen without the lease, on the event loop's clock.
        self._unled_at = -math.inf
        self._callers_may_wait = False
        self._load_task: asyncio.Task[None] | None = None

    # Life

    def load(self) -> None:
        """Replays the log; an empty one is ready before this returns."""
        if self._log.end_offset == 0:
            self._become_active()
            return
        self._load_task = self._loop.create_task(self._load())

    async def wait_loaded(self) -> None:
        while self.phase is Phase.LOADING and self._load_task is not None:
            await asyncio.wait([self._load_task])

    async def _load(self) -> None:
        try:
            if await replay_log(self.name, self._log, self.shard, lambda: self.phase is Phase.LOADING):
                self._become_active()
        except Exception:  # boundary of a load: a shard that cannot be read must not fail the others
            _log.exception("%s: cannot be loaded; its groups answer NOT_COORDINATOR", self.name)
            self.close()

    def _become_active(self) -> None:
        self.phase = Phase.ACTIVE
        self._accept(self.shard.loaded(self._clock()))

    def close(self) -> None:
        """Leadership is lost (or the broker stops): all waiting callers get NOT_COORDINATOR."""
        if self.phase is Phase.CLOSED:
            return
        self.phase = Phase.CLOSED
        self._abandon(ErrorCode.not_coordinator)

    def _abandon(self, error: ErrorCode) -> None:
        self._timers.clear()
        self._gathered.clear()
        self._gathered_bytes = 0
        gathered, self._gathered_tell = self._gathered_tell, []
        self._commits.abandon(error)
        for tell in gathered:
            tell(error)
        self._answer(self.shard.unloaded())

    def _reload(self, error: ErrorCode) -> None:
        """An append failed after its records were replayed: the state is ahead of the log, so it is loaded again."""
        self.phase = Phase.LOADING
        self._abandon(error)
        self.shard = self._make_shard()
        self.load()

    # Operations

    def require_active(self) -> None:
        if self.phase is Phase.LOADING:
            raise Refused(ErrorCode.coordinator_load_in_progress, f"{self.name} is being loaded: try again")
        if self.phase is Phase.CLOSED:
            raise Refused(ErrorCode.not_coordinator, f"{self.name} is not led by this broker")
        if not self._log.is_led:
            self._without_lease()
            raise Refused(ErrorCode.not_coordinator, f"{self.name}: this broker lost its session, another may lead it")

    def _without_lease(self) -> None:
        """Members that wait here, for example for a rebalance, must find the coordinator that may have replaced this
        one."""
        self._unled_at = self._loop.time()
        if self._callers_may_wait:
            self._callers_may_wait = False
            self._answer(self.shard.refuse_waiting())

    def submit(self, operation: Callable[[S, int], Result], *, asks_first: bool = True) -> Any:
        """Runs one operation. Returns its reply, or a future of it if the reply must wait for a commit. The caller
        knows the type of the reply, which differs from operation to operation.

        Raises the operation's Fault, or the reason why it cannot run. Returns a DEFERRED reply as it is.
        `asks_first=False` is for operations that seldom write and change nothing before: a heartbeat counts also while
        the log rejects writes.
        """
        if self.phase is not Phase.ACTIVE or not self._log.is_led:
            self.require_active()
        refusal = self._log.refusal() if asks_first else None
        if refusal is not None:
            raise Refused(coordinator_error(refusal.code), refusal.message)
        now_ms = self._clock()
        result = operation(self.shard, now_ms)
        self._callers_may_wait = True
        if result.records:
            self._write(result, now_ms, asks_first=not asks_first)
        for timer in result.timers:
            self._timers.apply(timer)
        if not self._gathered and self._commits.is_settled:
            if result.answers or result.then is not None:
                self._conclude(result, None, ErrorCode.none)
            return result.reply
        future: asyncio.Future[object] | None = None if result.reply is DEFERRED else self._loop.create_future()
        self._tell_when_written(lambda error: self._conclude(result, future, error))
        return result.reply if future is None else future

    def read(self, operation: Callable[[S, int], Reply]) -> Reply | asyncio.Future[Reply]:
        """Runs a read. Returns its answer, or a future while a record that it may have seen is not committed."""
        self.require_active()
        reply = operation(self.shard, self._clock())
        if not self._uncommitted:
            return reply
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._tell_when_written(settle(future, reply))
        return future

    def complete_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> asyncio.Future[None]:
        """Writes the end marker and applies it to the shard; done when the marker is committed."""
        self.require_active()
        self._flush()
        self.require_active()
        now_ms = self._clock()
        marker = build_end_txn_marker(commit, coordinator_epoch, producer_id, producer_epoch, now_ms)
        end_offset = self._log.append(bytearray(marker), now_ms, transaction_version)
        self.shard.replay_end_marker(producer_id, producer_epoch, commit)
        future: asyncio.Future[None] = self._loop.create_future()
        self._commits.wait_for(end_offset, [settle(future, None)])
        return future

    @property
    def _uncommitted(self) -> bool:
        return bool(self._gathered) or not self._commits.is_settled

    def _fire(self, timer: Timer) -> None:
        if self.phase is not Phase.ACTIVE or timer.fire is None:
            return
        if not self._log.is_led:
            self._without_lease()
            self._timers.apply(timer, in_ms=timer.retry_ms)
            return
        if timer.awaits_client:
            # Clients could not reach this coordinator without the lease. They get their time again.
            left_s = self._unled_at + timer.delay_ms / 1000 - self._loop.time()
            if left_s > 0:
                self._timers.apply(timer, in_ms=math.ceil(left_s * 1000))
                return
        try:
            is_written = self._accept(timer.fire(self._clock()))
        except Exception:  # boundary of a timer: no caller waits for it, and the event loop must continue
            _log.exception("%s: a timer failed", self.name)
            return
        if not is_written and self.phase is Phase.ACTIVE:
            self._timers.apply(timer, in_ms=timer.retry_ms)

    def _accept(self, result: Result) -> bool:
        """A result without a caller: of a timer, a load or a continuation. False: not written."""
        if result.records:
            try:
                self._write(result, self._clock(), asks_first=result.replay)
            except Refused as refused:
                _log.warning("%s: what a timer asked for was not written: %s", self.name, refused.message)
                self._answer([(token, refused) for token, _ in result.answers])
                return False
        for timer in result.timers:
            self._timers.apply(timer)
        if self._uncommitted:
            self._tell_when_written(lambda error: self._conclude(result, None, error))
        else:
            self._conclude(result, None, ErrorCode.none)
        return True

    def _conclude(self, result: Result, future: asyncio.Future[object] | None, error: ErrorCode) -> None:
        """The records of `result` are committed, or (error) will never be."""
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

    def _answer(self, answers: Sequence[Answer]) -> None:
        for token, reply in answers:
            if token is None:
                continue
            assert isinstance(token, asyncio.Future), token
            if token.done():
                continue
            if isinstance(reply, Fault):
                token.set_exception(reply)
            else:
                token.set_result(reply)

    # Writing

    def _lose(self, result: Result, error: ErrorCode, now_ms: int) -> None:
        """What the operation has done in memory already must not wait for a record that never comes."""
        following = None if result.then is None else result.then(error, now_ms)
        if following is not None:
            self._accept(following)

    def _write(self, result: Result, now_ms: int, *, asks_first: bool = False) -> None:
        """Writes the records now or with the others of this turn. After Refused none is written."""
        if asks_first and (refusal := self._log.refusal()) is not None:
            self._lose(result, refusal.code, now_ms)
            raise Refused(coordinator_error(refusal.code), refusal.message)
        size = HEADER_BYTES
        for record in result.records:
            assert record.key is not None, "a coordinator's record always has a key"
            size += len(record.key) + _RECORD_OVERHEAD_BYTES
            if record.value is not None:
                size += len(record.value)
            for name, value in record.headers:
                size += len(name) + len(value or b"") + _RECORD_OVERHEAD_BYTES
            if record.timestamp_ms < 0:
                record.timestamp_ms = now_ms
        if size > self._log.max_batch_bytes:
            size = HEADER_BYTES + len(records_section(result.records))  # exactly, where it matters
        if size > self._log.max_batch_bytes and not result.atomic and len(result.records) > 1:
            half = len(result.records) // 2
            try:
                for records in (result.records[:half], result.records[half:]):
                    self._write(Result(records, replay=result.replay, atomic=False), now_ms)
            except Refused as refused:
                self._lose(result, refused.code, now_ms)
                raise
            return
        if size > self._log.max_batch_bytes:
            self._lose(result, ErrorCode.unknown_server_error, now_ms)
            raise Refused(ErrorCode.unknown_server_error, f"{self.name}: {size} bytes do not fit in one batch")
        self._operations_this_turn += 1
        if not self._turn_is_open:
            self._watch_turn()
        if result.producer is not None:
            self._flush()
            self.require_active()
            self._write_now(result, now_ms)
        elif self._gathered or self._gathers:
            if self._gathered_bytes + size > self._log.max_batch_bytes:
                self._flush()
                self.require_active()
            self._gather(result, size)
        else:
            self._write_now(result, now_ms)

    def _write_now(self, result: Result, now_ms: int) -> None:
        records = result.records
        try:
            end_offset = self._log.append(build_writable_batch(records, result.producer, self._codec), now_ms)
        except Fault as fault:
            if not result.replay:
                # The operation has changed the memory already: the shard is loaded again from the disk.
                self._reload(fault.code)
            else:
                self._lose(result, fault.code, now_ms)
            raise Refused(coordinator_error(fault.code), fault.message) from fault
        if result.replay:
            self._replay(records, end_offset - len(records), *(result.producer or (-1, -1)))

    def _gather(self, result: Result, size: int) -> None:
        if result.replay:
            self._replay(result.records, self._log.end_offset + len(self._gathered), -1, -1)
        self._gathered.extend(result.records)
        self._gathered_bytes += size

    def _replay(self, records: Sequence[Record], first: int, producer_id: int, producer_epoch: int) -> None:
        replay = self.shard.replay
        for offset, record in enumerate(records, first):
            assert record.key is not None
            replay(record.key, record.value, offset, producer_id, producer_epoch)

    def _watch_turn(self) -> None:
        """Schedules a call at the end of this turn: always while gathering, else now and then."""
        self._unwatched_writes += 1
        if self._gathers or self._unwatched_writes > _WRITES_BETWEEN_LOOKS:
            self._unwatched_writes = 0
            self._operations_this_turn = 1
            self._turn_is_open = True
            self._loop.call_soon(self._end_turn)

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
        try:
            end_offset = self._log.append(build_writable_batch(records, None, self._codec), self._clock())
        except Fault as fault:
            _log.warning("%s: %d records could not be written: %s", self.name, len(records), fault.message)
            self._gathered_tell = tell
            self._reload(fault.code)
            return
        self._commits.wait_for(end_offset, tell)

    def _tell_when_written(self, tell: Tell) -> None:
        if self._gathered:
            self._gathered_tell.append(tell)
        else:
            self._commits.wait_for(self._log.end_offset, [tell])
