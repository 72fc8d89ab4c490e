"""Elections: which partitions change when brokers start, stop or die, on request, and when leadership is uneven.

Each function decides over a whole image and returns changes; `partition_states.settle` decides each partition. A broker
with a new epoch has restarted. It leaves every ISR before any election, because it may have lost the end of its logs.
After an unclean start it is no longer an eligible leader replica either. Its registration names the replicas that lack
records (`cluster/core/losses.py`); they are not elected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from headrace.cluster.core.changes import BrokerRegistered, Change, PartitionChanged, apply
from headrace.cluster.core.image import NO_LEADER, BrokerInfo, ClusterImage, PartitionInfo
from headrace.cluster.core.losses import Loss, ReplicaLosses
from headrace.controller.core.partition_states import Election, ElectionRules, PartitionDecision, settle
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The two topic settings that elections depend on."""

    min_insync: int = 1
    unclean_allowed: bool = False


RulesOf = Callable[[str], TopicRules]


@dataclass(slots=True)
class ElectionResult:
    """Changes in order, and the elections that an operator should know of."""

    changes: list[Change] = field(default_factory=list)
    unclean: list[TopicPartition] = field(default_factory=list)
    from_last_known: list[TopicPartition] = field(default_factory=list)

    def add(self, topic: str, index: int, settled: PartitionDecision | None) -> None:
        if settled is None:
            return
        self.changes.append(PartitionChanged(topic, index, settled.info))
        if settled.unclean:
            self.unclean.append(TopicPartition(topic, index))
        if settled.from_last_known:
            self.from_last_known.append(TopicPartition(topic, index))


