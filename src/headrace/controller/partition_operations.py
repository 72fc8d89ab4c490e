"""In-sync sets, elections and reassignments: operations for the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.cluster.core.changes import Change, PartitionChanged, apply
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.core.losses import ReplicaKey, ReplicaLosses
from headrace.controller.broker_operations import check_broker_epoch
from headrace.controller.core import elections
from headrace.controller.core.isr_changes import IsrAnswer, IsrReport, decide_isr
from headrace.controller.core.partition_states import Election
from headrace.controller.core.reassignments import reassign
from headrace.controller.election_policy import ElectionPolicy
from headrace.controller.ledger import Decision
from headrace.controller.results import PartitionResult
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition


def alter_partitions(
    policy: ElectionPolicy, broker_id: int, broker_epoch: int, reports: Sequence[IsrReport]
) -> Callable[[ClusterImage], Decision[list[IsrAnswer]]]:
    def decide(image: ClusterImage) -> Decision[list[IsrAnswer]]:
        check_broker_epoch(image, broker_id, broker_epoch)
        rules_of = policy.of(image)
        answers: list[IsrAnswer] = []
        changes: list[Change] = []
        for report in reports:
            answer = decide_isr(image, broker_id, report, rules_of)
            answers.append(answer)
            if answer.settled is not None:
                changes.append(PartitionChanged(report.topic, report.index, answer.settled.info))
        return Decision(answers, changes)

    return decide


def elect_leaders(
    policy: ElectionPolicy, election: Election, partitions: Sequence[TopicPartition] | None
) -> Callable[[ClusterImage], Decision[list[PartitionResult]]]:
    def decide(image: ClusterImage) -> Decision[list[PartitionResult]]:
        rules_of = policy.of(image)
        decided = elections.ElectionResult()
        results: list[PartitionResult] = []
        asked = (
            [TopicPartition(name, index) for name, index, _ in image.partitions()] if partitions is None else partitions
        )
        for partition in asked:
            code, message, settled = elections.elect(image, partition.topic, partition.partition, election, rules_of)
            decided.add(partition.topic, partition.partition, settled)
            # A request for all partitions gets no rows for partitions that need no election.
            if partitions is not None or code is not ErrorCode.election_not_needed:
                results.append(PartitionResult(partition, code, message))
        policy.report(decided)
        return Decision(results, decided.changes)

    return decide


def alter_reassignments(
    policy: ElectionPolicy,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool,
) -> Callable[[ClusterImage], Decision[list[PartitionResult]]]:
    def decide(image: ClusterImage) -> Decision[list[PartitionResult]]:
        rules_of = policy.of(image)
        results: list[PartitionResult] = []
        decided = elections.ElectionResult()
        for partition, target in targets.items():
            try:
                settled = reassign(
                    image,
                    partition.topic,
                    partition.partition,
                    target,
                    rules_of,
                    allow_replication_factor_change=allow_replication_factor_change,
                )
            except Fault as fault:
                results.append(PartitionResult(partition, fault.code, fault.message or None))
                continue
            decided.add(partition.topic, partition.partition, settled)
            results.append(PartitionResult(partition))
        policy.report(decided)
        return Decision(results, decided.changes)

    return decide


def report_replicas(
    policy: ElectionPolicy,
    broker_id: int,
    broker_epoch: int,
    losses: ReplicaLosses | None,
    full: Sequence[TopicPartition],
) -> Callable[[ClusterImage], Decision[None]]:
    """`losses` None: they are as before."""

    def decide(image: ClusterImage) -> Decision[None]:
        check_broker_epoch(image, broker_id, broker_epoch)
        rules_of = policy.of(image)
        results = []
        if losses is not None:
            results.append(elections.losses_reported(image, broker_id, losses, rules_of))
        missing = frozenset() if losses is None else losses.missing
        with_log = [one for one in full if one.topic in image.topics and _key(image, one) not in missing]
        results.append(elections.replicas_full(image, broker_id, with_log, rules_of))
        changes: list[Change] = []
        for decided in results:
            policy.report(decided)
            changes += decided.changes
        return Decision(None, changes)

    return decide


def _key(image: ClusterImage, partition: TopicPartition) -> ReplicaKey:
    return image.topics[partition.topic].id, partition.partition


def allowed_unclean(
    policy: ElectionPolicy, image: ClusterImage, changes: Sequence[Change], topics: Sequence[str] | None
) -> list[Change]:
    """Elections after a change of settings allowed them."""
    after = apply(image, changes, image.version)
    decided = elections.unclean_election_allowed(after, policy.of(after), topics)
    policy.report(decided)
    return decided.changes


def min_insync_changed(
    policy: ElectionPolicy, image: ClusterImage, changes: Sequence[Change], topics: Sequence[str] | None
) -> list[Change]:
    """Updates eligible leader replicas after a change of min.insync.replicas."""
    after = apply(image, changes, image.version)
    return elections.min_insync_changed(after, policy.of(after), topics).changes


def elect_where_allowed(policy: ElectionPolicy) -> Callable[[ClusterImage], Decision[None]]:
    """Elects leaders for leaderless partitions whose settings allow an unclean election."""

    def decide(image: ClusterImage) -> Decision[None]:
        return Decision(None, allowed_unclean(policy, image, (), None))

    return decide
