"""Each rule that keeps data, switched off by itself: what the simulator must then find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from headrace.cluster.core.changes import Change
from headrace.cluster.core.image import ClusterImage
from headrace.controller import writes
from headrace.controller.core import elections
from headrace.controller.leadership import Leadership
from headrace.controller.member import ClusterMember
from headrace.coordination import paths
from headrace.coordination.store import ANY_VERSION, Check, Create, Op
from headrace.handlers.fetch_sessions import Wanted
from headrace.handlers.session_news import SessionNews
from headrace.replication.core.isr import FollowerProgress, InSyncReplicas, IsrProposal
from headrace.replication.partition import Partition
from headrace.testing.simulation.modes import Modes
from headrace.wire.fetch import FetchedPartition


@contextmanager
def truncation_by_high_watermark() -> Iterator[None]:
    """A new follower cuts its log at its high watermark instead of asking its leader about epochs."""
    follow = Partition._follow

    def cut_and_follow(self: Partition) -> None:
        follow(self)
        self.log.truncate_to(self.log.high_watermark)

    with patch.object(Partition, "_follow", cut_and_follow):
        yield


@contextmanager
def shrink_counted_early() -> Iterator[None]:
    """A follower that is about to leave the set no longer holds the mark back, though the store has not heard of it."""
    propose = InSyncReplicas.propose

    def propose_and_believe(self: InSyncReplicas, now_ms: int) -> IsrProposal | None:
        proposal = propose(self, now_ms)
        if proposal is not None:
            self.counted = proposal.ids
        return proposal

    with patch.object(InSyncReplicas, "propose", propose_and_believe):
        yield


@contextmanager
def join_below_epoch_start() -> Iterator[None]:
    """The high watermark alone decides who joins, though a new leader's mark lags behind what was acknowledged."""

    def joins(self: InSyncReplicas, progress: FollowerProgress) -> bool:
        return progress.log_end >= self.high_watermark

    with patch.object(InSyncReplicas, "joins_epoch", joins):
        yield


@contextmanager
def rebooted_broker_added() -> Iterator[None]:
    """Fetches and proposals carry no broker epoch: a broker that lost its tail passes for the one it was."""
    with (
        patch.object(InSyncReplicas, "is_current", lambda self, follower, progress: follower in self.live),
        patch.object(InSyncReplicas, "knows", lambda self, follower, broker_epoch: follower in self.followers),
        patch.object(InSyncReplicas, "_epoch_of", lambda self, broker: -1),
    ):
        yield


@contextmanager
def zombie_controller_writes() -> Iterator[None]:
    """A controller does not notice that its session ended, and nothing fences its writes: neither its epoch nor the
    version that they make. (Each of the three holds by itself.)"""

    def version_ops(changes: Sequence[Change], after: ClusterImage) -> list[Op]:
        head = {"version": after.version, "controller": after.controller_id, "controller_epoch": after.controller_epoch}
        ops = real_version_ops(changes, after)
        return [op if not isinstance(op, Create) else Create(f"{op.path}-{head['controller']}", op.data) for op in ops]

    real_version_ops = writes.version_ops
    with (
        patch.object(writes, "fence", lambda version: Check(paths.CONTROLLER_EPOCH, ANY_VERSION)),
        patch.object(writes, "version_ops", version_ops),
        patch.object(Leadership, "_session_changed", lambda self, event: self._hint.set()),
    ):
        yield


@contextmanager
def acknowledged_after_the_lease() -> Iterator[None]:
    """A broker that cannot reach the store goes on acknowledging and serving."""
    with patch.object(ClusterMember, "lease_held", lambda self: True):
        yield


@contextmanager
def restarted_leader_keeps_its_epoch() -> Iterator[None]:
    """A leader that came back leads on in the epoch it had before it lost records."""
    settle = elections.settle

    def forgetful(*args: Any, **options: Any) -> Any:
        return settle(*args, **{**options, "restarted": frozenset()})

    with patch.object(elections, "settle", forgetful):
        yield


@contextmanager
def mark_not_frozen() -> Iterator[None]:
    """The high watermark moves on while fewer than min.insync.replicas are in sync, so eligible replicas fall behind
    it.
    """

    def advance(self: InSyncReplicas, now_ms: int) -> bool:
        with patch.object(InSyncReplicas, "effective_min_insync", property(lambda self: 1)):
            return real_advance(self, now_ms)

    real_advance = InSyncReplicas.advance
    with patch.object(InSyncReplicas, "advance", advance):
        yield


@contextmanager
def session_believes_it_was_heard() -> Iterator[None]:
    """What was said beside a divergence, or before a change of leaders, counts as heard by the follower."""
    tell, update = Wanted.tell, Wanted.update

    def told(self: Wanted, fetched: FetchedPartition) -> bool:
        must = tell(self, fetched)
        if must and fetched.diverging is not None:
            self.told_high_watermark = fetched.high_watermark
        return must

    def updated(self: Wanted, partition: Any) -> None:
        mark = self.told_high_watermark
        update(self, partition)
        self.told_high_watermark = mark

    with patch.object(Wanted, "tell", told), patch.object(Wanted, "update", updated):
        yield


@contextmanager
def session_forgets_to_tell() -> Iterator[None]:
    """A partition that is quiet stays so: what its watch says of new records and marks is not heard."""
    with (
        patch.object(SessionNews, "_grew", lambda self, key, size: True),
        patch.object(SessionNews, "take", lambda self, keys, now_ms: take(self)),
    ):
        yield


def take(news: SessionNews) -> list[Any]:
    fresh, news._fresh = news._fresh, {}
    return list(fresh)


@contextmanager
def eligible_although_others_commit() -> Iterator[None]:
    """min.insync.replicas is lowered, and whoever may lead without being in sync stays as it was."""
    with patch.object(elections, "min_insync_changed", lambda *_: elections.Decided()):
        yield


@dataclass(frozen=True)
class Sabotage:
    rule: Callable[[], AbstractContextManager[None]]
    first_seed: int  # the first seed that finds it; the test starts there
    modes: Modes | None = None  # what a run must have for it; drawn from the seed otherwise


SABOTAGES = (
    Sabotage(truncation_by_high_watermark, 8),
    Sabotage(shrink_counted_early, 0),
    Sabotage(join_below_epoch_start, 156),
    Sabotage(rebooted_broker_added, 12),
    Sabotage(zombie_controller_writes, 24),
    Sabotage(acknowledged_after_the_lease, 10),
    Sabotage(restarted_leader_keeps_its_epoch, 18),
    Sabotage(mark_not_frozen, 29),
    Sabotage(session_believes_it_was_heard, 64),
    Sabotage(session_forgets_to_tell, 0),
    Sabotage(eligible_although_others_commit, 16, Modes(moves_settings=True)),
)
