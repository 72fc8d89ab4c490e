"""Converts a consumer group to a classic group after its last member with the new protocol has left (`migration`
decides).
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.coordinators.group.core.classic.rebalance import Rebalances
from headrace.coordinators.group.core.consumer import migration
from headrace.coordinators.group.core.consumer.group import ConsumerGroup, ConsumerMember
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.groups import Groups


class Downgrades:
    def __init__(self, groups: Groups, rebalances: Rebalances) -> None:
        self._groups = groups
        self._rebalances = rebalances

    def run(
        self,
        group: ConsumerGroup,
        gone: Sequence[ConsumerMember],
        joining: ConsumerMember | None,
        effects: Effects,
        now_ms: int,
        *,
        rebalances: bool,
    ) -> None:
        """`joining` takes the place of the member that left."""
        classic = migration.downgrade(group, gone, joining, self._groups.image, effects, now_ms, rebalances)
        self._groups.by_id[group.group_id] = classic
        for member in classic.members.values():
            self._rebalances.keep_alive(classic, member, effects)
        if rebalances:
            self._rebalances.prepare(classic, effects, now_ms)
