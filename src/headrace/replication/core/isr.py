"""In-sync replicas of one partition as its leader sees them, and the high watermark that follows from them.

Owns: what each follower holds, which followers count towards a commit, what the controller is asked to store.

The easy way is to drop a slow follower from the set and move the high watermark at once. It loses data: until the store
has taken the smaller set, an election may still pick the dropped follower, which does not hold what was just
acknowledged. So a shrink counts only when it is stored, and a growth counts from the moment it is asked for:

    counted        = stored set  ∪  every addition that may have reached the store     (the maximal ISR)
    high watermark = min log end over counted, and over followers about to join
                     frozen while |stored set| < min.insync.replicas

Whether a proposal reached the store is known only when the partition epoch moves past the one it was made against:
the store takes a proposal only against that very epoch. Until then a proposal whose answer was lost stays *in doubt*
and its additions stay counted. When one is refused although an earlier copy of it is in doubt, the stored set itself
is proposed, which moves the epoch and so kills every late copy.

A follower joins only when it holds everything below the high watermark and everything before this leader's first
offset, under the broker epoch by which the cluster knows it now (KIP-903: a rebooted broker is not the one that was
in sync).

A leader that nobody hears. Parted from all its followers while the store sees everybody, a leader ends up alone in a
set that is too small to commit, and nothing would be written until the network is mended. When enough followers live
and not one of them has fetched anything from this broker for as long as a slow one is waited for, it is this leader
that is cut off: it proposes the set without itself, which is empty, and the controller elects one of the eligible.
Nothing committed is at stake: below min.insync.replicas nothing was.

Invariants: the leader is in the stored set whenever it commits (asserted); the high watermark never goes back and never
passes what a counted replica holds. Mirrors Kafka's Partition (KIP-497, KIP-903, KIP-966); time and log ends are
arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from headrace.kernel.dataclass import dataclass

NEVER_MS: Final = -(1 << 62)
UNKNOWN_END: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
# After a refusal the image is usually on its way with the reason; asking again at once would only be refused again.
REFUSAL_PAUSE_MS: Final = 250


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """Ask the controller to store this set, if the partition is still at `partition_epoch`."""

    members: tuple[tuple[int, int], ...]  # (broker id, broker epoch as its fetches carry it, -1 when it never fetched)
    leader_epoch: int
    partition_epoch: int

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(broker for broker, _ in self.members)


@dataclass(slots=True)
class FollowerProgress:
    """What one follower's fetches have told this leader."""

    log_end: int = UNKNOWN_END
    log_start: int = 0
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    caught_up_at_ms: int = NEVER_MS
    fetched_at_ms: int = NEVER_MS
    leader_end_at_fetch: int = 0
    # Of an earlier stay in the set: told to whoever asks since when it is out, and counts for nothing else.
    was_caught_up_at_ms: int = NEVER_MS

    @property
    def last_caught_up_ms(self) -> int:
        return max(self.caught_up_at_ms, self.was_caught_up_at_ms)


