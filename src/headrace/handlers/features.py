"""The features of Kafka 4.3 (KIP-584) as this broker supports them: level ranges, and the levels in force.

Clients choose by these what to send: transaction.version 2 makes new Java clients leave the adding of partitions to the
brokers, group.version 1 offers the new consumer groups, share.version 1 share groups. A feature whose APIs are not in
the table is not named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.cluster.view import ClusterView
from headrace.handlers.api_versions import Features
from headrace.handlers.table import HandlerTable

# name → (lowest, highest level, the API without which it is not there)
_SUPPORTED: Final = {
    "group.version": (0, 1, 68),
    "metadata.version": (7, 30, None),
    "share.version": (0, 1, 78),
    "streams.version": (0, 1, 88),
    "transaction.version": (0, 2, 22),
    "eligible.leader.replicas.version": (0, 1, None),
}


@dataclass(frozen=True)
class ClusterFeatures:
    table: HandlerTable
    view: ClusterView

    def __call__(self) -> Features:
        supported = {
            name: (low, high)
            for name, (low, high, api_key) in _SUPPORTED.items()
            if api_key is None or self.table.get(api_key) is not None
        }
        image = self.view.current
        finalized = {name: min(image.features.get(name, high), high) for name, (_, high) in supported.items()}
        return Features(
            supported, {name: level for name, level in finalized.items() if level > 0}, max(image.version, 0)
        )
