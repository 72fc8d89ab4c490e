"""In-sync replicas (ISR) of one partition on its leader, and the high watermark that follows from them.

Owns: the log end of each follower, the followers that count towards a commit, and the proposals to the controller.

The easy way is to drop a slow follower from the ISR and move the high watermark at once. It loses data: until the store
has the smaller ISR, an election may still choose the dropped follower, which lacks records that were just acknowledged.
So a removal counts only when it is stored, and an addition counts from the moment of the proposal:

    counted        = stored set  ∪  every addition that may have reached the store     (the maximal ISR)
    high watermark = smallest log end of counted replicas and of followers about to join
                     frozen while |stored set| < min.insync.replicas

The store accepts a proposal only at the partition epoch for which it was made. So the leader knows the outcome of a
proposal only when the partition epoch changes. Until then a proposal whose answer was lost stays *in doubt* and its
additions stay counted. If the controller refuses a proposal while an earlier copy of it is in doubt, the leader
proposes the stored ISR itself, which changes the partition epoch and invalidates every late copy.

A follower joins only if it has everything below the high watermark and everything before this leader's first offset,
and fetches with the broker epoch that the cluster image has (KIP-903: a restarted broker may have lost records).

An isolated leader. If a leader cannot reach its followers while all of them reach the store, it stays alone in an ISR
that is too small to commit, and the partition accepts no acks=all writes until the network recovers. If enough
followers are alive and none has fetched anything from this broker for `replica.lag.time.max.ms`, the leader resigns: it
proposes the ISR without itself, which is empty, and the controller elects an eligible leader replica. This loses no
committed record: below min.insync.replicas the leader committed none.

Invariants: the leader is in the stored ISR whenever it commits (asserted); the high watermark never moves back and
never passes the log end of a counted replica. Mirrors Kafka's Partition (KIP-497, KIP-903, KIP-966); time and log ends
are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from headrace.kernel.dataclass import dataclass

NEVER_MS: Final = -(1 << 62)
UNKNOWN_END: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
# After a refusal the image with the reason usually arrives soon; an immediate retry would only be refused again.
REFUSAL_PAUSE_MS: Final = 250


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """Asks the controller to store this ISR if the partition is still at `partition_epoch`."""

    members: tuple[tuple[int, int], ...]  # (broker id, broker epoch as its fetches carry it, -1 when it never fetched)
    leader_epoch: int
    partition_epoch: int

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(broker for broker, _ in self.members)


@dataclass(slots=True)
class FollowerProgress:
    """The state of one follower, from its fetches."""

    log_end: int = UNKNOWN_END
    log_start: int = 0
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    caught_up_at_ms: int = NEVER_MS
    fetched_at_ms: int = NEVER_MS
    leader_end_at_fetch: int = 0
    # When the follower was last caught up before it left the ISR. Only for reports.
    was_caught_up_at_ms: int = NEVER_MS

    @property
    def last_caught_up_ms(self) -> int:
        return max(self.caught_up_at_ms, self.was_caught_up_at_ms)


class InSyncReplicas:
    """The ISR during one leadership: created when a broker starts to lead in an epoch, dropped when it stops."""

    __slots__ = (
        "broker_epoch",
        "counted",
        "epoch_start",
        "followers",
        "high_watermark",
        "in_doubt",
        "leader",
        "leader_epoch",
        "led_since_ms",
        "live",
        "log_end",
        "max_lag_ms",
        "min_insync",
        "not_before_ms",
        "partition_epoch",
        "proposal",
        "resigns_not_before_ms",
        "stored",
    )

    def __init__(
        self,
        *,
        leader: int,
        broker_epoch: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Collection[int],
        stored: Collection[int],
        log_end: int,
        high_watermark: int,
        max_lag_ms: int,
        min_insync: int,
        now_ms: int,
    ) -> None:
        self.leader = leader
        self.broker_epoch = broker_epoch
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.led_since_ms = now_ms
        self.epoch_start = log_end
        self.log_end = log_end
        self.high_watermark = high_watermark
        self.max_lag_ms = max_lag_ms
        self.min_insync = min_insync
        self.stored = frozenset(stored)
        self.live: Mapping[int, int] = {}
        self.proposal: IsrProposal | None = None
        self.in_doubt: frozenset[int] = frozenset()
        self.not_before_ms = NEVER_MS
        self.resigns_not_before_ms = NEVER_MS
        self.counted = self.stored
        # Members count as caught up now: they were in sync under the last leader, and get the full lag time to fetch.
        self.followers = {
            broker: FollowerProgress(caught_up_at_ms=now_ms if broker in self.stored else NEVER_MS)
            for broker in replicas
            if broker != leader
        }
        self.advance(now_ms)

    # Facts from the data path

    def appended(self, log_end: int, now_ms: int) -> bool:
        """The leader appended records. Returns True if the high watermark moved."""
        before, self.log_end = self.log_end, log_end
        if not self.followers:
            if not self.stored:
                return False
            self.high_watermark = log_end
            return True
        for broker, progress in self.followers.items():
            # A member that had all records until now was in sync until now, even if its last fetch was long ago.
            if progress.log_end >= before and broker in self.stored and progress.caught_up_at_ms < now_ms:
                progress.caught_up_at_ms = now_ms
        # With followers in the ISR the high watermark cannot move before they fetch.
        return len(self.counted) == 1 and self.advance(now_ms)

    def knows(self, follower: int, broker_epoch: int) -> bool:
        """Whether a fetch of this follower counts: it is an assigned replica with the current broker epoch."""
        progress = self.followers.get(follower)
        if progress is None:
            return False
        if broker_epoch == UNKNOWN_BROKER_EPOCH:
            return True
        return broker_epoch >= progress.broker_epoch and broker_epoch >= self.live.get(follower, UNKNOWN_BROKER_EPOCH)

    def fetched(self, follower: int, broker_epoch: int, offset: int, log_start: int, now_ms: int) -> bool:
        """A follower fetches from `offset` and agrees with this log below it. True if the high watermark moved."""
        progress = self.followers[follower]
        if offset >= self.log_end:
            progress.caught_up_at_ms = max(progress.caught_up_at_ms, now_ms)
        elif offset >= progress.leader_end_at_fetch:
            # It now has all records that existed at its last fetch, so it was caught up at that moment.
            progress.caught_up_at_ms = max(progress.caught_up_at_ms, progress.fetched_at_ms)
        progress.log_end = offset
        progress.log_start = log_start
        progress.broker_epoch = broker_epoch
        progress.leader_end_at_fetch = self.log_end
        progress.fetched_at_ms = now_ms
        return self.advance(now_ms)

    def advance(self, now_ms: int) -> bool:
        """Moves the high watermark as far as the counted replicas allow. Returns True if it moved."""
        if self.high_watermark >= self.log_end or len(self.stored) < self.effective_min_insync:
            return False
        mark = self.log_end
        for broker, progress in self.followers.items():
            if progress.log_end < mark and (broker in self.counted or self._is_joining(broker, progress, now_ms)):
                mark = progress.log_end
        if mark <= self.high_watermark:
            return False
        assert self.leader in self.stored, "a leader outside its own ISR must not commit"
        self.high_watermark = mark
        return True

    @property
    def effective_min_insync(self) -> int:
        """min.insync.replicas, but not more than the number of replicas (as in Kafka)."""
        return min(self.min_insync, len(self.followers) + 1)

    @property
    def has_enough_replicas(self) -> bool:
        # The same as `effective_min_insync`, inlined because every write checks it.
        count = len(self.stored)
        return count >= self.min_insync or count > len(self.followers)

    # Membership

    def propose(self, now_ms: int) -> IsrProposal | None:
        """The change of the ISR to propose now, or None. Records it as proposed; at most one is in flight."""
        if self.proposal is not None or now_ms < self.not_before_ms:
            return None
        if self.in_doubt - self.stored:
            members = self.stored
        else:
            members = self.stored - self._slow(now_ms) | self._ready_to_join()
            if members == self.stored:
                return None
        self.proposal = IsrProposal(
            tuple((broker, self._epoch_of(broker)) for broker in sorted(members)),
            self.leader_epoch,
            self.partition_epoch,
        )
        self.in_doubt |= members
        self._recount()
        return self.proposal

    def resign(self, heard_at_ms: Mapping[int, int], now_ms: int) -> IsrProposal | None:
        """The proposal to remove this leader if it is isolated (see the module docstring), or None.
        `heard_at_ms`: when each broker last fetched anything from this one."""
        if self.proposal is not None or now_ms < max(self.not_before_ms, self.resigns_not_before_ms):
            return None
        if self.counted != {self.leader} or self.has_enough_replicas:
            return None
        since_ms = now_ms - self.max_lag_ms
        live = [broker for broker in self.followers if broker in self.live]
        if self.led_since_ms >= since_ms or any(heard_at_ms.get(broker, NEVER_MS) >= since_ms for broker in live):
            return None
        if len(live) < self.effective_min_insync:
            return None
        self.resigns_not_before_ms = now_ms + self.max_lag_ms
        self.proposal = IsrProposal((), self.leader_epoch, self.partition_epoch)
        return self.proposal

    def refused(self, proposal: IsrProposal, now_ms: int) -> None:
        """The controller refused the proposal. Earlier copies may still be in flight: see the module docstring."""
        if proposal is self.proposal:
            self.proposal = None
            self.not_before_ms = now_ms + REFUSAL_PAUSE_MS

    def undelivered(self, proposal: IsrProposal) -> None:
        """The proposal was certainly not sent, so it is not in doubt."""
        if proposal is self.proposal:
            self.proposal = None
            self.in_doubt = frozenset()
            self._recount()

    def stored_as(self, members: Collection[int], partition_epoch: int, now_ms: int) -> bool:
        """The store has this ISR at this partition epoch. Returns True if the high watermark moved."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        for broker in self.stored.difference(members):
            # A removed replica (its disk failed or is full) does not hold the high watermark back, and its earlier
            # fetches do not count: it must fetch again to rejoin.
            progress = self.followers.get(broker)
            if progress is not None:
                progress.log_end, progress.leader_end_at_fetch = UNKNOWN_END, self.log_end
                progress.was_caught_up_at_ms = progress.last_caught_up_ms
                progress.caught_up_at_ms = progress.fetched_at_ms = NEVER_MS
        self.stored = frozenset(members)
        # The partition epoch changed, so no proposal for an older one can succeed any more.
        self.proposal = None
        self.in_doubt = frozenset()
        self.not_before_ms = NEVER_MS
        self._recount()
        return self.leader in self.stored and self.advance(now_ms)

    def replicas_assigned(self, replicas: Collection[int]) -> None:
        """A reassignment changed the replicas of this partition."""
        for gone in [broker for broker in self.followers if broker not in replicas]:
            del self.followers[gone]
        for broker in replicas:
            if broker != self.leader and broker not in self.followers:
                self.followers[broker] = FollowerProgress()

    def brokers_changed(self, live: Mapping[int, int]) -> None:
        """`live` maps the ids of the brokers that are not fenced to their broker epochs."""
        self.live = live

    def joins_epoch(self, progress: FollowerProgress) -> bool:
        """Whether it has all committed records and all records before this leadership, on which the logs may still
        disagree.
        """
        return progress.log_end >= self.high_watermark and progress.log_end >= self.epoch_start

    def is_current(self, follower: int, progress: FollowerProgress) -> bool:
        """Whether its fetches have the broker epoch of the registration that is alive now."""
        return self.live.get(follower) == progress.broker_epoch or (
            follower in self.live and progress.broker_epoch == UNKNOWN_BROKER_EPOCH
        )

    def _ready_to_join(self) -> frozenset[int]:
        return frozenset(
            broker
            for broker, progress in self.followers.items()
            if broker not in self.stored and self.joins_epoch(progress) and self.is_current(broker, progress)
        )

    def _is_joining(self, broker: int, progress: FollowerProgress, now_ms: int) -> bool:
        """Whether it is about to join. Under load the high watermark must wait for a follower that is always slightly
        behind.
        """
        return (
            now_ms - progress.caught_up_at_ms <= self.max_lag_ms
            and broker not in self.stored
            and self.is_current(broker, progress)
        )

    def _slow(self, now_ms: int) -> frozenset[int]:
        return frozenset(
            broker
            for broker, progress in self.followers.items()
            if broker in self.stored
            and progress.log_end != self.log_end
            and now_ms - progress.caught_up_at_ms > self.max_lag_ms
        )

    def _epoch_of(self, broker: int) -> int:
        return self.broker_epoch if broker == self.leader else self.followers[broker].broker_epoch

    def _recount(self) -> None:
        self.counted = self.stored | self.in_doubt
