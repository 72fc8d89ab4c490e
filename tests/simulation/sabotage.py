"""Mutations that each disable one safety rule. The simulator must find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from headrace.cluster.core.changes import Change
from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.membership import Membership
from headrace.controller import partition_operations, writes
from headrace.controller.core import elections, partition_states
from headrace.controller.core.isr_changes import IsrAnswer, IsrReport
from headrace.controller.leadership import Leadership
from headrace.controller.member import ClusterMember
from headrace.coordination import paths
from headrace.coordination.store import ANY_VERSION, Check, Create, Op
from headrace.handlers.data.changed_partitions import ChangedPartitions
from headrace.handlers.data.fetch_sessions import SessionPartition
from headrace.replication import offset_lookup
from headrace.replication.core.isr import FollowerProgress, InSyncReplicas, IsrProposal
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.replication.replica import PartitionRead, Replica
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.testing.simulation.modes import Modes
from headrace.wire.fetch import FetchedPartition


@contextmanager
def truncation_by_high_watermark() -> Iterator[None]:
    """A new follower truncates its log at its high watermark instead of asking its leader about epochs."""
    follow = Partition._follow

    def cut_and_follow(self: Partition) -> None:
        follow(self)
        self.log.truncate_to(self.log.high_watermark)

    with patch.object(Partition, "_follow", cut_and_follow):
        yield


@contextmanager
def isr_shrink_applied_early() -> Iterator[None]:
    """The leader ignores a leaving follower in the high watermark before the store has the smaller ISR."""
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
    """The high watermark alone decides which replica joins the ISR, although a new leader's high watermark lags."""

    def joins(self: InSyncReplicas, progress: FollowerProgress) -> bool:
        return progress.log_end >= self.high_watermark

    with patch.object(InSyncReplicas, "joins_epoch", joins):
        yield


@contextmanager
def restarted_broker_joins_isr() -> Iterator[None]:
    """Fetches and AlterPartition requests carry no broker epoch: the leader accepts a broker that lost its tail."""
    with (
        patch.object(InSyncReplicas, "is_current", lambda self, follower, progress: follower in self.live),
        patch.object(InSyncReplicas, "knows", lambda self, follower, broker_epoch: follower in self.followers),
        patch.object(InSyncReplicas, "_epoch_of", lambda self, broker: -1),
    ):
        yield


@contextmanager
def zombie_controller_writes() -> Iterator[None]:
    """A controller does not notice that its session ended, and nothing fences its writes: neither its epoch nor
    the version that they create. (Each of the three is enough by itself.)"""

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
    """A broker that cannot reach the store continues to acknowledge and to serve."""
    with patch.object(ClusterMember, "lease_held", lambda self: True):
        yield


@contextmanager
def restarted_leader_keeps_its_epoch() -> Iterator[None]:
    """A leader that returns leads in the epoch it had before it lost records."""
    settle = elections.settle  # type: ignore[attr-defined]

    def forgetful(*args: Any, **options: Any) -> Any:
        return settle(*args, **{**options, "restarted": frozenset()})

    with patch.object(elections, "settle", forgetful):
        yield


@contextmanager
def high_watermark_not_frozen() -> Iterator[None]:
    """The high watermark advances while fewer than min.insync.replicas are in sync, so eligible leader replicas
    fall behind it.
    """

    def advance(self: InSyncReplicas, now_ms: int) -> bool:
        with patch.object(InSyncReplicas, "effective_min_insync", property(lambda self: 1)):
            return real_advance(self, now_ms)

    real_advance = InSyncReplicas.advance
    with patch.object(InSyncReplicas, "advance", advance):
        yield


@contextmanager
def session_assumes_delivery() -> Iterator[None]:
    """The leader assumes that the follower got data sent with a divergence, or before a change of leader."""
    tell, update = SessionPartition.tell, SessionPartition.update

    def told(self: SessionPartition, fetched: FetchedPartition) -> bool:
        must = tell(self, fetched)
        if must and fetched.diverging is not None:
            self.told_high_watermark = fetched.high_watermark
        return must

    def updated(self: SessionPartition, partition: Any) -> None:
        mark = self.told_high_watermark
        update(self, partition)
        self.told_high_watermark = mark

    with patch.object(SessionPartition, "tell", told), patch.object(SessionPartition, "update", updated):
        yield


@contextmanager
def session_omits_new_records() -> Iterator[None]:
    """A quiet partition stays quiet: notifications of new records and high watermarks are ignored."""
    with (
        patch.object(ChangedPartitions, "_grew", lambda self, key, size: True),
        patch.object(ChangedPartitions, "take", lambda self, keys, now_ms: take(self)),
    ):
        yield


def take(news: ChangedPartitions) -> list[Any]:
    fresh, news._fresh = news._fresh, {}
    return list(fresh)


@contextmanager
def eligible_although_others_commit() -> Iterator[None]:
    """min.insync.replicas is lowered, and the eligible leader replicas stay unchanged."""
    with patch.object(elections, "min_insync_changed", lambda *_: elections.ElectionResult()):
        yield


@contextmanager
def latest_offset_before_the_high_watermark() -> Iterator[None]:
    """A new leader returns its high watermark as the log end offset, although more records were acknowledged
    (KIP-207).
    """
    with patch.object(offset_lookup, "check_latest_offset_known", lambda *_: None):
        yield


@contextmanager
def unclean_start_forgotten() -> Iterator[None]:
    """A registered broker reports itself as clean before a controller has processed its start."""
    register = Membership._register

    async def register_and_forget(self: Membership) -> None:
        await register(self)
        self._clean = True

    with patch.object(Membership, "_register", register_and_forget):
        yield


