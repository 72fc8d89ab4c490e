"""What clusters of tests have in common, in one process or in several: settings of replication, and wrong calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MOST_BROKERS: Final = 9
_REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_MIN_IN_SYNC: Final = ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")
_REPLICATION: Final = {"replica.lag.time.max.ms": "3000", "replica.fetch.wait.max.ms": "100"}


class ClusterError(ValueError):
    """The cluster has no such broker, or it is not in that state."""


def check_brokers(brokers: int) -> None:
    """Raises ClusterError."""
    if not 1 <= brokers <= _MOST_BROKERS:
        raise ClusterError(f"brokers={brokers}: must be between 1 and {_MOST_BROKERS}")


def replicated_settings(brokers: int) -> dict[str, str]:
    """Up to three replicas of every topic, of which two must be in sync."""
    factors = dict.fromkeys(_REPLICATION_FACTORS, str(min(brokers, 3)))
    return {**_REPLICATION, **factors, **dict.fromkeys(_MIN_IN_SYNC, str(min(brokers, 2)))}


def listed(brokers: Iterable[int]) -> str:
    named = ", ".join(str(one) for one in sorted(brokers))
    return f"brokers {named}" if named else "none"
