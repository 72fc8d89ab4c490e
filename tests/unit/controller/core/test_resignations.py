"""A leader that cannot reach its followers asks for another leader: who is elected, and when the leader stays."""

from __future__ import annotations

from uuid import UUID

import pytest

from headrace.cluster.core.changes import BrokerRegistered, TopicCreated, apply
from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.controller.core.elections import TopicRules
from headrace.controller.core.isr_changes import IsrAnswer, IsrReport, decide_isr
from headrace.kernel.errors import ErrorCode


def resign(info: PartitionInfo, *, min_insync: int = 2, unclean: bool = False, brokers: int = 3) -> IsrAnswer:
    """Broker 1 asks for it, with brokers 1 to `brokers` alive."""
    registrations = [BrokerRegistered(BrokerInfo(number, 1, ())) for number in range(1, brokers + 1)]
    image = apply(ClusterImage(), [*registrations, TopicCreated(TopicInfo("t", UUID(int=1), (info,)))], 1)
    report = IsrReport("t", 0, info.leader_epoch, info.partition_epoch, ())
    return decide_isr(image, 1, report, lambda _: TopicRules(min_insync, unclean))


def alone(eligible: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionInfo:
    return PartitionInfo(1, 5, 7, (1,), replicas, eligible=eligible)


def test_an_eligible_replica_leads_and_the_former_leader_stays_eligible() -> None:
    answer = resign(alone(eligible=(3,)))
    assert answer.error is ErrorCode.new_leader_elected and answer.info is not None
    assert (answer.info.leader, answer.info.isr, answer.info.eligible) == (3, (3,), (1,))
    assert (answer.info.leader_epoch, answer.info.partition_epoch) == (6, 8)


@pytest.mark.parametrize(
    ("info", "options", "code"),
    [
        (alone(eligible=()), {}, ErrorCode.eligible_leaders_not_available),
        (alone(eligible=()), {"unclean": True}, ErrorCode.eligible_leaders_not_available),  # it leads, after all
        (alone(eligible=(3,)), {"brokers": 2}, ErrorCode.invalid_request),  # one alone could not commit either
        (alone(eligible=(2,), replicas=(1, 2)), {}, ErrorCode.invalid_request),
        (PartitionInfo(1, 5, 7, (1, 2), (1, 2, 3), eligible=(3,)), {"min_insync": 3}, ErrorCode.invalid_request),
        (PartitionInfo(2, 5, 7, (2,), (1, 2, 3), eligible=(3,)), {}, ErrorCode.invalid_request),  # another one leads
    ],
)
def test_a_leader_stays_if_no_other_replica_can_commit(
    info: PartitionInfo, options: dict[str, int], code: ErrorCode
) -> None:
    answer = resign(info, **options)  # type: ignore[arg-type]
    assert (answer.error, answer.settled) == (code, None)
