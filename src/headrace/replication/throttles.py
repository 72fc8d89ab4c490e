"""Replication throttles of this broker: rates from the broker's settings, replicas from each topic's settings.

`leader.replication.throttled.rate` limits what the leader sends to throttled replicas that are not in sync, and
`follower.replication.throttled.rate` what a follower fetches for them. Without a rate the cost is one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.cluster.core.image import ClusterImage
from headrace.config.attributes import BrokerAttributes
from headrace.replication.core.throttle import UNLIMITED, RateLimit, ThrottledReplicas

if TYPE_CHECKING:
    from headrace.replication.partition import Partition

LEADER: Final = "leader.replication.throttled.replicas"
FOLLOWER: Final = "follower.replication.throttled.replicas"


class Throttles:
    def __init__(self, broker_id: int, image: Callable[[], ClusterImage], monotonic_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._image = image
        self._now_ms = monotonic_ms
        self._limits = {LEADER: RateLimit(), FOLLOWER: RateLimit()}
        self._named: dict[tuple[str, str], tuple[Mapping[str, str] | None, ThrottledReplicas]] = {}

    def set_rates(self, config: BrokerAttributes) -> None:
        self._limits[LEADER].rate = config.leader_replication_throttled_rate
        self._limits[FOLLOWER].rate = config.follower_replication_throttled_rate

    @property
    def is_on(self) -> bool:
        """Whether a limit for fetching is set."""
        return self._limits[FOLLOWER].rate < UNLIMITED

    # As follower

    def holds_back(self, partition: Partition) -> bool:
        """Whether fetching this partition must wait: it is throttled, not in sync, and the rate is used up."""
        limit = self._limits[FOLLOWER]
        return (
            limit.rate < UNLIMITED
            and not (partition.info is not None and self._broker_id in partition.info.isr)
            and self._names(FOLLOWER, partition, self._broker_id)
            and limit.exceeded(self._now_ms())
        )

    def copied(self, partition: Partition, size_bytes: int) -> None:
        self._spent(FOLLOWER, partition, self._broker_id, size_bytes)

    # As leader

    def holds_back_sending(self, partition: Partition) -> bool:
        limit = self._limits[LEADER]
        return (
            limit.rate < UNLIMITED
            and self._names(LEADER, partition, self._broker_id)
            and limit.exceeded(self._now_ms())
        )

    def sent(self, partition: Partition, size_bytes: int) -> None:
        self._spent(LEADER, partition, self._broker_id, size_bytes)

    def _spent(self, side: str, partition: Partition, broker: int, size_bytes: int) -> None:
        limit = self._limits[side]
        if size_bytes and limit.rate < UNLIMITED and self._names(side, partition, broker):
            limit.spent(size_bytes, self._now_ms())

    def _names(self, side: str, partition: Partition, broker: int) -> bool:
        overrides = self._image().configs.get(("topic", partition.topic))
        known = self._named.get((side, partition.topic))
        if known is None or known[0] is not overrides:
            setting = "" if overrides is None else overrides.get(side, "")
            known = (overrides, ThrottledReplicas(setting))
            self._named[side, partition.topic] = known
        return known[1].holds(partition.index, broker)
