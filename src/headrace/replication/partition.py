"""One replica of one partition on this broker: its log, its role, and the requests that it serves.

    follower ──image: we lead in a higher epoch──► leader ──image: another leads──► follower ──image: not ours──► closed

As leader it appends, answers fetches, maintains the ISR (`core/isr`) and moves the high watermark. As follower it
appends what the leader sends (`fetcher`), and serves consumers if replica selection is on (KIP-392).

Every Produce and Fetch calls append and read, so these use no task, no lock, and do no work per record. With one
replica the high watermark moves inside `append`, so that acks=all does not wait.

Role and ISR come from the cluster image by (leader epoch, partition epoch), and never move back. A broker whose lease
has ended does not append, acknowledge or serve, because another broker may lead. Owned by the event loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from headrace.cluster.core.image import PartitionInfo
from headrace.kernel.errors import ErrorCode, NotLeader, Refused, StorageFault
from headrace.kernel.isolation import READ_UNCOMMITTED
from headrace.replication.core.isr import InSyncReplicas, IsrProposal
from headrace.replication.core.leader import NO_EPOCH, EpochEnd, check_leader_epoch, not_led_here
from headrace.replication.deletions import Deletions, deletion_target, low_watermark
from headrace.replication.offset_lookup import OffsetAt, offset_for
from headrace.replication.replica import Follower, PartitionRead, Replica, ReplicaContext
from headrace.replication.waiters import CommitWaiters, answer_within
from headrace.storage.log import Appended, AppendOrigin, Log

ACKS_ALL: Final = -1


class Partition(Replica):
    __slots__ = (
        "__weakref__",
        "_commits",
        "_deletions",
        "_uncommitted_bytes",
        "closed",
        "info",
        "isr",
        "leader_id",
    )

    def __init__(self, topic: str, index: int, topic_id: uuid.UUID | None, log: Log, around: ReplicaContext) -> None:
        super().__init__(topic, index, topic_id, log, around)
        self.info: PartitionInfo | None = None
        self.leader_id = -1
        self.isr: InSyncReplicas | None = None  # set exactly while this broker leads
        self.closed = False
        self._commits = CommitWaiters()
        self._deletions = Deletions()
        self._uncommitted_bytes = 0

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, leader={self.leader_id}, epoch={self.leader_epoch})"

    # Checks

    @property
    def is_leader(self) -> bool:
        return self.isr is not None

    def check_leads(self, current_leader_epoch: int = NO_EPOCH) -> InSyncReplicas:
        """The ISR, if this broker leads in that epoch and has its lease. Raises NotLeader or a leader epoch fault."""
        if current_leader_epoch != NO_EPOCH:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        isr = self.isr
        if isr is None:
            raise not_led_here(self.topic, self.index, self.leader_id)
        if not self.around.lease_held():
            raise NotLeader(f"{self.topic}-{self.index}: this broker lost its session and another may lead by now")
        return isr

    # Writing

    def append(
        self,
        records: memoryview | bytearray,
        *,
        acks: int = ACKS_ALL,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        now_ms: int,
        verification: object | None = None,
        verify: bool = False,
        transaction_version: int = 0,
    ) -> Appended:
        """Appends as leader. Raises NotLeader, Refused(not_enough_replicas), and the faults of the log."""
        isr = self.isr
        if isr is None or not self.around.lease_held():
            isr = self.check_leads()
        if acks == ACKS_ALL and not isr.has_enough_replicas:
            raise Refused(
                ErrorCode.not_enough_replicas,
                f"{self.topic}-{self.index} has {len(isr.stored)} in-sync replicas: "
                f"min.insync.replicas={isr.min_insync} asks for more",
            )
        log = self.log
        try:
            appended = log.append_as_leader(
                records,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                verification=verification,
                verify=verify,
                transaction_version=transaction_version,
            )
        except StorageFault:
            self.could_not_write()
            raise
        end = log.log_end_offset
        if isr.followers:
            self._uncommitted_bytes += len(records)
            if isr.appended(end, self.around.monotonic_ms()):
                self._high_watermark_moved()
            if self.tail_readers.waiting:
                self.tail_readers.grew(len(records))
        else:
            isr.appended(end, now_ms)
            ended = log.advance_high_watermark(end)
            if self.readers.waiting:
                self.readers.grew(len(records))
                if ended:
                    self.readers.transaction_ended()
        return appended

    def committed(self, offset_exclusive: int) -> ErrorCode | None:
        """The answer to acks=all for records below `offset_exclusive`, or None while they are not committed."""
        isr = self.isr
        if isr is None or not self.around.lease_held():
            return ErrorCode.not_leader_or_follower
        if isr.high_watermark < offset_exclusive:
            return None
        return ErrorCode.none if isr.has_enough_replicas else ErrorCode.not_enough_replicas_after_append

    def when_committed(self, offset_exclusive: int, answer: Callable[[ErrorCode], None]) -> None:
        """Calls `answer` once: now, when the high watermark reaches the offset, or when this broker stops leading."""
        code = self.committed(offset_exclusive)
        if code is not None:
            answer(code)
        else:
            self._commits.add(offset_exclusive, answer)

    async def wait_committed(self, offset_exclusive: int, timeout_ms: int) -> ErrorCode:
        code = self.committed(offset_exclusive)
        if code is not None:
            return code
        return await answer_within(timeout_ms, lambda answer: self._commits.add(offset_exclusive, answer))

    def delete_records_before(self, offset: int) -> int:
        """Moves the log start to `offset` (-1: to the high watermark) and returns it. Leader only."""
        isr = self.check_leads()
        target = deletion_target(f"{self.topic}-{self.index}", offset, isr.high_watermark)
        if target > self.log.log_start_offset:
            self.log.advance_log_start(target)
            self._deletions.reached(self.low_watermark)
            # Followers learn the new log start from their next fetch response, so waiting fetches are answered now.
            self.tail_readers.wake_all()
        return self.log.log_start_offset

    @property
    def low_watermark(self) -> int:
        return low_watermark(self.log.log_start_offset, self.isr, self.around.live_brokers)

    async def wait_deleted(self, offset: int, timeout_ms: int) -> ErrorCode:
        """Waits until every live replica has deleted the records below `offset`."""
        if self.isr is None:
            return ErrorCode.not_leader_or_follower
        if self.low_watermark >= offset:
            return ErrorCode.none
        return await self._deletions.wait(offset, timeout_ms)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: int = READ_UNCOMMITTED,
        follower: Follower | None = None,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        replica_log_start: int = -1,
        min_one: bool = True,
        client_rack: str | None = None,
    ) -> PartitionRead:
        """Reads from `offset`. Raises NotLeader, leader epoch faults, OffsetOutOfRange, StorageFault."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        if follower is not None:
            return self._read_for_follower(offset, max_bytes, follower, last_fetched_epoch, replica_log_start, min_one)
        if (self.isr is None and not self.around.serves_consumers_from_followers) or not self.around.lease_held():
            self.check_leads()
        if last_fetched_epoch != NO_EPOCH:
            diverging = self.diverging(offset, last_fetched_epoch)
            if diverging is not None:
                return diverging
        if client_rack and self.isr is not None:
            preferred = self.around.preferred_replica(self, offset, client_rack)
            if preferred != self.around.broker_id:
                return self.marks(preferred_read_replica=preferred)
        return self.read_for_consumer(offset, max_bytes, isolation, min_one)

    def _read_for_follower(
        self,
        offset: int,
        max_bytes: int,
        follower: Follower,
        last_fetched_epoch: int,
        log_start: int,
        min_one: bool,
    ) -> PartitionRead:
        isr = self.check_leads()
        number, broker_epoch, is_news = follower
        if not isr.knows(number, broker_epoch):
            raise NotLeader(
                f"{self.topic}-{self.index}: broker {number} (epoch {broker_epoch}) is not a current replica of it"
            )
        log = self.log
        end = log.log_end_offset
        if last_fetched_epoch != self.leader_epoch or offset > end:
            diverging = self.diverging(offset, last_fetched_epoch)
            if diverging is not None:
                return diverging
        found = None
        if offset != end:
            if number in isr.stored:
                found = log.read(offset, max_bytes, min_one_batch=min_one)
            elif not self.around.throttles.holds_back_sending(self):
                found = log.read(offset, max_bytes, min_one_batch=min_one)
                if found is not None:
                    self.around.throttles.sent(self, found.length)
        if is_news:
            self.follower_fetched(isr, number, broker_epoch, offset, log_start)
        return PartitionRead(found, isr.high_watermark, log.last_stable_offset, log.log_start_offset)

    def follower_fetched(
        self, isr: InSyncReplicas, follower: int, broker_epoch: int, offset: int, log_start: int
    ) -> None:
        now_ms = self.around.monotonic_ms()
        if isr.fetched(follower, broker_epoch, offset, log_start, now_ms):
            self._high_watermark_moved()
        if follower not in isr.stored:
            self._propose(isr, now_ms)
        if self._deletions.waiting:
            self._deletions.reached(self.low_watermark)

    # Looking up

    def offset_for(
        self, timestamp: int, isolation: int | None = READ_UNCOMMITTED, current_leader_epoch: int = NO_EPOCH
    ) -> OffsetAt:
        """ListOffsets for one partition; (-1, -1, -1) if no record is that new. `isolation` is None for replicas."""
        isr = self.check_leads(current_leader_epoch)
        return offset_for(self.log, isr, self.leader_epoch, timestamp, isolation)

    def offset_here(self, timestamp: int, current_leader_epoch: int = NO_EPOCH) -> OffsetAt:
        """ListOffsets of this replica in any role, for debugging clients."""
        if current_leader_epoch != NO_EPOCH:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        return offset_for(self.log, None, self.leader_epoch, timestamp, None)

    def end_offset_for_epoch(self, epoch: int, current_leader_epoch: int = NO_EPOCH) -> EpochEnd:
        """OffsetForLeaderEpoch for one partition; leader only. (-1, -1) if the log does not know such an epoch."""
        self.check_leads(current_leader_epoch)
        return self.epoch_end(epoch)

    # Role

    def update(self, info: PartitionInfo) -> bool:
        """Applies the state from the image or the controller, unless it is older. True if leader or epoch changed."""
        current = self.info
        if current is not None:
            if info.leader_epoch < current.leader_epoch:
                return False
            if info.leader_epoch == current.leader_epoch:
                # Equal epochs: the controller's answer has the ISR only, the image has the rest of the same change.
                if info.partition_epoch >= current.partition_epoch and info != current:
                    self.info = info
                    self._membership_changed(info)
                return False
        self.info = info
        self.leader_id = info.leader
        self.leader_epoch = info.leader_epoch
        if info.leader == self.around.broker_id:
            self._lead(info)
        else:
            self._follow()
        return True

    def _lead(self, info: PartitionInfo) -> None:
        log = self.log
        # Assign the epoch before the first record: older epochs now end here for every follower that asks. The file
        # can wait: after a crash recovery finds epochs in the batches, and this broker would lead in a new epoch.
        log.leader_epochs.assign(info.leader_epoch, log.log_end_offset)
        now_ms = self.around.monotonic_ms()
        self.isr = InSyncReplicas(
            leader=info.leader,
            broker_epoch=self.around.broker_epoch,
            leader_epoch=info.leader_epoch,
            partition_epoch=info.partition_epoch,
            replicas=info.replicas,
            stored=info.isr,
            log_end=log.log_end_offset,
            high_watermark=log.high_watermark,
            max_lag_ms=log.config.replica_lag_time_max_ms,
            min_insync=log.config.min_insync_replicas,
            now_ms=now_ms,
        )
        self.isr.brokers_changed(self.around.live_brokers)
        self._uncommitted_bytes = 1 << 30  # unknown: waiting fetches are checked again at the first progress
        self._high_watermark_moved()
        self.readers.wake_all()
        self.tail_readers.wake_all()

    def _follow(self) -> None:
        self.isr = None
        self._dismiss(ErrorCode.not_leader_or_follower)

    def step_down(self) -> None:
        """Stops leading in this epoch, even if the image still names this broker, until a higher epoch."""
        self.leader_id = -1
        self._follow()

    def _membership_changed(self, info: PartitionInfo) -> None:
        isr = self.isr
        if isr is None:
            return
        isr.replicas_assigned(info.replicas)
        if isr.stored_as(info.isr, info.partition_epoch, self.around.monotonic_ms()):
            self._high_watermark_moved()

    def isr_refused(self, proposal: IsrProposal) -> None:
        if self.isr is not None:
            self.isr.refused(proposal, self.around.monotonic_ms())

    def brokers_changed(self, live: Mapping[int, int]) -> None:
        if self.isr is not None:
            self.isr.brokers_changed(live)
            if self._deletions.waiting:
                self._deletions.reached(self.low_watermark)

    def config_changed(self) -> None:
        """The log has a new configuration. A lower min.insync.replicas may move the high watermark."""
        isr = self.isr
        if isr is not None:
            isr.min_insync = self.log.config.min_insync_replicas
            isr.max_lag_ms = self.log.config.replica_lag_time_max_ms
            if isr.advance(self.around.monotonic_ms()):
                self._high_watermark_moved()

    def tick(self) -> None:
        """Periodic work: removes slow followers from the ISR, sends delayed proposals, and resigns if this leader is
        isolated."""
        isr = self.isr
        if isr is None or not isr.followers or not self.around.lease_held():
            return
        now_ms = self.around.monotonic_ms()
        self._propose(isr, now_ms)
        # A joining follower that stopped catching up no longer holds the high watermark back.
        if isr.advance(now_ms):
            self._high_watermark_moved()

    def _propose(self, isr: InSyncReplicas, now_ms: int) -> None:
        proposal = isr.propose(now_ms) or isr.resign(self.around.heard_at_ms, now_ms)
        if proposal is not None:
            self.around.ask_for_isr(self, proposal)

    def close(self, code: ErrorCode = ErrorCode.unknown_topic_or_partition) -> None:
        """This broker no longer has the partition: answers all waiting requests with `code`."""
        self.closed = True
        self.isr = None
        self._dismiss(code)

    def _dismiss(self, code: ErrorCode) -> None:
        self._commits.fail_all(code)
        self._deletions.fail_all(code)
        self.readers.wake_all()
        self.tail_readers.wake_all()

    def _high_watermark_moved(self) -> None:
        isr = self.isr
        assert isr is not None
        log = self.log
        mark, ended = isr.high_watermark, False
        if mark > log.high_watermark:
            ended = log.advance_high_watermark(mark)
            if self.tail_readers.waiting:
                self.tail_readers.marked()
        if len(self._commits):
            code = self.committed(mark)
            assert code is not None, "what lies below the mark is committed, or this broker may not say so"
            self._commits.reached(mark, code)
        grown = self._uncommitted_bytes
        if mark >= isr.log_end:
            self._uncommitted_bytes = 0
        if self.readers.waiting:
            self.readers.grew(grown)
            if ended:
                self.readers.transaction_ended()