def may_lead(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.shutting_down


def rules_for(image: ClusterImage, topic: str, index: int, rules: TopicRules) -> ElectionRules:
    """The rules for one partition of the topic."""
    return _with_losses(_rules_of_topic(image, rules), image, topic, index)


def _rules_of_topic(image: ClusterImage, rules: TopicRules) -> ElectionRules:
    return ElectionRules(
        lambda broker_id: may_lead(image, broker_id), rules.min_insync, rules.unclean_allowed, may_stay=image.is_alive
    )


def _with_losses(rules: ElectionRules, image: ClusterImage, topic: str, index: int) -> ElectionRules:
    losses = image.losses_of(topic, index)
    return replace(rules, losses=losses) if losses else rules


def membership_changed(
    image: ClusterImage, present: Mapping[int, tuple[BrokerInfo, bool]], rules_of: RulesOf
) -> ElectionResult:
    """`present`: the registrations that exist now, each with whether it started cleanly. Compared with the
    accepted registrations.
    """
    decided = ElectionResult()
    left = {broker_id for broker_id in image.brokers if broker_id not in present}
    back: set[int] = set()
    unclean: set[int] = set()
    for broker_id, (broker, clean) in present.items():
        known = image.brokers.get(broker_id)
        if known is not None and known.epoch == broker.epoch:
            continue
        back.add(broker_id)
        if not clean:
            unclean.add(broker_id)
        decided.changes.append(BrokerRegistered(broker))
    # They stay registered: a broker that restarts is still counted when replicas are placed.
    away = (replace(image.brokers[broker_id], fenced=True, shutting_down=False) for broker_id in sorted(left))
    decided.changes.extend(map(BrokerRegistered, away))
    if not decided.changes:
        return decided
    # Registrations come last: a list too long for one write is stored in parts, and a broker leads as soon as the image
    # contains its registration.
    registrations, decided.changes = decided.changes, []
    after = apply(image, registrations, image.version)
    _settle_all(after, decided, left, frozenset(back), frozenset(unclean), rules_of)
    decided.changes += registrations
    return decided


def shutting_down(image: ClusterImage, broker_id: int, rules_of: RulesOf) -> ElectionResult:
    """A broker loses its leadership and its places in the ISR before it stops. It stays reachable meanwhile."""
    broker = image.brokers[broker_id]
    decided = ElectionResult()
    if not broker.shutting_down:
        leaving = replace(broker, shutting_down=True)
        decided.changes.append(BrokerRegistered(leaving))
    after = apply(image, decided.changes, image.version)
    for name, index, info in image.partitions():
        # A partition without another possible leader keeps its leader until the broker stops.
        others = [r for r in (*info.isr, *info.eligible) if r != broker_id and may_lead(after, r)]
        if broker_id in info.isr and others:
            isr = [r for r in info.isr if r != broker_id]
            decided.add(name, index, settle(info, rules_for(after, name, index, rules_of(name)), isr=isr))
    return decided


def leads_movable(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker still leads a partition that another live replica could take."""
    return any(
        info.leader == broker_id and any(r != broker_id and may_lead(image, r) for r in (*info.isr, *info.eligible))
        for _, _, info in image.partitions()
    )


def losses_reported(image: ClusterImage, broker_id: int, losses: ReplicaLosses, rules_of: RulesOf) -> ElectionResult:
    """A live broker reports everything that it lacks now: a disk failed, or replicas have their records again. Replicas
    that lack records leave ISR and eligibility. One whose log was created again leaves neither: the report may arrive
    after it has fetched the records. A loss that has ended may allow an election."""
    decided = ElectionResult()
    broker = image.brokers[broker_id]
    if losses == broker.losses:
        return decided
    registered = BrokerRegistered(replace(broker, losses=losses))
    after = apply(image, [registered], image.version)
    before = broker.losses.missing | broker.losses.incomplete
    new = losses.missing | (losses.incomplete - before)
    for topic_id, index in sorted(new | before - losses.incomplete):
        topic = image.topic_by_id(topic_id)
        info = None if topic is None else image.partition(topic.name, index)
        if topic is None or info is None or broker_id not in info.replicas:
            continue
        rules = rules_for(after, topic.name, index, rules_of(topic.name))
        if (topic_id, index) in new:
            decided.add(topic.name, index, settle(info, rules, isr=[r for r in info.isr if r != broker_id]))
        elif info.leader == NO_LEADER:
            decided.add(topic.name, index, settle(info, rules))
    decided.changes.append(registered)
    return decided


def replicas_full(
    image: ClusterImage, broker_id: int, full: Iterable[TopicPartition], rules_of: RulesOf
) -> ElectionResult:
    """A disk of a live broker is full: these replicas leave the ISR if another replica in it can lead, so that writes
    continue without them. They lost no data, so they stay eligible, and return by catching up."""
    decided = ElectionResult()
    for name, index in full:
        info = image.partition(name, index)
        others = [] if info is None else [r for r in info.isr if r != broker_id and may_lead(image, r)]
        if info is None or broker_id not in info.isr or not others:
            continue
        topic = rules_of(name)
        rules = ElectionRules(lambda r: r != broker_id and may_lead(image, r), topic.min_insync, topic.unclean_allowed)
        decided.add(name, index, settle(info, rules, isr=[r for r in info.isr if r != broker_id]))
    return decided


def _settle_all(
    after: ClusterImage,
    decided: ElectionResult,
    left: set[int],
    back: frozenset[int],
    unclean: frozenset[int],
    rules_of: RulesOf,
) -> None:
    affected = left | back
    for topic in after.topics.values():
        topic_rules: ElectionRules | None = None
        for index, info in enumerate(topic.partitions):
            if affected.isdisjoint(info.replicas):
                continue
            if topic_rules is None:
                topic_rules = _rules_of_topic(after, rules_of(topic.name))
            rules = _with_losses(topic_rules, after, topic.name, index)
            isr = [replica for replica in info.isr if replica not in affected]
            settled = settle(info, rules, isr=isr, restarted=back, restarted_uncleanly=unclean)
            decided.add(topic.name, index, settled)


def unclean_election_allowed(
    image: ClusterImage, rules_of: RulesOf, topics: Iterable[str] | None = None
) -> ElectionResult:
    """Elects leaders for leaderless partitions after unclean elections were allowed."""
    decided = ElectionResult()
    for name in image.topics if topics is None else topics:
        topic = image.topics.get(name)
        rules = rules_of(name)
        if topic is None or not rules.unclean_allowed:
            continue
        for index, info in enumerate(topic.partitions):
            if info.leader == NO_LEADER:
                decided.add(name, index, settle(info, rules_for(image, name, index, rules)))
    return decided


def min_insync_changed(image: ClusterImage, rules_of: RulesOf, topics: Iterable[str] | None = None) -> ElectionResult:
    """After a change of min.insync.replicas. If the in-sync set is large enough now, it commits without the eligible
    replicas, so they must not lead any more. `topics` None: all of them."""
    decided = ElectionResult()
    for name in image.topics if topics is None else topics:
        topic = image.topics.get(name)
        for index, info in enumerate(topic.partitions if topic is not None else ()):
            if info.isr and (info.eligible or info.last_known_eligible):
                decided.add(name, index, settle(info, rules_for(image, name, index, rules_of(name))))
    return decided


def elect(
    image: ClusterImage, topic: str, index: int, election: Election, rules_of: RulesOf
) -> tuple[ErrorCode, str | None, PartitionDecision | None]:
    """One partition's election on request (ElectLeaders)."""
    info = image.partition(topic, index)
    if info is None:
        what = f"No such partition as {topic}-{index}" if topic in image.topics else f"No such topic as {topic}"
        return ErrorCode.unknown_topic_or_partition, what, None
    has_leader = info.leader != NO_LEADER and image.is_alive(info.leader)
    if election is Election.PREFERRED and info.leader == _preferred(info):
        return ErrorCode.election_not_needed, f"{topic}-{index} is led by its preferred replica {info.leader}", None
    if election is Election.UNCLEAN and has_leader:
        return ErrorCode.election_not_needed, f"{topic}-{index} has a leader, {info.leader}", None
    settled = settle(info, rules_for(image, topic, index, rules_of(topic)), election=election)
    leader = info.leader if settled is None else settled.info.leader
    if election is Election.PREFERRED and leader != _preferred(info):
        why = f"the preferred replica {_preferred(info)} of {topic}-{index} is not alive and in sync {list(info.isr)}"
        return ErrorCode.preferred_leader_not_available, why, None
    if leader == NO_LEADER:
        return ErrorCode.eligible_leaders_not_available, _why_no_leader(image, topic, index, info), None
    return ErrorCode.none, None, settled


def _why_no_leader(image: ClusterImage, topic: str, index: int, info: PartitionInfo) -> str:
    offline = [replica for replica, loss in image.losses_of(topic, index).items() if loss is Loss.OFFLINE]
    if offline:
        return (
            f"the logs of {topic}-{index} on {counted(len(offline), 'live broker')} {offline} are in a log directory "
            "that is offline: repair it, or remove it from log.dirs, and start the broker again"
        )
    return f"no replica of {topic}-{index} is alive (replicas {list(info.replicas)})"


def _preferred(info: PartitionInfo) -> int:
    return next((r for r in info.replicas if r not in info.removing), info.replicas[0])


def rebalanced(image: ClusterImage, imbalance_percent: int, rules_of: RulesOf) -> ElectionResult:
    """Preferred elections for every broker that leads too few of its preferred partitions."""
    should: dict[int, int] = {}
    away: dict[int, list[tuple[str, int, PartitionInfo]]] = {}
    for name, index, info in image.partitions():
        preferred = _preferred(info)
        should[preferred] = should.get(preferred, 0) + 1
        if info.leader != preferred and preferred in info.isr and may_lead(image, preferred):
            away.setdefault(preferred, []).append((name, index, info))
    decided = ElectionResult()
    for broker_id, partitions in sorted(away.items()):
        if 100 * len(partitions) > imbalance_percent * should[broker_id]:
            for name, index, info in partitions:
                rules = rules_for(image, name, index, rules_of(name))
                decided.add(name, index, settle(info, rules, election=Election.PREFERRED))
    return decided
