"""Registration, shutdown and producer ids of brokers: operations that the ledger runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from headrace.cluster.core.changes import BrokerRemoved, ProducerIdsAllocated
from headrace.cluster.core.features import why_unfit
from headrace.cluster.core.image import BrokerInfo, ClusterImage
from headrace.controller.core import elections
from headrace.controller.election_policy import ElectionPolicy
from headrace.controller.ledger import Decision
from headrace.kernel.errors import ErrorCode, Refused

logger = logging.getLogger(__name__)

# Size of a block, as in Kafka.
PRODUCER_ID_BLOCK: Final = 1000
_MAX_PRODUCER_ID: Final = 2**63 - 1

# Registered brokers, each with whether it started cleanly.
Present = Mapping[int, tuple[BrokerInfo, bool]]


def check_broker_epoch(image: ClusterImage, broker_id: int, broker_epoch: int) -> BrokerInfo:
    """Raises if the epoch is not that of the broker's current registration."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise Refused(ErrorCode.broker_id_not_registered, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        why = f"broker {broker_id} is registered with epoch {broker.epoch}, the request says {broker_epoch}"
        raise Refused(ErrorCode.stale_broker_epoch, why)
    return broker


def fit_members(image: ClusterImage, present: Present) -> Present:
    """Brokers that are members, or that support the finalized feature levels. A broker that read the levels just before
    they changed must not join.
    """

    def fits(broker: BrokerInfo) -> bool:
        known = image.brokers.get(broker.id)
        return (known is not None and known.epoch == broker.epoch) or why_unfit(image, broker) is None

    return {broker_id: found for broker_id, found in present.items() if fits(found[0])}


def membership(policy: ElectionPolicy, present: Present) -> Callable[[ClusterImage], Decision[None]]:
    def decide(image: ClusterImage) -> Decision[None]:
        fit = fit_members(image, present)
        decided = elections.membership_changed(image, fit, policy.of(image))
        for broker_id in sorted(set(image.brokers) - set(fit)):
            logger.info("broker %d is gone", broker_id)
        for broker_id, (broker, clean) in sorted(fit.items()):
            known = image.registered(broker_id)
            if known is None or known.fenced or known.epoch != broker.epoch:
                how = " after an unclean stop" if known is not None and not clean else ""
                logger.info(
                    "broker %d %s with epoch %d%s", broker_id, "is back" if known else "joined", broker.epoch, how
                )
        policy.report(decided)
        return Decision(None, decided.changes)

    return decide


def controlled_shutdown(
    policy: ElectionPolicy, broker_id: int, broker_epoch: int
) -> Callable[[ClusterImage], Decision[bool]]:
    def decide(image: ClusterImage) -> Decision[bool]:
        check_broker_epoch(image, broker_id, broker_epoch)
        decided = elections.shutting_down(image, broker_id, policy.of(image))
        policy.report(decided)
        return Decision(True, decided.changes)

    return decide


def unregister(broker_id: int) -> Callable[[ClusterImage], Decision[None]]:
    def decide(image: ClusterImage) -> Decision[None]:
        if broker_id in image.brokers:
            why = f"broker {broker_id} is alive: stop it first, or it would register again"
            raise Refused(ErrorCode.invalid_request, why)
        if broker_id not in image.fenced_brokers:
            raise Refused(ErrorCode.broker_id_not_registered, f"Broker ID {broker_id} is not currently registered")
        # Replicas that it still holds stay assigned to it until they are reassigned.
        return Decision(None, [BrokerRemoved(broker_id)])

    return decide


def allocate_producer_ids(broker_id: int, broker_epoch: int) -> Callable[[ClusterImage], Decision[tuple[int, int]]]:
    def decide(image: ClusterImage) -> Decision[tuple[int, int]]:
        check_broker_epoch(image, broker_id, broker_epoch)
        first = image.next_producer_id
        if first + PRODUCER_ID_BLOCK > _MAX_PRODUCER_ID:
            raise Refused(ErrorCode.unknown_server_error, "producer ids are used up")
        return Decision((first, PRODUCER_ID_BLOCK), [ProducerIdsAllocated(broker_id, first, first + PRODUCER_ID_BLOCK)])

    return decide
