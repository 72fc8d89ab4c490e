"""The features of Kafka 4.3 (KIP-584) as this broker supports them: supported level ranges, and finalized levels.

Clients choose requests by these: with transaction.version 2 new Java clients let the brokers add partitions to a
transaction, group.version 1 enables consumer groups, share.version 1 share groups, streams.version 1 streams groups. A
feature is listed only if its APIs are served.
"""

from __future__ import annotations

from typing import Final

from headrace.cluster.core.features import SUPPORTED, level_of
from headrace.cluster.view import ClusterView
from headrace.handlers.cluster.api_versions import Features
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.dataclass import dataclass

# The API that a feature needs.
_NEEDS: Final = {"group.version": 68, "share.version": 78, "streams.version": 88, "transaction.version": 22}


@dataclass(frozen=True)
class ClusterFeatures:
    table: HandlerTable
    view: ClusterView

    def __call__(self) -> Features:
        supported = {
            name: levels
            for name, levels in SUPPORTED.items()
            if name not in _NEEDS or self.table.get(_NEEDS[name]) is not None
        }
        image = self.view.current
        finalized = {name: level_of(image, name) for name in supported}
        return Features(
            supported, {name: level for name, level in finalized.items() if level > 0}, max(image.version, 0)
        )