class InSyncReplicas:
    """One leadership: made when a broker starts to lead in an epoch, dropped when it stops."""

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
        # Members start with a fresh clock: they were in sync when the last leader went, and get the full time to show
        # up.
        self.followers = {
            broker: FollowerProgress(caught_up_at_ms=now_ms if broker in self.stored else NEVER_MS)
            for broker in replicas
            if broker != leader
        }
        self.advance(now_ms)

    # ---- facts from the data path -------------------------------------------------------------------------------

    def appended(self, log_end: int, now_ms: int) -> bool:
        """The leader's own log grew. True when the high watermark moved."""
        before, self.log_end = self.log_end, log_end
        if not self.followers:
            if not self.stored:
                return False
            self.high_watermark = log_end
            return True
        for broker, progress in self.followers.items():
            # A member that held everything until now was in sync until now, however long ago it last asked.
            if progress.log_end >= before and broker in self.stored and progress.caught_up_at_ms < now_ms:
                progress.caught_up_at_ms = now_ms
        # With followers in the set nothing can move before they fetch.
        return len(self.counted) == 1 and self.advance(now_ms)

    def knows(self, follower: int, broker_epoch: int) -> bool:
        """Whether a fetch of this follower may count: an assigned replica, and not a broker that has since rebooted."""
        progress = self.followers.get(follower)
        if progress is None:
            return False
        if broker_epoch == UNKNOWN_BROKER_EPOCH:
            return True
        return broker_epoch >= progress.broker_epoch and broker_epoch >= self.live.get(follower, UNKNOWN_BROKER_EPOCH)

    def fetched(self, follower: int, broker_epoch: int, offset: int, log_start: int, now_ms: int) -> bool:
        """A follower asks for records from `offset` and agrees with our log below it. True when the mark moved."""
        progress = self.followers[follower]
        if offset >= self.log_end:
            progress.caught_up_at_ms = max(progress.caught_up_at_ms, now_ms)
        elif offset >= progress.leader_end_at_fetch:
            # It now holds all that there was when it last asked: it was caught up at that moment.
            progress.caught_up_at_ms = max(progress.caught_up_at_ms, progress.fetched_at_ms)
        progress.log_end = offset
        progress.log_start = log_start
        progress.broker_epoch = broker_epoch
        progress.leader_end_at_fetch = self.log_end
        progress.fetched_at_ms = now_ms
        return self.advance(now_ms)

    def advance(self, now_ms: int) -> bool:
        """Move the high watermark as far as the counted replicas allow. True when it moved."""
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
        """min.insync.replicas, but never more than there are replicas (as Kafka has it)."""
        return min(self.min_insync, len(self.followers) + 1)

    @property
    def has_enough_replicas(self) -> bool:
        # As `effective_min_insync` says; asked with every write, so said in one breath.
        count = len(self.stored)
        return count >= self.min_insync or count > len(self.followers)

    # ---- membership ---------------------------------------------------------------------------------------------

    def propose(self, now_ms: int) -> IsrProposal | None:
        """A change of the set worth asking for now, or None. At most one is under way; it is recorded as asked for."""
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
        """The proposal to go on without this leader, when it is the one that is cut off; see the module head.
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
        """The controller looked at it and said no. Earlier copies of it may still be on their way: see the module
        head.
        """
        if proposal is self.proposal:
            self.proposal = None
            self.not_before_ms = now_ms + REFUSAL_PAUSE_MS

    def undelivered(self, proposal: IsrProposal) -> None:
        """The proposal surely never left this broker, so it leaves no doubt behind."""
        if proposal is self.proposal:
            self.proposal = None
            self.in_doubt = frozenset()
            self._recount()

    def stored_as(self, members: Collection[int], partition_epoch: int, now_ms: int) -> bool:
        """The store holds this set at this epoch. True when the high watermark moved."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        for broker in self.stored.difference(members):
            # Whoever was taken out (its disk failed, or is full) neither holds the mark back nor returns by what it
            # said before: it shows by new fetches that it follows.
            progress = self.followers.get(broker)
            if progress is not None:
                progress.log_end, progress.leader_end_at_fetch = UNKNOWN_END, self.log_end
                progress.was_caught_up_at_ms = progress.last_caught_up_ms
                progress.caught_up_at_ms = progress.fetched_at_ms = NEVER_MS
        self.stored = frozenset(members)
        # The epoch moved, so every proposal made against an older one is dead, whether it was the one that moved it
        # or not.
        self.proposal = None
        self.in_doubt = frozenset()
        self.not_before_ms = NEVER_MS
        self._recount()
        return self.leader in self.stored and self.advance(now_ms)

    def replicas_assigned(self, replicas: Collection[int]) -> None:
        """A reassignment changed who holds this partition."""
        for gone in [broker for broker in self.followers if broker not in replicas]:
            del self.followers[gone]
        for broker in replicas:
            if broker != self.leader and broker not in self.followers:
                self.followers[broker] = FollowerProgress()

    def brokers_changed(self, live: Mapping[int, int]) -> None:
        """Broker id to broker epoch of the brokers that are registered and not fenced."""
        self.live = live

    def joins_epoch(self, progress: FollowerProgress) -> bool:
        """It holds all that is committed, and all that was there before this leader (which it may yet have to agree
        on).
        """
        return progress.log_end >= self.high_watermark and progress.log_end >= self.epoch_start

    def is_current(self, follower: int, progress: FollowerProgress) -> bool:
        """Its fetches come from the very broker that the cluster knows as alive now."""
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
        """About to join: under load the mark must not run away from a follower that is always a little behind."""
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
