"""ShareFetch and ShareAcknowledge, without wire versions: sessions, long polls, and one answer per partition.

Acknowledgements in a ShareFetch are processed before its fetch. A fetch that finds no record waits until one is
produced or released, or until its time is over. A session belongs to the connection that began it. When that connection
closes, the records that its member holds are released at once instead of when their locks expire. Owned by the event
loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Final

from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.share.core import share_partition
from headrace.coordinators.share.core.acquisition import Acquired, AcquireRequest
from headrace.coordinators.share.core.sessions import FINAL_EPOCH, INITIAL_EPOCH, Session, Sessions, TopicIdPartition
from headrace.coordinators.share.core.share_partition import Acknowledgement, AcknowledgeType
from headrace.coordinators.share.led_share_partitions import LedSharePartition, LedSharePartitions
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.isolation import READ_COMMITTED
from headrace.replication.waiters import FetchWaiter

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.1
# A leaving member gets its answer within this time, even if the release of its records is not written yet.
_RELEASE_SECONDS: Final = 1.0
_COORDINATOR_IS_AWAY: Final = (
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
)
# The share coordinator fences this broker: another broker leads, or the share partition was reset.
_LEADER_MOVED: Final = {
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_state_epoch: ErrorCode.not_leader_or_follower,
}
Acknowledgements = Mapping[TopicIdPartition, Sequence[Acknowledgement]]


# Raises a fault for a topic that the client may not read.
CheckTopic = Callable[[uuid.UUID], None]


def every_topic(topic_id: uuid.UUID) -> None:
    """The client may read every topic."""


@dataclass(frozen=True, slots=True)
class ShareFetchRequest:
    group_id: str
    member_id: str
    epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    added: Sequence[TopicIdPartition]
    forgotten: Sequence[TopicIdPartition]
    acknowledgements: Acknowledgements
    strict: bool = False
    renews: bool = False
    check_topic: CheckTopic = every_topic

    @property
    def acknowledged(self) -> Acknowledgements:
        """None, if no partition has an acknowledgement."""
        return self.acknowledgements if any(self.acknowledgements.values()) else {}

    @property
    def asks_for_records(self) -> bool:
        return any((self.max_wait_ms, self.min_bytes, self.max_bytes, self.max_records))


@dataclass(slots=True)
class PartitionAnswer:
    error: ErrorCode = ErrorCode.none
    message: str | None = None
    acknowledge_error: ErrorCode = ErrorCode.none
    acknowledge_message: str | None = None
    records: bytes = b""
    acquired: list[Acquired] = field(default_factory=list)


Answers = dict[TopicIdPartition, PartitionAnswer]


@dataclass(slots=True)
class FetchPass:
    """Result of one pass over the partitions of a session."""

    found: Answers = field(default_factory=dict)
    # The share partitions to wait for if nothing was found, the missing bytes, and whether one is not loaded yet.
    share_partitions: list[LedSharePartition] = field(default_factory=list)
    missing_bytes: int = 0
    retry: bool = False

    @property
    def has_records(self) -> bool:
        return any(answer.records for answer in self.found.values())

    def failed_everywhere(self, partitions: int) -> bool:
        """An error of one partition is sent when the others have records, or the time is over."""
        return partitions > 0 and sum(1 for answer in self.found.values() if answer.error) == partitions


WhenClosed = Callable[[Hashable, Callable[[], None]], None]


class ShareConsumption:
    def __init__(self, share_partitions: LedSharePartitions, session_limit: int, max_bytes: int) -> None:
        self._share_partitions = share_partitions
        self._sessions = Sessions(session_limit)
        self._max_bytes = max_bytes
        self._ending: set[asyncio.Task[None]] = set()

    def lock_ms(self, group_id: str) -> int:
        return self._share_partitions.settings_of(group_id).lock_ms

    # Fetch

    async def fetch(self, request: ShareFetchRequest, when_closed: WhenClosed) -> Answers:
        """Raises INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED."""
        if request.renews and request.asks_for_records:
            raise Refused(ErrorCode.invalid_request, "a share fetch that renews locks asks for no records")
        if request.epoch == FINAL_EPOCH:
            return await self._end(
                request.group_id, request.member_id, request.acknowledged, request.check_topic, renews=request.renews
            )
        try:
            session = self._session(request, when_closed)
        except Refused as refused:
            if refused.code is ErrorCode.share_session_limit_reached:
                await asyncio.sleep(request.max_wait_ms / 1000)  # it will ask again, and need not hurry
            raise
        answers: Answers = {}
        await self._acknowledge_all(
            request.group_id,
            request.member_id,
            request.acknowledged,
            answers,
            request.check_topic,
            renews=request.renews,
        )
        if not request.renews and request.max_records > 0 and request.max_bytes > 0:
            await self._fetch_into(answers, session, request)
        return answers

    def _session(self, request: ShareFetchRequest, when_closed: WhenClosed) -> Session:
        if request.epoch == INITIAL_EPOCH:
            if request.acknowledged:
                raise Refused(ErrorCode.invalid_request, "a first share fetch has nothing to acknowledge")
            begun = self._sessions.begin(request.group_id, request.member_id, request.added)
            key = (request.group_id, request.member_id)
            when_closed("share session", lambda: self._connection_closed(*key, begun))
            return begun
        session = self._sessions.advance(request.group_id, request.member_id, request.epoch)
        for partition in request.added:
            session.add(partition)
        for partition in request.forgotten:
            session.forget(partition)
        return session

    async def _fetch_into(self, answers: Answers, session: Session, request: ShareFetchRequest) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_ms / 1000
        while True:
            if self._sessions.get(request.group_id, request.member_id) is not session:
                return  # the session ended or restarted while this fetch waited: the member would not read the records
            is_last = loop.time() >= deadline or request.min_bytes <= 0
            look = await self._look(session, request, is_last=is_last)
            if is_last or look.has_records or look.failed_everywhere(len(session.partitions)):
                self._tell(answers, session, look.found, is_first=request.epoch == INITIAL_EPOCH)
                return
            woken: asyncio.Future[None] = loop.create_future()
            waiter = FetchWaiter(
                max(look.missing_bytes, 1),
                lambda woken=woken: _wake(woken),  # type: ignore[misc]
                reads_committed=any(led.isolation == READ_COMMITTED for led in look.share_partitions),
            )
            for led in look.share_partitions:
                waiter.watch(led.partition.readers)
                waiter.watch(led.waiting)
            # A share partition whose state cannot be read yet is no error: the fetch checks it again in a moment.
            timer = loop.call_at(min(deadline, loop.time() + _RETRY_SECONDS) if look.retry else deadline, _wake, woken)
            try:
                await woken
            finally:
                waiter.cancel()
                timer.cancel()

    def _tell(self, answers: Answers, session: Session, found: Answers, *, is_first: bool) -> None:
        """The first fetch of a session gets every loaded partition, later ones only those with news."""
        for partition, answer in found.items():
            has_news = session.told(partition, has_records=bool(answer.records), is_error=bool(answer.error))
            if is_first or has_news:
                known = answers.setdefault(partition, PartitionAnswer())
                known.error, known.message = answer.error, answer.message
                known.records, known.acquired = answer.records, answer.acquired

    async def _look(self, session: Session, request: ShareFetchRequest, *, is_last: bool) -> FetchPass:
        """One pass over the partitions of the session. Acquires if there is enough, or if the time is over."""
        look = FetchPass()
        keys = {partition: ShareKey(request.group_id, *partition) for partition in session.in_turn(request.epoch)}
        for partition, key in keys.items():
            try:
                request.check_topic(key.topic_id)
                self._share_partitions.loaded(key) or await self._share_partitions.load(key)
            except Fault as fault:
                look.retry |= not _told(look.found, partition, fault)
        # No await from here to the caller's watch: a record that is appended in between would not wake the fetch.
        opened: dict[TopicIdPartition, LedSharePartition] = {}
        for partition, key in keys.items():
            if partition in look.found:
                continue
            try:
                led = self._share_partitions.loaded(key)
            except Fault as fault:  # since the first check of this pass
                look.retry |= not _told(look.found, partition, fault)
                continue
            if led is None:
                look.retry = True
                continue
            look.share_partitions.append(led)
            if self._share_partitions.is_open(led):
                opened[partition] = led
        if opened:
            self._look_into(opened, request, look, is_last=is_last)
        return look

    def _look_into(
        self,
        opened: Mapping[TopicIdPartition, LedSharePartition],
        request: ShareFetchRequest,
        look: FetchPass,
        *,
        is_last: bool,
    ) -> None:
        bytes_left, records_left = min(request.max_bytes, self._max_bytes), request.max_records
        share = max(bytes_left // len(opened), 1)
        if not is_last and request.min_bytes > 1:
            look.missing_bytes = min(request.min_bytes, bytes_left) - self._readable_bytes(opened, share)
            if look.missing_bytes > 0:
                return
        min_one = True
        for partition, led in opened.items():
            answer = look.found[partition] = PartitionAnswer()
            if bytes_left <= 0 or records_left <= 0:
                continue
            wish = AcquireRequest(request.member_id, records_left, request.batch_size, request.strict)
            try:
                handed = self._share_partitions.hand_out(led, wish, min(share, bytes_left), min_one=min_one)
            except Fault as fault:
                del look.found[partition]
                look.retry |= not _told(look.found, partition, fault)
                continue
            if handed is not None:
                min_one = False
                answer.records, answer.acquired = handed.records, handed.acquired
                bytes_left -= len(handed.records)
                records_left -= sum(each.last - each.first + 1 for each in handed.acquired)

    def _readable_bytes(self, opened: Mapping[TopicIdPartition, LedSharePartition], share: int) -> int:
        """An error counts as enough bytes: it is sent at once."""
        try:
            return sum(self._share_partitions.readable_bytes(led, share) for led in opened.values())
        except Fault:
            return self._max_bytes

    # Acknowledge

    async def acknowledge(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        acknowledgements: Acknowledgements,
        *,
        renews: bool = False,
        check_topic: CheckTopic = every_topic,
    ) -> Answers:
        """Raises as `fetch` does. An answer's `acknowledge_error` has the result."""
        if epoch == FINAL_EPOCH:
            return await self._end(group_id, member_id, acknowledgements, check_topic, renews=renews)
        if epoch == INITIAL_EPOCH:
            raise Refused(ErrorCode.invalid_share_session_epoch, "an acknowledgement needs a session")
        self._sessions.advance(group_id, member_id, epoch)
        answers: Answers = {}
        await self._acknowledge_all(group_id, member_id, acknowledgements, answers, check_topic, renews=renews)
        return answers

    async def _acknowledge_all(
        self,
        group_id: str,
        member_id: str,
        acknowledgements: Acknowledgements,
        answers: Answers,
        check_topic: CheckTopic,
        *,
        renews: bool,
    ) -> None:
        may_renew = self._share_partitions.settings_of(group_id).may_renew

        async def one(partition: TopicIdPartition, batches: Sequence[Acknowledgement]) -> bool:
            """Whether it was about records that somebody could have."""
            answer = answers[partition] = PartitionAnswer()
            try:
                self._share_partitions.check_topic(partition[0])
                check_topic(partition[0])
                share_partition.check(batches, renews=renews)
                if not may_renew and any(AcknowledgeType.RENEW in batch.types for batch in batches):
                    raise Refused(ErrorCode.invalid_request, "share.renew.acknowledge.enable is false for this group")
                self._share_partitions.check_partition(partition)
            except Fault as fault:
                answer.acknowledge_error, answer.acknowledge_message = fault.code, fault.message
                return False
            if not batches:
                return False
            try:
                await self._share_partitions.acknowledge(ShareKey(group_id, *partition), member_id, batches)
            except Fault as fault:
                answer.acknowledge_error, answer.acknowledge_message = fault.code, fault.message
            return True

        asked = await asyncio.gather(*(one(partition, batches) for partition, batches in acknowledgements.items()))
        if not any(asked):
            # A partition without an acknowledgement is in the answer only beside others.
            for partition in [p for p, batches in acknowledgements.items() if not batches]:
                if not answers[partition].acknowledge_error:
                    del answers[partition]

    async def _end(
        self,
        group_id: str,
        member_id: str,
        acknowledgements: Acknowledgements,
        check_topic: CheckTopic = every_topic,
        *,
        renews: bool = False,
    ) -> Answers:
        """The member leaves: its last acknowledgements are applied, then its remaining records are released."""
        if self._sessions.get(group_id, member_id) is None:
            raise Refused(ErrorCode.share_session_not_found, f"member {member_id} has no share session here")
        answers: Answers = {}
        await self._acknowledge_all(group_id, member_id, acknowledgements, answers, check_topic, renews=renews)
        try:
            session = self._sessions.end(group_id, member_id)
        except Refused:
            return answers
        released = [
            asyncio.ensure_future(self._share_partitions.release(ShareKey(group_id, *partition), member_id))
            for partition in session.partitions
        ]
        for task in released:
            self._keep(task)
        if released:
            await asyncio.wait(released, timeout=_RELEASE_SECONDS)
        return answers

    def _connection_closed(self, group_id: str, member_id: str, session: Session) -> None:
        self._keep(asyncio.get_running_loop().create_task(self._leave(group_id, member_id, session)))

    async def _leave(self, group_id: str, member_id: str, session: Session) -> None:
        if self._sessions.get(group_id, member_id) is session:
            await self._end(group_id, member_id, {})
        if not self._sessions.has_any_of(group_id):
            self._share_partitions.forget_group(group_id)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, Fault):
            _log.error("records of a share session that ended stay locked", exc_info=error)


def _told(found: Answers, partition: TopicIdPartition, fault: Fault) -> bool:
    """Whether the member gets the error: while the coordinator does not answer, the broker retries instead."""
    if fault.code in _COORDINATOR_IS_AWAY:
        return False
    found[partition] = PartitionAnswer(_LEADER_MOVED.get(fault.code, fault.code), fault.message)
    return True


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
