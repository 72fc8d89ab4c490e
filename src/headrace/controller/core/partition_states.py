"""State transitions of one partition: `settle` is the only one, for every reason.

A caller gives the next in-sync set (a broker died, a leader reports, a reassignment ends) and gets the whole next
state: reassignment completed if possible, eligible replicas kept, leader kept or elected, epochs raised.

Eligible leader replicas (KIP-966). The high watermark does not advance while fewer than min.insync.replicas are in
sync. So a replica that leaves the ISR while the ISR is below that size holds every committed record, and may lead later
without loss. A replica that restarted uncleanly may have lost the end of its log and is not eligible. The ISR may
become empty. Then only an eligible replica may lead. If there is none, the last known leader may lead once it is back
(no replica holds more), or any replica if unclean election is allowed; both are marked as unclean.

Replicas with a loss (`cluster/core/losses.py`) are neither in sync nor eligible, and no last known leader. A setting
that allows unclean elections allows a leader that lags, not one that lost its log: a person must ask for that election.
It takes the replica that lacks least, and never one whose log directory is offline.

Invariants (asserted): a leader is in the ISR; ISR and eligible are disjoint parts of the replicas; epochs never go
back. Mirrors Kafka's PartitionChangeBuilder; differs: the ISR comes before the eligible replicas in an election.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import Enum

from headrace.cluster.core.image import NO_LEADER, PartitionInfo
from headrace.cluster.core.losses import Loss
from headrace.kernel.dataclass import dataclass


class Election(Enum):
    NEEDED = "keep the leader if it may lead, else elect one"
    PREFERRED = "give leadership to the first replica if it may have it"
    UNCLEAN = "as NEEDED, and any live replica if no other may lead"


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """Cluster state that `settle` needs."""

    can_lead: Callable[[int], bool]
    min_insync: int = 1
    unclean_allowed: bool = False
    # Whether a stopping leader, which may not be elected, can still keep its leadership.
    may_stay: Callable[[int], bool] = lambda _: False
    # Replicas of this partition that lack records. A replica in the ISR has fetched them again.
    losses: Mapping[int, Loss] = field(default_factory=dict)

    def loss_of(self, replica: int) -> Loss:
        return self.losses.get(replica, Loss.NONE)


@dataclass(frozen=True, slots=True)
class PartitionDecision:
    info: PartitionInfo
    unclean: bool = False  # the new leader may lack committed records
    from_last_known: bool = False  # no replica was eligible: the last known leader returned


def settle(
    info: PartitionInfo,
    rules: ElectionRules,
    *,
    isr: Iterable[int] | None = None,
    restarted: frozenset[int] = frozenset(),
    restarted_uncleanly: frozenset[int] = frozenset(),
    election: Election = Election.NEEDED,
    replicas: tuple[int, ...] | None = None,
    adding: tuple[int, ...] | None = None,
    removing: tuple[int, ...] | None = None,
) -> PartitionDecision | None:
    """The next state, or None if it is unchanged."""
    target = replace(
        info,
        isr=info.isr if isr is None else tuple(isr),
        replicas=info.replicas if replicas is None else replicas,
        adding=info.adding if adding is None else adding,
        removing=info.removing if removing is None else removing,
    )
    target = _complete_reassignment(target)
    target = _track_eligible(info, target, rules.min_insync, restarted_uncleanly.union(rules.losses))
    settled = _elect(info, target, rules, election)
    final = settled.info
    # A restarted leader gets a new epoch: it may have lost records, and new ones must not look like those.
    moved = final.leader != info.leader or final.leader in restarted
    if final == info and not moved:
        return None
    shrunk = not set(info.replicas) <= set(final.replicas)
    # A new epoch makes every replica reconcile its log with the leader's; a removed replica must stop fetching.
    final = replace(
        final,
        leader_epoch=info.leader_epoch + 1 if moved or shrunk else info.leader_epoch,
        partition_epoch=info.partition_epoch + 1,
    )
    _assert_sound(final)
    return PartitionDecision(final, settled.unclean, settled.from_last_known)


def _complete_reassignment(target: PartitionInfo) -> PartitionInfo:
    """A reassignment is complete when every added replica is in sync and an in-sync replica stays."""
    if not target.is_reassigning or not set(target.adding) <= set(target.isr):
        return target
    staying = tuple(r for r in target.replicas if r not in target.removing)
    in_sync = tuple(r for r in target.isr if r not in target.removing)
    if not in_sync or not staying:
        return target
    return replace(
        target,
        replicas=staying,
        isr=in_sync,
        adding=(),
        removing=(),
        eligible=tuple(r for r in target.eligible if r in staying),
        last_known_eligible=tuple(r for r in target.last_known_eligible if r in staying),
    )


def _track_eligible(info: PartitionInfo, target: PartitionInfo, min_insync: int, lost: frozenset[int]) -> PartitionInfo:
    if len(target.isr) >= min(min_insync, len(target.replicas)) and target.isr:
        return replace(target, eligible=(), last_known_eligible=())
    candidates = dict.fromkeys((*target.eligible, *info.isr))
    eligible = tuple(r for r in candidates if r not in target.isr and r not in lost and r in target.replicas)
    last_known = target.last_known_eligible
    if not target.isr and info.leader != NO_LEADER:
        last_known = (info.leader,)
    elif not target.isr and info.isr:
        last_known = info.isr[:1]  # no leader any more, but an in-sync replica holds as much as the last leader did
    last_known = tuple(r for r in last_known if r in target.replicas)
    return replace(target, eligible=eligible, last_known_eligible=last_known)


def _elect(info: PartitionInfo, target: PartitionInfo, rules: ElectionRules, election: Election) -> PartitionDecision:
    def may_lead(replica: int) -> bool:
        return replica in target.isr and rules.can_lead(replica)

    staying = [r for r in target.replicas if r not in target.removing]
    order = [*staying, *(r for r in target.replicas if r in target.removing)]
    preferred = order[0] if order else NO_LEADER
    if election is Election.PREFERRED and may_lead(preferred):
        return PartitionDecision(replace(target, leader=preferred))
    if info.leader in target.replicas and may_lead(info.leader):
        return PartitionDecision(replace(target, leader=info.leader))
    for replica in order:
        if may_lead(replica):
            return PartitionDecision(replace(target, leader=replica))
    for replica in order:
        if replica in target.eligible and rules.can_lead(replica):
            return PartitionDecision(_led_alone(target, replica, rules.min_insync))
    if info.leader in target.isr and rules.may_stay(info.leader):
        return PartitionDecision(replace(target, leader=info.leader))
    last_known = [r for r in target.last_known_eligible[:1] if rules.can_lead(r) and rules.loss_of(r) is Loss.NONE]
    if not target.isr and not target.eligible and last_known:
        return PartitionDecision(_led_alone(target, last_known[0], rules.min_insync), from_last_known=True)
    if election is Election.UNCLEAN or rules.unclean_allowed:
        # A replica that a reassignment adds has no log yet.
        losses = dict.fromkeys(target.adding, Loss.MISSING) | dict(rules.losses)
        worst = Loss.MISSING if election is Election.UNCLEAN else Loss.NONE
        able = [r for r in order if rules.can_lead(r) and losses.get(r, Loss.NONE) <= worst]
        if able:
            leader = min(able, key=lambda r: losses.get(r, Loss.NONE))  # the first of those that lack least
            alone = replace(target, leader=leader, isr=(leader,), eligible=(), last_known_eligible=())
            return PartitionDecision(alone, unclean=True)
    return PartitionDecision(replace(target, leader=NO_LEADER))


def _led_alone(target: PartitionInfo, leader: int, min_insync: int) -> PartitionInfo:
    """A leader from outside the ISR starts a new ISR. While that is too small to commit, replicas that were eligible or
    in sync still hold all committed records. If one replica is enough, the leader commits without them."""
    commits_alone = min(min_insync, len(target.replicas)) <= 1
    others = () if commits_alone else dict.fromkeys((*target.isr, *target.eligible))
    return replace(
        target,
        leader=leader,
        isr=(leader,),
        eligible=tuple(r for r in others if r != leader),
        last_known_eligible=(),
    )


def _assert_sound(info: PartitionInfo) -> None:
    assert info.leader == NO_LEADER or info.leader in info.isr, info
    assert set(info.isr) <= set(info.replicas), info
    assert set(info.eligible) <= set(info.replicas), info
    assert not set(info.isr) & set(info.eligible), info
    assert len(set(info.replicas)) == len(info.replicas) > 0, info