@contextmanager
def eligible_after_an_unclean_stop() -> Iterator[None]:
    """A broker that may have lost its tail stays an eligible leader replica."""
    settle = elections.settle  # type: ignore[attr-defined]

    def trusting(*args: Any, **options: Any) -> Any:
        return settle(*args, **{**options, "restarted_uncleanly": frozenset()})

    with patch.object(elections, "settle", trusting):
        yield


@contextmanager
def eligible_after_commits_without_it() -> Iterator[None]:
    """Eligible leader replicas stay eligible after others have committed without them."""
    track = partition_states._track_eligible

    def keep(info: PartitionInfo, target: PartitionInfo, min_insync: int, lost: frozenset[int]) -> PartitionInfo:
        return track(info, target, len(target.replicas) + 1 if info.eligible else min_insync, lost)

    def enough(info: PartitionInfo, target: PartitionInfo, min_insync: int, lost: frozenset[int]) -> PartitionInfo:
        tracked = keep(info, target, min_insync, lost)
        kept = tuple(r for r in info.eligible if r not in target.isr and r not in lost and r in target.replicas)
        return replace(tracked, eligible=kept) if info.eligible else tracked

    with patch.object(partition_states, "_track_eligible", enough):
        yield


@contextmanager
def log_of_an_older_topic() -> Iterator[None]:
    """A broker uses a log on disk for any topic of its name."""

    def open_log(self: Partitions, topic: TopicInfo, index: int, config: LogConfig, why_missing: str | None) -> Log:
        log = self._logs.log(topic.name, index)
        return log if log is not None else self._logs.create(topic.name, index, topic.id, config)

    with patch.object(Partitions, "_open_log", open_log):
        yield


@contextmanager
def isr_members_without_broker_epochs() -> Iterator[None]:
    """The controller does not compare the broker epochs in an AlterPartition request with the registered ones."""
    decide = partition_operations.decide_isr  # type: ignore[attr-defined]

    def decide_by_id(image: ClusterImage, sender: int, report: IsrReport, rules_of: Any) -> IsrAnswer:
        return decide(image, sender, replace(report, members=[(broker, -1) for broker, _ in report.members]), rules_of)

    with patch.object(partition_operations, "decide_isr", decide_by_id):
        yield


@contextmanager
def followers_return_uncommitted_records() -> Iterator[None]:
    """A follower that serves consumers returns all its records, not only committed ones (KIP-392)."""
    read = Replica.read_for_consumer

    def read_all(self: Replica, offset: int, max_bytes: int, isolation: int, min_one: bool) -> PartitionRead:
        if self.is_leader or offset > self.log.log_end_offset:
            return read(self, offset, max_bytes, isolation, min_one)
        found = self.log.read(offset, max_bytes)
        return PartitionRead(found, self.log.high_watermark, self.log.high_watermark, self.log.log_start_offset)

    with patch.object(Replica, "read_for_consumer", read_all):
        yield


@contextmanager
def acts_on_any_image() -> Iterator[None]:
    """A broker leads as an image says, even if the image has an earlier registration of this broker."""
    apply = Partitions.apply

    def apply_all(self: Partitions, image: ClusterImage) -> None:
        known, own = image.brokers.get(self.broker_id), self.broker_epoch
        self.broker_epoch = own if known is None else known.epoch
        apply(self, image)
        self.broker_epoch = own

    with patch.object(Partitions, "apply", apply_all):
        yield


@contextmanager
def reassigned_before_in_sync() -> Iterator[None]:
    """A reassignment ends before the added replicas are in sync."""
    complete = partition_states._complete_reassignment

    def complete_early(target: PartitionInfo) -> PartitionInfo:
        if not set(target.isr) - set(target.removing):
            return complete(replace(target, isr=(*target.isr, *(r for r in target.adding if r not in target.isr))))
        return complete(target)

    with patch.object(partition_states, "_complete_reassignment", complete_early):
        yield


@contextmanager
def bounced_broker_stays_in_sync() -> Iterator[None]:
    """The controller does not notice that a broker was gone for a moment."""
    settle_all = elections._settle_all

    def forgiving(after: Any, decided: Any, left: Any, back: Any, unclean: Any, rules_of: Any) -> None:
        settle_all(after, decided, left, frozenset(), frozenset(), rules_of)

    with patch.object(elections, "_settle_all", forgiving):
        yield


@dataclass(frozen=True)
class Sabotage:
    rule: Callable[[], AbstractContextManager[None]]
    first_seed: int  # the first seed that finds it; the test starts there
    modes: Modes | None = None  # properties that a run must have; otherwise the seed decides


SABOTAGES = (
    Sabotage(truncation_by_high_watermark, 15),
    Sabotage(isr_shrink_applied_early, 0),
    Sabotage(join_below_epoch_start, 29),
    Sabotage(restarted_broker_joins_isr, 75),
    Sabotage(zombie_controller_writes, 30),
    Sabotage(acknowledged_after_the_lease, 4),
    Sabotage(restarted_leader_keeps_its_epoch, 25),
    Sabotage(high_watermark_not_frozen, 0),
    Sabotage(session_assumes_delivery, 106),
    Sabotage(session_omits_new_records, 0),
    Sabotage(eligible_although_others_commit, 10, Modes(moves_settings=True)),
    Sabotage(latest_offset_before_the_high_watermark, 3),
    Sabotage(unclean_start_forgotten, 49),
    Sabotage(eligible_after_an_unclean_stop, 1),
    Sabotage(eligible_after_commits_without_it, 0),
    Sabotage(log_of_an_older_topic, 11),
    Sabotage(isr_members_without_broker_epochs, 75),
    Sabotage(followers_return_uncommitted_records, 1),
    Sabotage(acts_on_any_image, 24),
    Sabotage(reassigned_before_in_sync, 1),
    Sabotage(bounced_broker_stays_in_sync, 1),
)
