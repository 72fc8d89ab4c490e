"""AlterPartition: a leader reports its new in-sync set, and the controller accepts or rejects it (KIP-497, 841, 903).

The leader sends every member with the broker epoch it knows: a member that restarted since may have lost records that
the leader thinks it holds. Leader epoch and partition epoch identify a stale report, so the answer says whether the
leader was replaced, is behind, or talks to a controller that is behind.

A leader that cannot reach any follower reports the empty set to ask for another leader (`replication.core.isr`). The
controller does this if an eligible replica is alive, and enough others with it to commit again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from headrace.cluster.core.image import NO_LEADER, ClusterImage, PartitionInfo
from headrace.cluster.core.losses import Loss
from headrace.controller.core.elections import RulesOf, TopicRules, may_lead, rules_for
from headrace.controller.core.partition_states import ElectionRules, PartitionDecision, settle
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode

UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True)
class IsrReport:
    topic: str
    index: int
    leader_epoch: int
    partition_epoch: int
    members: Sequence[tuple[int, int]]  # (broker id, broker epoch or -1)
    topic_id: UUID | None = None  # the sender's topic id: another topic may have the name by now


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    error: ErrorCode
    info: PartitionInfo | None = None  # the state after an accepted change
    settled: PartitionDecision | None = None


def decide_isr(image: ClusterImage, sender: int, report: IsrReport, rules_of: RulesOf) -> IsrAnswer:
    info = image.partition(report.topic, report.index)
    if info is None:
        return IsrAnswer(ErrorCode.unknown_topic_or_partition)
    if report.topic_id not in (None, image.topics[report.topic].id):
        return IsrAnswer(ErrorCode.unknown_topic_id)
    if report.leader_epoch > info.leader_epoch or report.partition_epoch > info.partition_epoch:
        return IsrAnswer(ErrorCode.not_controller)  # the sender has seen a newer image than this controller
    if report.leader_epoch < info.leader_epoch:
        return IsrAnswer(ErrorCode.fenced_leader_epoch)
    if sender != info.leader:
        return IsrAnswer(ErrorCode.invalid_request)
    if report.partition_epoch < info.partition_epoch:
        return IsrAnswer(ErrorCode.invalid_update_version)
    if not report.members:
        return _without_leader(image, report, info, rules_of(report.topic))
    members = [broker_id for broker_id, _ in report.members]
    if sender not in members or not set(members) <= set(info.replicas) or len(set(members)) != len(members):
        return IsrAnswer(ErrorCode.invalid_request)
    for broker_id, epoch in report.members:
        broker = image.brokers.get(broker_id)
        if broker is None or (epoch not in (UNKNOWN_EPOCH, broker.epoch)):
            return IsrAnswer(ErrorCode.ineligible_replica)
        # A broker in shutdown may stay in the set, but may not be added.
        if not may_lead(image, broker_id) and broker_id not in info.isr:
            return IsrAnswer(ErrorCode.ineligible_replica)
    rules = rules_for(image, report.topic, report.index, rules_of(report.topic))
    # The leader counted a replica whose disk failed meanwhile.
    if any(rules.loss_of(broker_id) is Loss.OFFLINE for broker_id in members if broker_id not in info.isr):
        return IsrAnswer(ErrorCode.ineligible_replica)
    settled = settle(info, rules, isr=members)
    if settled is None:
        # A report of the unchanged set raises the partition epoch, so that late copies of older reports are refused.
        settled = PartitionDecision(replace(info, partition_epoch=info.partition_epoch + 1))
    after = settled.info
    if after.leader != sender:
        # The report completed a reassignment that removes the sender: it is accepted, and the sender no longer leads.
        return IsrAnswer(ErrorCode.new_leader_elected, after, settled)
    return IsrAnswer(ErrorCode.none, after, settled)


def _without_leader(image: ClusterImage, report: IsrReport, info: PartitionInfo, topic: TopicRules) -> IsrAnswer:
    others = [replica for replica in info.replicas if replica != info.leader and may_lead(image, replica)]
    if info.isr != (info.leader,) or len(others) < min(topic.min_insync, len(info.replicas)):
        return IsrAnswer(ErrorCode.invalid_request)
    losses = image.losses_of(report.topic, report.index)
    settled = settle(info, ElectionRules(others.__contains__, topic.min_insync, losses=losses), isr=())
    if settled is None or settled.info.leader == NO_LEADER:
        return IsrAnswer(ErrorCode.eligible_leaders_not_available)
    return IsrAnswer(ErrorCode.new_leader_elected, settled.info, settled)
